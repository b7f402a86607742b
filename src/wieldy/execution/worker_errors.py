"""Errors of a process that ended before the tool in it answered."""

import signal

from wieldy.core.errors import WieldyError

# The exit code of a worker that finds its connection closed by the function it ran.
CLOSED_CONNECTION = 117


class WorkerDied(WieldyError):
    """The process that ran a tool ended before it answered: a crash, an exit, a kill.

    `exit_code` is negative for a signal, and None if it is not known.
    """

    # Nobody knows how far the function got, so only a call that may run twice is tried again.
    killed = True

    def __init__(self, tool: str, exit_code: int | None, reason: str | None = None) -> None:
        super().__init__(f"The process that ran {tool} {_end_of(exit_code, reason)}.")
        self.tool = tool
        self.exit_code = exit_code
        self.reason = reason


class MemoryExceeded(WorkerDied):
    """The process that ran a tool used more memory than its limit, and was killed."""

    def __init__(self, tool: str, limit: int | str, peak_bytes: int) -> None:
        said = f"was killed: it held {peak_bytes:,} bytes of memory, and its limit is {limit}"
        super().__init__(tool, None, said)
        self.limit = limit
        self.peak_bytes = peak_bytes


class FunctionInterrupted(WieldyError):
    """A tool's function raised `KeyboardInterrupt` in a worker process or thread.

    Only Ctrl-C in this process itself ends this process, and it never arrives there.
    """

    def __init__(self, tool: str) -> None:
        super().__init__(f"The function of {tool} ended with KeyboardInterrupt.")
        self.tool = tool


def call_is_over() -> RuntimeError:
    """The error of a thread that calls a tool when the call for which it works has ended."""
    return RuntimeError(
        "the call that started this thread has ended, and its process works for other calls now: "
        "it can call no more tools"
    )


def _end_of(exit_code: int | None, reason: str | None) -> str:
    if reason == "closed" or exit_code == CLOSED_CONNECTION:
        return "lost its connection: the function closed file descriptors that it had not opened"
    if exit_code is None:
        return reason or "is gone"
    if exit_code >= 0:
        return f"exited with code {exit_code} before the function returned"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"crashed: it was ended by {name}{hint}"
