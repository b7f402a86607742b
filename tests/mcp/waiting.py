"""Wait for something outside to become true, bounded."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress


async def until(true: Callable[[], bool], seconds: float = 120) -> None:
    """Look again and again, for things that send no event: processes and files."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become true"
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs, if only in its last thread; one that waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            words = stat.read().rpartition(")")[2].split()
            return words[0] != "Z" or int(words[17]) > 1
    except OSError:
        return False


def parent_of(pid: int) -> int:
    """The process that started this one."""
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def children_of(pid: int) -> set[int]:
    """The processes whose parent this is."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                if parent_of(int(entry)) == pid:
                    found.add(int(entry))
    return found
