"""What a program in a sandbox uses, with all that it has started, and whether it may.

Nothing but the standard library is imported, because the process that keeps a sandbox uses
this.
"""

import os
import time
from collections.abc import Iterable
from typing import Any

from wieldy.execution.process_tree import (
    ProcessFacts,
    find_descendants,
    find_thread,
    read_process,
)

from .folder_usage import TooDeep, measure_folder
from .hidden_usage import HiddenUsage, HiddenWatch

# Looking at the disk and at open files may take this share of the time.
_LOOK_SHARE = 0.1
_LOOK_SECONDS = 0.1
_INODE_BYTES = 1024
# The bytes that the system keeps for a process besides the memory that it can see.
_UNSEEN = (b"VmPTE:", b"VmSwap:")
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
        self._folder = folder
        self._wrappers = wrappers
        self._started = time.monotonic()
        self._next_look = 0.0
        self._most_disk = limits["disk"]
        self._disk = 0
        self._hidden = HiddenUsage()
        self.peak = 0
        self.cpu_ms = 0.0
        # The first process in the sandbox, through which its files in memory are seen.
        self.inside: int | None = None
        if folder is not None:
            # A folder that is full already may be emptied, and not filled further.
            self._most_disk = max(self._most_disk, self._measure_disk(1 << 62))
        self._watch = HiddenWatch(folder, self._most_disk)

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
        if self._held_memory(found, files) > self._limits["memory"]:
            return "memory"
        full = self._disk + self._hidden.files + files > self._most_disk
        return "disk" if full and self._folder is not None else None

    def _spent_time(self, found: Iterable[ProcessFacts]) -> float:
        spent = sum(each.cpu_ms + each.reaped_ms for each in found)
        self.cpu_ms = max(self.cpu_ms, spent)
        return self.cpu_ms

    def _held_memory(self, found: dict[int, ProcessFacts], files: int) -> int:
        """The memory that is held, without counting shared pages twice where that matters."""
        others = files + self._hidden.sockets + sum(map(_unseen_size, found))
        held = sum(each.resident for each in found.values()) + others
        if held > self._limits["memory"]:
            held = sum(map(_proportional_size, found)) + others
        self.peak = max(self.peak, held)
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
        """Measure what takes long to measure, unless that was done a moment ago."""
        began = time.monotonic()
        if began < self._next_look:
            return
        self._disk = self._measure_disk(self._most_disk)
        self._hidden = self._watch.look(found)
        took = time.monotonic() - began
        self._next_look = began + max(_LOOK_SECONDS, took / _LOOK_SHARE)

    def _measure_disk(self, most: int) -> int:
        if self._folder is None:
            return 0
        try:
            return measure_folder(self._folder, most)
        except TooDeep:
            return most + 1
        except OSError:
            return 0


def _unseen_size(pid: int) -> int:
    """The tables for the memory of a process, and what of it was moved to the disk.

    A program can make the tables larger than all that is in its memory.
    """
    try:
        with open(f"/proc/{find_thread(pid)}/status", "rb") as status:
            return sum(int(line.split()[1]) for line in status if line.startswith(_UNSEEN)) * 1024
    except OSError:
        return 0


def _proportional_size(pid: int) -> int:
    """The memory of a process, in which a page shared with others counts in part."""
    try:
        with open(f"/proc/{find_thread(pid)}/smaps_rollup", "rb") as rollup:
            lines = [line for line in rollup if line.startswith(b"Pss:")]
        return sum(int(line.split()[1]) for line in lines) * 1024
    except OSError:
        # It has just ended and holds nothing any more, or it can't be seen in such detail.
        facts = read_process(pid)
        return 0 if facts is None else facts.resident
