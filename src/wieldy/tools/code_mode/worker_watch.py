"""End programs of code mode when the process that started them is gone.

A worker of the sandbox reads its input only when its program stops, so one that computes does not
notice that nobody waits for it. This file is run as a program with only the standard library:
`python -I -S worker_watch.py`. It reads `+PID` when a worker begins a program and `-PID` when it
is done, and at the end of its input it kills the workers that are busy.
"""

import os
import signal
import sys

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def main() -> None:
    """Watch until the input ends."""
    busy: dict[int, str] = {}
    for line in sys.stdin.buffer:
        pid = int(line[1:])
        if line[:1] == b"+":
            busy[pid] = _find_start(pid)
        else:
            busy.pop(pid, None)
    for pid, start in busy.items():
        # The number of a process that has ended may be that of another one by now.
        if _find_start(pid) == start:
            _kill_process(pid)


def _find_start(pid: int) -> str:
    """When a process has started, in the system's own measure; empty if that is not known."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            # The name is in parentheses, and may itself contain spaces and parentheses.
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _kill_process(pid: int) -> None:
    try:  # noqa: SIM105 - contextlib is a quarter of this program's start
        os.kill(pid, _KILL)
    except OSError:
        pass  # It has ended.


if __name__ == "__main__":
    main()
