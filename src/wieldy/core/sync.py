"""The border between blocking code and the engine, crossed in one place.

Blocking callers, on whatever thread, hand a coroutine to a background loop and
wait. While a thread waits, the engine may use it to run the tool's own blocking
function, so that a blocking caller's sync tool runs on the caller's thread.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .active_call import ActiveCall
from .forking import at_fork

if TYPE_CHECKING:
    from .work import Work

T = TypeVar("T")


class BlockingJob:
    """A blocking function that one thread runs while a coroutine waits for its answer.

    If the coroutine is cancelled, the function is abandoned, and the engine is told when it
    ends. A function that has not begun by then never runs.
    """

    __slots__ = (
        "_future",
        "_lock",
        "_loop",
        "_values",
        "_work",
        "active",
        "context",
        "ended",
        "left",
        "started",
    )

    def __init__(self, work: "Work", values: dict[str, Any], active: ActiveCall) -> None:
        self.active = active
        self.context = contextvars.copy_context()
        self.started = False
        self.ended = False
        self.left = False
        self._work = work
        self._values = values
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()
        self._lock = threading.Lock()

    async def answer(self) -> Any:
        """The function's return value; raises its exception."""
        try:
            value, error = await self._future
        except asyncio.CancelledError:
            self._leave()
            raise
        if error is not None:
            raise error
        return value

    def perform(self) -> None:
        """Run the function on this thread and answer."""
        with self._lock:
            if self.left:
                return
            self.started = True
        value, error = _attempt_work(self.context, self._work, self._values, self.active)
        # The context may refer to this job as a place that is held, so the reference is cut.
        del self.context
        with self._lock:
            self.ended = True
            left = self.left
        if not left:
            try:
                self._loop.call_soon_threadsafe(_settle_future, self._future, (value, error))
                return
            except RuntimeError:
                self.active.stopped = True  # The loop was closed.
        self.active.late(self.active, value, error)

    def _leave(self) -> None:
        self.active.stopped = True
        with self._lock:
            if self.ended:
                return
            self.left = True
            if self.started:
                self.active.note("abandoned", True)


class Home:
    """The waiting caller's thread, as a place to run blocking functions."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[BlockingJob | None] = queue.SimpleQueue()

    async def execute(self, work: "Work", values: dict[str, Any], channel: ActiveCall) -> Any:
        """Perform the work on the waiting thread."""
        job = BlockingJob(work, values, channel)
        self._work.put(job)
        return await job.answer()

    def close(self) -> None:
        """Tell the waiting thread that there is nothing more to do."""
        self._work.put(None)

    def serve(self) -> None:
        """Do what is asked, on this thread, until closed."""
        while (job := self._work.get()) is not None:
            job.perform()


class LoopThread:
    """An event loop that runs on a thread of its own, started when first needed."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Whether a task on this loop blocks it while it waits for another loop.
        self.blocked = False
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it is started and not stopped."""
        return self._thread is not None

    def is_current(self) -> bool:
        """Whether the calling thread is this loop's own."""
        return self._thread is threading.current_thread()

    def submit(self, coroutine: Coroutine[Any, Any, T], answer: "Future[T]") -> None:
        """Run a coroutine there, with the caller's context variables."""
        context = contextvars.copy_context()
        loop = self._started_loop()
        loop.call_soon_threadsafe(_start_task, loop, coroutine, answer, context)

    async def perform(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs there, for a caller on another loop."""
        answer: Future[T] = Future()
        self.submit(coroutine, answer)
        return await asyncio.wrap_future(answer)

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function on the loop, soon."""
        self._started_loop().call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """End the loop and its thread; it starts again when needed again."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve_loop, args=(loop,), name=self.name, daemon=True
                )
                self._thread.start()
                self._loop = loop
            return self._loop


class Border:
    """The loops that serve blocking callers: one, and more for calls nested in it."""

    def __init__(self) -> None:
        self._main = LoopThread("wieldy-border")
        self._loops = [self._main]
        self._spares: list[LoopThread] = []

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine on the background loop without waiting for it."""
        self._main.submit(coroutine, Future())

    def wait(self, start: Callable[[Home | None], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that `start` makes and give its result, blocking this thread.

        `start` gets this thread as a place to run blocking functions, unless an event loop runs
        here, inside which they never run. A tool that blocks inside a coroutine may block a
        border loop. It and the calls nested in it then use another loop, because the blocked
        loop would wait for itself forever.
        """
        here = self._loop_here()
        if here is not None:
            here.blocked = True
        loop = self._free_loop()
        home = Home()
        answer: Future[T] = Future()
        answer.add_done_callback(lambda _: home.close())
        in_loop = _in_loop()
        standstill = Standstill() if in_loop else None
        before = _standstill.set(standstill)
        try:
            work = start(None if in_loop else home)
            loop.submit(work if standstill is None else standstill.until(work), answer)
            home.serve()
        except BaseException:
            answer.cancel()
            raise
        finally:
            _standstill.reset(before)
            if standstill is not None:
                standstill.task = None
            if here is not None:
                here.blocked = False
            if loop is not self._main:
                self._spares.append(loop)
        return answer.result()

    def _loop_here(self) -> LoopThread | None:
        """The border loop that runs on this thread."""
        return next((loop for loop in tuple(self._loops) if loop.is_current()), None)

    def _free_loop(self) -> LoopThread:
        if not self._main.blocked:
            return self._main
        try:
            return self._spares.pop()
        except IndexError:
            loop = LoopThread("wieldy-border-nested")
            self._loops.append(loop)
            return loop


class Standstill:
    """An event loop that a blocking call stops until a task on another loop has ended."""

    __slots__ = ("loop", "outer", "stopped", "task")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.outer = _standstill.get()
        self.stopped = asyncio.current_task()
        self.task: asyncio.Task[Any] | None = None

    async def until(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work in this task, whose end the stopped loop waits for."""
        self.task = asyncio.current_task()
        return await work


def loops_stopped_for(task: "asyncio.Task[Any]") -> set[asyncio.AbstractEventLoop]:
    """The loops that don't move before the running task has ended."""
    found: set[asyncio.AbstractEventLoop] = set()
    standstill = _standstill.get()
    waited_for: asyncio.Task[Any] | None = task
    # A task started on the side has the same context, but no loop waits for it.
    while standstill is not None and waited_for is not None and standstill.task is waited_for:
        found.add(standstill.loop)
        waited_for = standstill.stopped
        standstill = standstill.outer
    return found


class Holder(Protocol):
    """A holder of something that others wait for: a running call, or a task before its call."""

    @property
    def task(self) -> "asyncio.Task[Any]":
        """The holder's task."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of that task."""


def refuse_standstill(waiting: Holder, holders: Collection[Holder], what: str) -> None:
    """Raise if a call would wait for something that only calls on stopped loops can release."""
    stopped = loops_stopped_for(waiting.task)
    if stopped and holders and all(holder.loop in stopped for holder in holders):
        raise RuntimeError(
            f"{what} is held by a call on the event loop that this blocking call stops; "
            "await box.call instead"
        )


_standstill: contextvars.ContextVar[Standstill | None] = contextvars.ContextVar(
    "wieldy_standstill", default=None
)


def _in_loop() -> bool:
    """Whether an event loop runs on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _attempt_work(
    context: contextvars.Context, work: "Work", values: dict[str, Any], active: ActiveCall
) -> tuple[Any, BaseException | None]:
    """Run a blocking function; returns its value or its exception."""
    try:
        return context.run(work.perform, values, active), None
    except BaseException as error:
        return None, error


def _settle_future(future: "asyncio.Future[T]", answer: T) -> None:
    """Set the result of a future whose waiter may have given up."""
    if not future.done():
        future.set_result(answer)


def blocking_border() -> Border:
    """The border of this process, made when first needed."""
    if not _borders:
        _borders.append(Border())
    return _borders[0]


# A list, so that a forked child can clear it: the parent's threads don't run there.
_borders: list[Border] = []
at_fork(_borders.clear)


def _serve_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        # A KeyboardInterrupt in a call is raised in its caller; this loop goes on for others.
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()
            return


def _start_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T],
    answer: "Future[T]",
    context: contextvars.Context,
) -> None:
    task = loop.create_task(coroutine, context=context)

    def passed_on(done: "asyncio.Task[T]") -> None:
        error = None if done.cancelled() else done.exception()
        with suppress(InvalidStateError):
            # The caller may have given up at this very moment.
            if done.cancelled():
                answer.cancel()
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result())

    def stopped(given_up: "Future[T]") -> None:
        if given_up.cancelled():
            loop.call_soon_threadsafe(task.cancel)

    task.add_done_callback(passed_on)
    answer.add_done_callback(stopped)
