"""The threads, files and connections that a toolbox holds, and how they are released."""

import _thread
import asyncio
import inspect
import logging
import sys
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

_log = logging.getLogger("wieldy")


class Holding(Protocol):
    """Something with threads, files or connections."""

    @property
    def kind(self) -> str | None:
        """Describe the holding for the warning; None if none is needed, as for idle threads."""

    @property
    def held(self) -> bool:
        """Whether it holds anything now. It is asked under any lock, and must take none."""

    def close(self) -> Awaitable[None] | None:
        """Release it."""


class Holdings:
    """The holdings of one toolbox, in the order in which they were added.

    This object is separate from the toolbox, so that it can release the holdings when the
    toolbox is gone. A holding must therefore not refer to the toolbox, its tools or its
    registry. `made_at` is the file and line that made the toolbox; without it there is no
    warning.
    """

    def __init__(self, made_at: tuple[str, int] | None) -> None:
        self.made_at = made_at
        # Whether the toolbox was dropped without being closed.
        self.dropped = False
        self._each: list[Holding] = []

    def add(self, holding: Holding) -> None:
        """Release this too when the toolbox is closed."""
        self._each.append(holding)

    def give_back_after(self, owner: object) -> None:
        """Close everything when an object is gone, and warn that the toolbox was not closed."""
        # At the end of the process the operating system releases everything.
        weakref.finalize(owner, self._give_back).atexit = False

    async def close(self) -> None:
        """Close everything, the last holding first."""
        for each in reversed(self._each):
            closing = each.close()
            if inspect.isawaitable(closing):
                await closing

    def _give_back(self) -> None:
        # This may run on any thread, inside the garbage collector and under any lock, so it
        # takes none and waits for nothing. A `threading.Thread` would wait for its start.
        self.dropped = True
        held = [each for each in self._each if each.held]
        if not held:
            return
        _thread.start_new_thread(self._close_here, ())
        kinds = ", ".join(each.kind for each in held if each.kind is not None)
        if kinds and self.made_at is not None:
            warnings.warn_explicit(
                f"A Toolbox was dropped without close() while it held {kinds}. It is closed now. "
                "Use `async with` or `await box.close()`.",
                ResourceWarning,
                *self.made_at,
            )

    def _close_here(self) -> None:
        try:
            _run_alone(self.close())
        except Exception:
            _log.warning("A toolbox that was dropped could not be closed", exc_info=True)


def _run_alone(closing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end on this thread, without another one.

    The program may be about to end, when threads and pools can't be started any more.
    """
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_ThisThread())
    try:
        loop.run_until_complete(closing)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


class _ThisThread(ThreadPoolExecutor):
    """Runs blocking functions at once, for a loop that has nothing else to do."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


def calling_place() -> tuple[str, int]:
    """The file and line of the calling code outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("wieldy."):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
