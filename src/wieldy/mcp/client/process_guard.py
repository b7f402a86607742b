"""Start a server, and end its whole process group when the parent process is gone.

This file is run as a program with only the standard library: `python -I -S guard.py FD COMMAND…`.
FD is a socket whose other end only the parent holds, so the guard notices the parent's end
whatever its cause. The server inherits stdin, stdout and stderr; nothing is copied.
"""

import os
import select
import signal
import sys
import time

GRACE = 2.0
_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Guard one server to its end."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(lifeline, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, *_STOP):
        signal.signal(number, lambda *_: None)
    server = os.fork()
    if server == 0:
        _become_server(command)
    _let_go_of_the_pipes()
    _tell_parent(lifeline, f"pid {server}\n")
    status = _watch_server(server, lifeline, woken)
    left = _end_group(server, status, woken)
    _tell_parent(lifeline, f"exit {os.waitstatus_to_exitcode(left)}\n")


def _become_server(command: list[str]) -> None:
    """Become the server, in a new session and process group."""
    os.setsid()
    # Python ignores these signals, and a program started by `exec` would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _let_go_of_the_pipes() -> None:
    """Close the server's pipes in the guard, so that each side notices when the other closes."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def _watch_server(server: int, lifeline: int, woken: int) -> int | None:
    """Wait until the server has ended, and return its status, or until it should end."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        for source, _ in poll.poll():
            if source == lifeline and not _read_lifeline(lifeline):
                return None
            if source == woken and any(number in _STOP for number in _read_lifeline(woken)):
                return None
        ended, status = os.waitpid(server, os.WNOHANG)
        if ended:
            return status


def _end_group(server: int, status: int | None, woken: int) -> int:
    """End the rest of the group, first with SIGTERM and then SIGKILL; returns the status."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        if not _signal_group(server, number):
            break
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if status is None:
                ended, how = os.waitpid(server, os.WNOHANG)
                status = how if ended else None
            if status is not None and not _signal_group(server, 0):
                return status
            select.select([woken], [], [], 0.01)
            _drain_signals(woken)
    return os.waitpid(server, 0)[1] if status is None else status


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to the group; False if the group has no process left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # A process of another user is left, or macOS reports a dead one.
    return True


def _drain_signals(source: int) -> None:
    if select.select([source], [], [], 0)[0]:
        os.read(source, 512)


def _read_lifeline(source: int) -> bytes:
    try:
        return os.read(source, 512)
    except ConnectionError:
        return b""


def _tell_parent(lifeline: int, text: str) -> None:
    try:  # noqa: SIM105 - contextlib is a quarter of this program's start
        os.write(lifeline, text.encode())
    except OSError:
        pass  # The parent is gone, so nobody reads the report.


if __name__ == "__main__":
    main()
