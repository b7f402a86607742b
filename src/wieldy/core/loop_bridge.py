"""The way from a caller's loop to the loop of a connection, and back with the answer."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from .sync import LoopThread

T = TypeVar("T")
_log = logging.getLogger("wieldy")


async def run_on_loop(thread: LoopThread, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do work on another loop, with this caller's context variables, and give its answer here.

    A caller that is cancelled leaves at once; the work is cancelled behind it.
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
    """One piece of work on its way there and back."""

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
        """Begin, over there."""
        self._task = asyncio.get_running_loop().create_task(self._work())
        self._task.add_done_callback(self._return)

    def stop(self) -> None:
        """Give up, over there."""
        if self._task is not None:
            self._task.cancel()

    def _return(self, done: "asyncio.Task[Any]") -> None:
        # The home loop may be closed by now, and then nobody waits.
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._settle, done)

    def _settle(self, done: "asyncio.Task[Any]") -> None:
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
    """End whatever still runs on a loop, and then the loop and its thread.

    Other people's code may block the loop. Then it is left alone; its thread keeps no
    program from ending.
    """
    if not thread.running:
        return
    try:
        async with asyncio.timeout(seconds):
            await run_on_loop(thread, _end_all)
    except TimeoutError:
        _log.warning("Something blocks the thread %s, which is left behind", thread.name)
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
