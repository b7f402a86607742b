"""What a program holds where neither a folder nor the size of a process shows it.

A file without a name takes room on the disk while a process has it open or mapped, and while it
lies in a socket on its way to another process. What is written to a socket and not read is in
the memory of the system. Nothing but the standard library is imported, because the process that
keeps a sandbox uses this.
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
_SENT = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)


class HiddenUsage(NamedTuple):
    """Bytes on the disk of files without a name, and bytes that sockets may keep in memory."""

    files: int = 0
    sockets: int = 0


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
        self._mapped: dict[int, tuple[float, dict[int, int]]] = {}
        self._on_the_way_since: float | None = None

    def look(self, found: Iterable[int]) -> HiddenUsage:
        """Count what these processes hold now."""
        processes = {pid: f"/proc/{find_thread(pid)}" for pid in found}
        files: dict[int, int] = {}
        sockets: dict[int, str] = {}
        for place in processes.values():
            for handle, held in _open_handles(place):
                if stat.S_ISSOCK(held.st_mode):
                    sockets[held.st_ino] = f"{place}/fdinfo/{handle}"
                elif _is_nameless(held) and held.st_dev == self._device:
                    files[held.st_ino] = held.st_blocks * 512
        size = sum({**self._look_at_maps(processes), **files}.values())
        if self._hides_handles(sockets.values()):
            size = self._most_disk + 1
        return HiddenUsage(size, max(0, len(sockets) - _FREE_SOCKETS) * _SOCKET_BYTES)

    def _look_at_maps(self, processes: dict[int, str]) -> dict[int, int]:
        """The files without a name that are mapped, by inode.

        A process can have so many maps that reading them takes long. So each look reads those
        of some processes, and knows the others from before.
        """
        known = {pid: self._mapped.get(pid, (0.0, {})) for pid in processes}
        began = time.monotonic()
        for pid in sorted(known, key=lambda pid: known[pid][0]):
            now = time.monotonic()
            if now - began > _MAPS_SECONDS:
                break
            known[pid] = (now, self._read_maps(processes[pid]))
        self._mapped = known
        return {inode: size for _, sizes in known.values() for inode, size in sizes.items()}

    def _read_maps(self, place: str) -> dict[int, int]:
        try:
            with open(f"{place}/maps", "rb") as maps:
                text = maps.read()
        except OSError:
            return {}
        sizes: dict[int, int] = {}
        for start, end, inode in self._gone.findall(text):
            if int(inode) not in sizes:
                sizes[int(inode)] = self._measure(
                    f"{place}/map_files/{start.decode()}-{end.decode()}"
                )
        return sizes

    def _measure(self, path: str) -> int:
        try:
            return os.stat(path).st_blocks * 512
        except PermissionError:
            return self._most_disk // _ASSUMED_SHARE
        except OSError:
            return 0  # It is not mapped any more.

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
