"""The exit codes of the command, and the message for an error that stopped it.

docs/command-line.md lists the codes.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import NoReturn

from wieldy.core.errors import WieldyError

from . import screen

OK = 0
FAILED = 1
USAGE = 2
WAITING = 3
PARTLY = 4
STOPPED = 130


# By convention, a signal's number is added to this.
_SIGNALED = 128
# What ends a command from outside, beside Ctrl-C; Windows has the first one only.
_ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def guarded(work: Callable[[asyncio.Runner], int]) -> int:
    """Do the work of a command with one event loop; returns the exit code.

    The loop does not run while the command asks a question, so Ctrl-C can end the question.
    """
    screen.ready()
    with _ended_like_ctrl_c() as received:
        try:
            with asyncio.Runner() as runner:
                return work(runner)
        except (WieldyError, ValueError) as error:
            screen.fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
            return USAGE
        except (KeyboardInterrupt, EOFError, asyncio.CancelledError):
            screen.say("\nStopped.")
            return _SIGNALED + received[0] if received else STOPPED


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question that is asked while the loop runs, with `KeyboardInterrupt`.

    Otherwise the loop handles Ctrl-C, and does so only after the question.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _ended_like_ctrl_c() -> Iterator[list[int]]:
    """Let a signal to end do what Ctrl-C does, so that what runs is recorded as stopped.

    Gives the list of the signals that were received.
    """
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        # Whoever handles Ctrl-C at this moment: a running loop ends its task with it.
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else _interrupt)(signal.SIGINT, frame)

    # Whoever started this process may have it ignore one of them, as `nohup` does.
    ours = [each for each in _ENDS if signal.getsignal(each) is signal.SIG_DFL]
    try:
        for each in ours:
            signal.signal(each, end)
    except ValueError:
        # Only the main thread can handle signals.
        ours = []
    try:
        with _handled_though_ignored() if ours else nullcontext():
            yield received
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


@contextmanager
def _handled_though_ignored() -> Iterator[None]:
    """Where Ctrl-C is ignored, keep it away, so that a loop handles it as it does elsewhere.

    A shell has what it starts in the background ignore Ctrl-C, and a loop leaves an ignored signal
    alone. An exception anywhere in the loop's own work, in place of its handler, may hang it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN or os.name == "nt":
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
