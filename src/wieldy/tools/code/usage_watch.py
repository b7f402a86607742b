"""What a program in a sandbox uses, with all that it has started, and whether it may.

Nothing but the standard library is imported, because the process that keeps a sandbox uses
this.
"""

import os
import signal
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from wieldy.execution.process_tree import (
    ProcessFacts,
    find_descendants,
    find_thread,
    read_process,
    send_signal,
    stop_descendants,
)

from .folder_watch import FolderWatch
from .hidden_usage import HiddenUsage, HiddenWatch
from .memory_group import MemoryGroup

# Looking at open files and maps may take this share of the time.
_LOOK_SHARE = 0.1
_LOOK_SECONDS = 0.1
_INODE_BYTES = 1024
# What a process holds alone, or as pages of files on the disk: what it sees, and what the system
# keeps for it besides. A program can make the tables larger than all that is in its memory.
_OWN_MEMORY = (b"RssAnon:", b"RssFile:", b"VmPTE:", b"VmSwap:")
_SHARED_MEMORY = b"RssShmem:"
# The places in a sandbox where files are kept in memory.
_MEMORY_PLACES = ("tmp", "dev/shm")


class UsageWatch:
    """The limits of one program, and what it was seen to use.

    Args:
        root: The process below which the program runs.
        limits: The limits: `memory`, `processes`, `cpu`, `disk`, `timeout`.
        folder: The folder that the program writes to, or None.
        wrappers: How many processes are there beside the program.
    """

    def __init__(self, root: int, limits: dict[str, Any], folder: str | None, wrappers: int):
        self._root = root
        self._limits = limits
        self._wrappers = wrappers
        self._next_look = 0.0
        self._hidden = HiddenUsage()
        self._peak = 0
        self.cpu_ms = 0.0
        # The first process in the sandbox, through which its files in memory are seen.
        self.inside: int | None = None
        # Where the system holds the memory of the program.
        self.group: MemoryGroup | None = None
        # None if the program can write to no folder.
        self._disk = None if folder is None else FolderWatch(folder, limits["disk"])
        self._watch = HiddenWatch(folder, limits["disk"] if self._disk is None else self._disk.most)
        self._started = time.monotonic()

    @property
    def peak(self) -> int:
        """The most memory that was held."""
        # Older systems with the second version of cgroups don't tell it.
        return self._peak if self.group is None else max(self._peak, self.group.peak)

    def begin(self) -> None:
        """The program begins now; no process is forked any more."""
        self._started = time.monotonic()
        if self._disk is not None:
            self._disk.begin()

    def find_excess(self) -> str | None:
        """The limit that is exceeded, by its name, or None."""
        if time.monotonic() - self._started > self._limits["timeout"]:
            return "timeout"
        found = find_descendants([self._root])
        if len(found) - self._wrappers > self._limits["processes"]:
            return "processes"
        if self._spent_time(found.values()) > self._limits["cpu"] * 1000:
            return "cpu"
        files = self._files_in_memory()
        self._look_again(found)
        if self._exceeds_memory(found, files):
            return "memory"
        if self._disk is not None and self._disk.is_in_doubt:
            return "disk" if self._exceeds_disk_now(self._disk, files) else None
        return "disk" if self._exceeds_disk(files) else None

    def find_excess_at_end(self) -> str | None:
        """The limit that is found to be exceeded when all processes are gone, or None."""
        if self.group is not None and self.group.is_exceeded():
            return "memory"
        if self._disk is None:
            return None
        return "disk" if self._disk.measure_still() > self._disk.most else None

    def _exceeds_disk(self, files: int) -> bool:
        if self._disk is None:
            return False
        kept = self._disk.size + self._hidden.files
        if self._disk.before > self._limits["disk"]:
            # It may only become smaller. Files in memory have a limit of their own.
            files = 0
        return kept + files > self._disk.most

    def _exceeds_disk_now(self, disk: FolderWatch, files: int) -> bool:
        """Measure the disk while the program is stopped; it goes on if it may."""
        stopped = stop_descendants(self._root)
        disk.measure_still()
        self._hidden = self._watch.look(stopped, self.inside)
        exceeded = self._exceeds_disk(files)
        for pid in () if exceeded else stopped:
            send_signal(pid, signal.SIGCONT)
        return exceeded

    def _exceeds_memory(self, found: dict[int, ProcessFacts], files: int) -> bool:
        if self.group is not None:
            used, sockets = self.group.used, self._hidden.sockets
            self._peak = max(self._peak, used)
            # Not every system counts the buffers of every kind of socket there.
            held = used + sockets if sockets else 0
            return self.group.is_exceeded() or held > int(self._limits["memory"])
        return self._held_memory(found, files) > int(self._limits["memory"])

    def _spent_time(self, found: Iterable[ProcessFacts]) -> float:
        spent = sum(each.cpu_ms + each.reaped_ms for each in found)
        self.cpu_ms = max(self.cpu_ms, spent)
        return self.cpu_ms

    def _held_memory(self, found: dict[int, ProcessFacts], files: int) -> int:
        """The memory that is held. What processes share counts once, and by its size."""
        hidden = self._hidden
        seen = [_read_memory(pid) for pid in found]
        # What was shared a moment ago has not been looked for yet.
        shared = max(hidden.shared + files, *(each.shared for each in seen), 0)
        others = shared + hidden.sockets + hidden.tables
        held = sum(each.own for each in seen) + others
        if held > self._limits["memory"]:
            held = sum(map(_proportional_size, found)) + others
        self._peak = max(self._peak, held)
        return held

    def _files_in_memory(self) -> int:
        if self.inside is None or read_process(self.inside) is None:
            return 0
        size = 0
        for place in _MEMORY_PLACES:
            try:
                found = os.statvfs(f"/proc/{self.inside}/root/{place}")
            except OSError:
                continue
            # Until the sandbox stands, these are places of the host.
            if found.f_blocks * found.f_frsize == self._limits["tmpfs"]:
                inodes = found.f_files - found.f_ffree
                size += (found.f_blocks - found.f_bfree) * found.f_frsize + inodes * _INODE_BYTES
        return size

    def _look_again(self, found: Iterable[int]) -> None:
        """Look for what hides, which takes long, unless that was done a moment ago."""
        began = time.monotonic()
        if began < self._next_look:
            return
        self._hidden = self._watch.look(found, self.inside)
        took = time.monotonic() - began
        self._next_look = began + max(_LOOK_SECONDS, took / _LOOK_SHARE)


class _Memory(NamedTuple):
    """What a process holds: its own, with pages of programs, and what it sees of shared memory."""

    own: int
    shared: int


def _read_memory(pid: int) -> _Memory:
    try:
        with open(f"/proc/{find_thread(pid)}/status", "rb") as status:
            lines = [line for line in status if line.startswith((*_OWN_MEMORY, _SHARED_MEMORY))]
    except OSError:
        return _Memory(0, 0)
    sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines}
    shared = sizes.pop(_SHARED_MEMORY, 0)
    return _Memory(sum(sizes.values()), shared)


def _proportional_size(pid: int) -> int:
    """The own memory of a process, in which pages of files that others have too count in part."""
    memory = _read_memory(pid)
    try:
        with open(f"/proc/{find_thread(pid)}/smaps_rollup", "rb") as rollup:
            lines = [line.split() for line in rollup]
    except OSError:
        # It has just ended and holds nothing any more, or it can't be seen in such detail.
        return memory.own
    sizes = {words[0]: int(words[1]) * 1024 for words in lines[1:]}
    resident = sizes.get(b"Rss:", 0) - memory.shared
    if b"Pss_Anon:" in sizes:
        part = sizes[b"Pss_Anon:"] + sizes[b"Pss_File:"]
    else:
        part = sizes.get(b"Pss:", 0)
    return memory.own - max(0, resident - part)
