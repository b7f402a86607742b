"""Look at processes from outside."""

import os
from pathlib import Path

from tests.mcp.waiting import alive, children_of, until


def tree_of(pid: int) -> set[int]:
    """Every process below one, at whatever depth."""
    found: set[int] = set()
    rest = {pid}
    while rest:
        below = children_of(rest.pop()) - found
        found |= below
        rest |= below
    return {each for each in found if alive(each)}


def is_headless(pid: int) -> bool:
    """Whether the first thread of a process has ended, and another goes on."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return words[0] == "Z" and int(words[17]) > 1


async def written(path: Path) -> int:
    """The process id that somebody writes into a file."""
    await until(path.exists)
    return _read(path)


def _read(path: Path) -> int:
    return int(path.read_text())


async def gone(*pids: int) -> None:
    """Wait until none of these processes runs."""
    await until(lambda: not any(map(alive, pids)))


def note_pid(path: str, pid: int | None = None) -> None:
    """Write a process id where a test looks for it, whole or not at all."""
    partly = Path(f"{path}.partly")
    partly.write_text(f"{os.getpid() if pid is None else pid}\n")
    partly.rename(path)
