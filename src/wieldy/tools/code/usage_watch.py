"""What a program in a sandbox uses, with all that it has started, and whether it may.

Nothing but the standard library is imported, because the process that keeps a sandbox uses
this.
"""

import os
import stat
import time
from collections.abc import Iterable
from typing import Any

from wieldy.execution.process_tree import ProcessFacts, find_descendants, read_process

from .folder_usage import TooDeep, measure_folder

# Looking at the disk may take this share of the time.
_DISK_SHARE = 0.1
_DISK_SECONDS = 0.1
_INODE_BYTES = 1024
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
        self.peak = 0
        self.cpu_ms = 0.0
        # The first process in the sandbox, through which its files in memory are seen.
        self.inside: int | None = None
        if folder is not None:
            # A folder that is full already may be emptied, and not filled further.
            self._most_disk = max(self._most_disk, self._measure_disk([], 1 << 62))

    def find_excess(self) -> str | None:
        """The limit that is exceeded, by its name, or None."""
        if time.monotonic() - self._started > self._limits["timeout"]:
            return "timeout"
        found = find_descendants([self._root])
        if len(found) - self._wrappers > self._limits["processes"]:
            return "processes"
        if self._spent(found.values()) > self._limits["cpu"] * 1000:
            return "cpu"
        files = self._files_in_memory()
        if self._held(found, files) > self._limits["memory"]:
            return "memory"
        return "disk" if self._is_disk_full(found, files) else None

    def _spent(self, found: Iterable[ProcessFacts]) -> float:
        spent = sum(each.cpu_ms + each.reaped_ms for each in found)
        self.cpu_ms = max(self.cpu_ms, spent)
        return self.cpu_ms

    def _held(self, found: dict[int, ProcessFacts], files: int) -> int:
        """The memory that is held, without counting shared pages twice where that matters."""
        held = sum(each.resident for each in found.values()) + files
        if held > self._limits["memory"]:
            held = sum(map(_proportional_size, found)) + files
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

    def _is_disk_full(self, found: Iterable[int], files: int) -> bool:
        began = time.monotonic()
        if self._folder is None or began < self._next_look:
            return False
        full = bool(self._measure_disk(found, self._most_disk) + files > self._most_disk)
        took = time.monotonic() - began
        self._next_look = began + max(_DISK_SECONDS, took / _DISK_SHARE)
        return full

    def _measure_disk(self, found: Iterable[int], most: int) -> int:
        if self._folder is None:
            return 0
        try:
            size = measure_folder(self._folder, most)
            device = os.stat(self._folder).st_dev
        except TooDeep:
            return most + 1
        except OSError:
            return 0
        return size + sum(_nameless_files(found, device).values())


def _proportional_size(pid: int) -> int:
    """The memory of a process, in which a page shared with others counts in part."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:
            lines = [line for line in rollup if line.startswith((b"Pss:", b"Swap:"))]
        return sum(int(line.split()[1]) for line in lines) * 1024
    except OSError:
        # It has just ended and holds nothing any more, or it can't be seen in such detail.
        facts = read_process(pid)
        return 0 if facts is None else facts.resident


def _nameless_files(found: Iterable[int], device: int) -> dict[int, int]:
    """Files that are open and in no folder any more, by inode, with what they take."""
    sizes: dict[int, int] = {}
    for pid in found:
        try:
            handles = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for handle in handles:
            try:
                file = os.stat(f"/proc/{pid}/fd/{handle}")
            except OSError:
                continue
            if stat.S_ISREG(file.st_mode) and not file.st_nlink and file.st_dev == device:
                sizes[file.st_ino] = file.st_blocks * 512
    return sizes
