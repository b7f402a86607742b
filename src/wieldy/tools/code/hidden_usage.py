"""What a program holds where neither a folder nor the size of a process shows it.

A file without a name takes room on the disk while a process has it open or mapped, and while it
lies in a socket on its way to another process. What is written to a socket or a pipe and not read
is in the memory of the system. Memory that processes share is there while one of them has it
mapped, even if none of them sees its pages. Nothing but the standard library is imported, because
the process that keeps a sandbox uses this.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wieldy.execution.process_tree import find_thread

from .sandbox_root import WORKSPACE

# The share of the disk that a mapped file counts as where only root could measure it.
_ASSUMED_SHARE = 16
# How long handles may be on their way between processes. Nobody leaves them there for longer,
# but to hide what they hold.
_ON_THE_WAY_SECONDS = 2.0
_MAPS_SECONDS = 0.05
# The bytes that a socket can keep unread, and the number of sockets that are not counted.
_SOCKET_BYTES = 425_984
_FREE_SOCKETS = 32
_PIPE_BYTES = 65_536
# What bytes on their way take: each twice its size, and a few that were sent alone much more.
_BYTES_FOR_ONE, _BYTES_FOR_LONE = 2, 1024
_TCP_LIMITS = {"tx": "/proc/sys/net/ipv4/tcp_wmem", "rx": "/proc/sys/net/ipv4/tcp_rmem"}
_MAX_BUFFER = 1 << 23
# What the system keeps for each part of the memory that a process has mapped.
_MAP_BYTES = 256
# Memory without a file that processes share, and files that are only memory.
_SHARED = re.compile(
    rb"^0*([0-9a-f]+)-0*([0-9a-f]+) ...s ([0-9a-f]+) \S+ (\d+) +/(?:dev/zero|memfd:|SYSV).*$",
    re.MULTILINE,
)
_SENT = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)


class HiddenUsage(NamedTuple):
    """Bytes that nobody is seen to hold.

    Attributes:
        files: Those on the disk of files without a name.
        sockets: Those in sockets and pipes.
        shared: Those of shared memory.
        tables: Those in which the system notes what is mapped.
    """

    files: int = 0
    sockets: int = 0
    shared: int = 0
    tables: int = 0


class _Maps(NamedTuple):
    """What a process has mapped: files without a name, and shared memory, both by their inode.

    `number` says how many maps it has.
    """

    files: dict[int, int]
    shared: dict[bytes, int]
    number: int


_NO_MAPS = _Maps({}, {}, 0)


class _Mapped(NamedTuple):
    """The size of a file that is mapped, and what it takes on its disk."""

    size: int
    on_disk: int


class HiddenWatch:
    """Looks for what the processes of one program hold.

    Args:
        folder: The folder that the program writes to, or None.
        most_disk: How much it may keep there.
    """

    def __init__(self, folder: str | None, most_disk: int) -> None:
        self._device = None if folder is None else os.stat(folder).st_dev
        self._most_disk = most_disk
        places = "|".join(map(re.escape, (WORKSPACE, folder or WORKSPACE)))
        line = rf"^0*([0-9a-f]+)-0*([0-9a-f]+) \S+ \S+ \S+ (\d+) +(?:{places})/.* \(deleted\)$"
        self._gone = re.compile(os.fsencode(line), re.MULTILINE)
        # Of each process when it was last looked at, and the files that it has mapped.
        self._mapped: dict[int, tuple[float, _Maps]] = {}
        # The most that was seen of each piece of shared memory which is still mapped.
        self._shared: dict[bytes, int] = {}
        self._on_the_way_since: float | None = None

    def look(self, found: Iterable[int], inside: int | None = None) -> HiddenUsage:
        """Count what these processes hold now; `inside` is one that sees their network."""
        processes = {pid: f"/proc/{find_thread(pid)}" for pid in found}
        files: dict[int, int] = {}
        sockets: dict[int, str] = {}
        pipes: set[int] = set()
        for place in processes.values():
            for handle, held in _open_handles(place):
                if stat.S_ISSOCK(held.st_mode):
                    sockets[held.st_ino] = f"{place}/fdinfo/{handle}"
                elif stat.S_ISFIFO(held.st_mode):
                    pipes.add(held.st_ino)
                elif _is_nameless(held) and held.st_dev == self._device:
                    files[held.st_ino] = held.st_blocks * 512
        maps = self._look_at_maps(processes)
        size = sum({**maps.files, **files}.values())
        if self._hides_handles(sockets.values()):
            size = self._most_disk + 1
        count = len(sockets)
        if inside is not None:
            count = _count_sockets(inside, set(sockets))
        buffers = max(0, count - _FREE_SOCKETS) * _SOCKET_BYTES
        buffers += max(0, len(pipes) - _FREE_SOCKETS) * _PIPE_BYTES
        if inside is not None:
            buffers += _measure_connections(inside)
        return HiddenUsage(size, buffers, sum(maps.shared.values()), maps.number * _MAP_BYTES)

    def _look_at_maps(self, processes: dict[int, str]) -> _Maps:
        """The files without a name and the shared memory that are mapped.

        A process can have so many maps that reading them takes long. So each look reads those
        of some processes, and knows the others from before.
        """
        known = {pid: self._mapped.get(pid, (0.0, _NO_MAPS)) for pid in processes}
        began = time.monotonic()
        for pid in sorted(known, key=lambda pid: known[pid][0]):
            now = time.monotonic()
            if now - began > _MAPS_SECONDS:
                break
            known[pid] = (now, self._read_maps(processes[pid]))
        self._mapped = known
        files: dict[int, int] = {}
        shared: dict[bytes, int] = {}
        for _, maps in known.values():
            files |= maps.files
            for inode, size in maps.shared.items():
                # All of it stays in memory as long as some of it is mapped.
                shared[inode] = max(size, shared.get(inode, 0), self._shared.get(inode, 0))
        self._shared = shared
        return _Maps(files, shared, sum(maps.number for _, maps in known.values()))

    def _read_maps(self, place: str) -> _Maps:
        try:
            with open(f"{place}/maps", "rb") as maps:
                text = maps.read()
        except OSError:
            return _NO_MAPS
        sizes: dict[int, int] = {}
        for start, end, inode in self._gone.findall(text):
            if int(inode) not in sizes:
                held = _find_mapped(place, start, end)
                assumed = self._most_disk // _ASSUMED_SHARE
                sizes[int(inode)] = assumed if held is None else held.on_disk
        shared: dict[bytes, int] = {}
        for start, end, offset, inode in _SHARED.findall(text):
            size = int(offset, 16) + int(end, 16) - int(start, 16)
            if size > shared.get(inode, -1):
                held = _find_mapped(place, start, end)
                shared[inode] = size if held is None else max(size, held.size)
        return _Maps(sizes, shared, text.count(b"\n"))

    def _hides_handles(self, sockets: Iterable[str]) -> bool:
        """Whether handles have been on their way all the time, where nobody can look at them."""
        if not any(map(_has_sent_handles, sockets)):
            self._on_the_way_since = None
            return False
        if self._on_the_way_since is None:
            self._on_the_way_since = time.monotonic()
        return time.monotonic() - self._on_the_way_since > _ON_THE_WAY_SECONDS


def _is_nameless(held: os.stat_result) -> bool:
    return stat.S_ISREG(held.st_mode) and not held.st_nlink


def _find_mapped(place: str, start: bytes, end: bytes) -> _Mapped | None:
    """The file that a process has mapped at an address; None where only root could see it."""
    try:
        found = os.stat(f"{place}/map_files/{start.decode()}-{end.decode()}")
    except PermissionError:
        return None
    except OSError:
        return _Mapped(0, 0)  # It is not mapped any more.
    return _Mapped(found.st_size, found.st_blocks * 512)


def _count_sockets(pid: int, held: set[int]) -> int:
    """How many sockets there are in the network of a process, also those that nobody has open.

    A connection that nobody has accepted keeps what was sent through it.
    """
    try:
        with open(f"/proc/{pid}/net/unix", "rb") as table:
            inodes = [int(line.split()[6]) for line in table.readlines()[1:]]
    except OSError:
        return len(held)
    return len(held | set(inodes) - {0}) + inodes.count(0)


def _open_handles(place: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        handles = os.listdir(f"{place}/fd")
    except OSError:
        return
    for handle in handles:
        try:
            yield handle, os.stat(f"{place}/fd/{handle}")
        except OSError:
            continue  # It was closed meanwhile.


def _has_sent_handles(path: str) -> bool:
    try:
        with open(path, "rb") as info:
            return _SENT.search(info.read()) is not None
    except OSError:
        return False


def _measure_connections(pid: int) -> int:
    """The bytes that TCP keeps in the network of a process, also for connections without a handle.

    How much room they take depends on the pieces in which they came, up to the largest buffer.
    """
    most = {queue: _read_largest(path) for queue, path in _TCP_LIMITS.items()}
    total = 0
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", "rb") as table:
                lines = table.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            sent, _, received = line.split()[4].partition(b":")
            total += min(most["tx"], _estimate_buffer(int(sent, 16)))
            total += min(most["rx"], _estimate_buffer(int(received, 16)))
    return total


def _estimate_buffer(waiting: int) -> int:
    return waiting * _BYTES_FOR_ONE + min(waiting * _BYTES_FOR_LONE, _SOCKET_BYTES)


def _read_largest(path: str) -> int:
    try:
        with open(path, "rb") as sizes:
            return int(sizes.read().split()[2])
    except (OSError, ValueError, IndexError):
        return _MAX_BUFFER
