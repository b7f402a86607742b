"""Run work on the loop of a connection, and bring the answer back to the caller's loop."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from .sync import LoopThread
from .task import time_limit

T = TypeVar("T")
_log = logging.getLogger("wieldy")


async def run_on_loop(thread: LoopThread, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work on another loop, with the caller's context variables, and return its answer.

    A caller that is cancelled does not wait; the work is cancelled after it.
    """
    here = asyncio.get_running_loop()
    answer: asyncio.Future[T] = here.create_future()
    trip = _Trip(work, here, answer)
    thread.call(trip.start)
    try:
        return await answer
    except asyncio.CancelledError:
        thread.call(trip.stop)
        raise


class _Trip:
    """One piece of work that another loop does for a caller."""

    __slots__ = ("_answer", "_home", "_task", "_work")

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, Any]],
        home: asyncio.AbstractEventLoop,
        answer: "asyncio.Future[Any]",
    ) -> None:
        self._work = work
        self._home = home
        self._answer = answer
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Begin the work, on the other loop."""
        self._task = asyncio.get_running_loop().create_task(self._work())
        self._task.add_done_callback(self._return_home)

    def stop(self) -> None:
        """Cancel the work, on the other loop."""
        if self._task is not None:
            self._task.cancel()

    def _return_home(self, done: "asyncio.Task[Any]") -> None:
        # If the caller's loop is closed by now, nobody waits for the answer.
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._settle_answer, done)

    def _settle_answer(self, done: "asyncio.Task[Any]") -> None:
        if self._answer.done():
            if not done.cancelled():
                done.exception()
        elif done.cancelled():
            self._answer.set_exception(ConnectionError("the connection was closed"))
        elif (error := done.exception()) is not None:
            self._answer.set_exception(error)
        else:
            self._answer.set_result(done.result())


async def wind_down(thread: LoopThread, seconds: float) -> None:
    """End the tasks on a loop, and then the loop and its thread.

    If other people's code blocks the loop, it is left behind. Its thread does not keep the
    program from ending.
    """
    if not thread.running:
        return
    try:
        async with time_limit(seconds):
            await run_on_loop(thread, _end_all)
    except TimeoutError:
        _log.warning("The thread %s is blocked, and is left behind", thread.name)
        return
    thread.stop()


async def _end_all() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=5)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
