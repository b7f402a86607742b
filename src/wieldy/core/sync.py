"""The border between blocking code and the engine, crossed in one place.

Blocking callers, on whatever thread, hand a coroutine to a background loop and
wait. While a thread waits, the engine may use it to run the tool's own blocking
function, so that a blocking caller's sync tool runs on the caller's thread.
"""

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from .run import Run

T = TypeVar("T")


class Home:
    """The waiting caller's thread, as a place to run blocking functions."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def execute(self, run: Run, body: Callable[[Run], Any]) -> Any:
        """Run `body(run)` on the waiting thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            answer = attempt(context, body, run)
            loop.call_soon_threadsafe(settle, future, answer)

        self._work.put(work)
        value, error = await future
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Tell the waiting thread that there is nothing more to do."""
        self._work.put(None)

    def serve(self) -> None:
        """Do what is asked, on this thread, until closed."""
        while (work := self._work.get()) is not None:
            work()


class LoopThread:
    """An event loop that runs on a thread of its own, started when first needed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def is_current(self) -> bool:
        """Whether the calling thread is this loop's own."""
        return self._thread is threading.current_thread()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine there, with the caller's context variables."""
        answer: Future[T] = Future()
        context = contextvars.copy_context()
        loop = self._started()
        loop.call_soon_threadsafe(_start, loop, coroutine, answer, context)
        return answer

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(loop,), name=self.name, daemon=True
                )
                self._thread.start()
                self._loop = loop
            return self._loop


class Border:
    """The loops that serve blocking callers: one, and spares for calls nested in it."""

    def __init__(self) -> None:
        self._main = LoopThread("wieldy-border")
        self._spares: list[LoopThread] = []
        self._busy: set[LoopThread] = set()

    def wait(self, start: Callable[[Home], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that `start` makes and give its result, blocking this thread.

        Called on a border loop's own thread, as a tool does that blocks inside a
        coroutine, it uses another loop: waiting for itself would be forever.
        """
        loop = self._free_loop()
        home = Home()
        answer = loop.submit(start(home))
        answer.add_done_callback(lambda _: home.close())
        try:
            home.serve()
        except BaseException:
            answer.cancel()
            raise
        finally:
            self._give_back(loop)
        return answer.result()

    def _free_loop(self) -> LoopThread:
        current = threading.current_thread()
        if not current.name.startswith("wieldy-border"):
            return self._main
        try:
            return self._spares.pop()
        except IndexError:
            return LoopThread("wieldy-border-nested")

    def _give_back(self, loop: LoopThread) -> None:
        if loop is not self._main:
            self._spares.append(loop)


def attempt(
    context: contextvars.Context, body: Callable[[Run], Any], run: Run
) -> tuple[Any, BaseException | None]:
    """What a blocking function gave, or what it raised."""
    try:
        return context.run(body, run), None
    except BaseException as error:
        return None, error


def settle(future: "asyncio.Future[T]", answer: T) -> None:
    """Answer a future that may have been given up."""
    if not future.done():
        future.set_result(answer)


def border() -> Border:
    """The border of this process, made when first needed."""
    if not _borders:
        _borders.append(Border())
    return _borders[0]


# A list, not a variable, so that a forked child can drop its parent's dead threads.
_borders: list[Border] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_borders.clear)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _start(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T],
    answer: "Future[T]",
    context: contextvars.Context,
) -> None:
    task = loop.create_task(coroutine, context=context)

    def passed_on(done: "asyncio.Task[T]") -> None:
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            answer.set_exception(error)
        elif not answer.cancelled():
            answer.set_result(done.result())

    def stopped(given_up: "Future[T]") -> None:
        if given_up.cancelled():
            loop.call_soon_threadsafe(task.cancel)

    task.add_done_callback(passed_on)
    answer.add_done_callback(stopped)
