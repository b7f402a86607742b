"""Find, measure and kill a process with all processes that it has started, through /proc.

This module imports only the standard library, so that any supervisor of programs can use it.
"""

import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
# A tree that still grows after this many looks can't be stopped.
_MAX_LOOKS = 1000
_QUIET_LOOKS = 5
_BETWEEN_LOOKS = 0.01


class ProcessFacts(NamedTuple):
    """Facts from /proc about one process, or about several together.

    `reaped_ms` is the processor time of the children that it has waited for.
    """

    parent: int
    state: str
    cpu_ms: float
    resident: int
    reaped_ms: float = 0.0


def read_process(pid: int) -> ProcessFacts | None:
    """The facts of a process; None if there is none, or no /proc."""
    words = _read_words(pid)
    if words is None:
        return None
    shown = words
    if words[0] in b"ZX" and int(words[17]) > 1:
        # Its first thread has ended, and the others go on with all that the process holds.
        shown = _read_words(find_thread(pid)) or words
    spent, reaped = ((int(words[n]) + int(words[n + 1])) * 1000 / _TICK for n in (11, 13))
    return ProcessFacts(int(words[1]), shown[0].decode(), spent, int(shown[21]) * _PAGE, reaped)


def find_thread(pid: int) -> int:
    """A living thread of a process: `/proc/` shows by its number what the process holds.

    It is the first thread, which has the number of the process, unless that has ended before
    the others.
    """
    try:
        threads = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return pid
    for thread in threads if len(threads) > 1 else ():
        words = _read_words(thread)
        if words is not None and words[0] not in b"ZX":
            return thread
    return pid


def _read_words(number: int) -> list[bytes] | None:
    """The fields that /proc has of a process or a thread, from its state on."""
    try:
        with open(f"/proc/{number}/stat", "rb") as stat:
            # The name is in parentheses, and may itself contain spaces and parentheses.
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return None


def find_descendants(roots: Iterable[int]) -> dict[int, ProcessFacts]:
    """Every living descendant of these processes, at any depth, with its facts."""
    children: dict[int, list[tuple[int, ProcessFacts]]] = {}
    for entry in _list_processes():
        facts = read_process(entry)
        if facts is not None:
            children.setdefault(facts.parent, []).append((entry, facts))
    found: dict[int, ProcessFacts] = {}
    rest = list(roots)
    while rest:
        for pid, facts in children.get(rest.pop(), ()):
            if pid not in found:
                found[pid] = facts
                rest.append(pid)
    return {pid: facts for pid, facts in found.items() if facts.state not in "ZX"}


def measure_tree(root: int) -> ProcessFacts | None:
    """The usage of a process and its descendants together; shared pages count in each of them."""
    own = read_process(root)
    if own is None:
        return None
    every = [own, *find_descendants([root]).values()]
    cpu = sum(each.cpu_ms for each in every)
    return ProcessFacts(own.parent, own.state, cpu, sum(each.resident for each in every))


def kill_descendants(root: int, spared: Iterable[int] = ()) -> bool:
    """Kill all descendants of a process except the spared; returns whether there were any.

    Every process is stopped before any is killed.
    """
    stopped = stop_descendants(root, spared)
    for pid in stopped:
        send_signal(pid, signal.SIGKILL)
    return bool(stopped)


def stop_descendants(root: int, spared: Iterable[int] = ()) -> set[int]:
    """Stop all descendants of a process except the spared.

    A stopped process can't start another, so the search ends even if the processes multiply.
    """
    kept = frozenset(spared)
    stopped: set[int] = set()
    for _ in range(_MAX_LOOKS):
        below = _find_below(root, kept)
        new = below - stopped
        if not new:
            break
        for pid in new:
            send_signal(pid, signal.SIGSTOP)
        stopped |= new
    return stopped


def kill_marked(mark: bytes) -> None:
    """Kill every process with this mark in its environment, to clean up a tree without a root.

    A process that is about to run another program shows no environment for a moment. So the
    search ends only when several looks in a row have found nothing.
    """
    quiet = 0
    for _ in range(_MAX_LOOKS):
        marked = [pid for pid in _list_processes() if mark in _read_environment(pid)]
        for pid in marked:
            send_signal(pid, signal.SIGKILL)
        quiet = 0 if marked else quiet + 1
        if quiet == _QUIET_LOOKS:
            return
        time.sleep(_BETWEEN_LOOKS)


def _read_environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{find_thread(pid)}/environ", "rb") as environment:
            return environment.read().split(b"\0")
    except OSError:
        return []


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process, which may have ended or belong to somebody else."""
    try:  # noqa: SIM105 - contextlib is not worth its start in a program as small as this
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _find_below(root: int, kept: frozenset[int]) -> set[int]:
    if not kept:
        return set(find_descendants([root]))
    spared = kept | set(find_descendants(kept))
    return set(find_descendants([root])) - spared


def _list_processes() -> list[int]:
    try:
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    except OSError:
        return []
