"""End a call that takes too long."""

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextvars import Context
from time import monotonic
from typing import Any

from wieldy.core.active_call import ActiveCall, Handler, Middleware
from wieldy.core.call import Outcome, Status
from wieldy.core.errors import CallTimeout, ToolFailed
from wieldy.core.task import Cancellation

# The seconds in which a cancelled coroutine may still end before its caller goes on without it:
# as long as its timeout was, between these two.
_SHORTEST_GRACE, _MAX_GRACE = 0.25, 1.0
# The timer gets an empty context: its own would keep the call and its arguments alive.
_NO_CONTEXT = Context()


def limit_time(seconds: float, leave: bool = True) -> Middleware:
    """A middleware that gives each attempt this many seconds.

    It cancels the caller's own task and then revokes the cancellation, which is far cheaper
    than a task or a timeout context per call. A coroutine that swallows its cancellation is left
    behind after a short grace: it goes on in a task of its own, and the engine is told when it
    ends. Without `leave` the attempt ends by itself, however long that takes.
    """
    clocks: dict[asyncio.AbstractEventLoop, _Clock] = {}
    grace = min(_MAX_GRACE, max(_SHORTEST_GRACE, seconds)) if leave else None
    # The loop itself does not keep its tasks alive.
    left_behind: set[asyncio.Task[None]] = set()

    async def end_in_time(active: ActiveCall, proceed: Handler) -> Outcome:
        loop = active.task.get_loop()
        clock = clocks.get(loop) or _add_clock(clocks, loop, seconds)
        cancellation = _Deadline(active)
        clock.start(cancellation)
        attempt: Any = proceed(active)
        try:
            try:
                # Most calls never wait, and need nobody who watches what they wait for.
                waited = attempt.send(None)
            except StopIteration as end:
                ended: Outcome | _Lingering = end.value
            else:
                ended = await _watch_attempt(attempt, waited, cancellation)
            outcome = (
                await ended.end_or_leave(active, grace, left_behind)
                if isinstance(ended, _Lingering)
                else ended
            )
        except asyncio.CancelledError:
            if not cancellation.taken_back():
                raise
            error = CallTimeout(active.tool.name, seconds)
            return Outcome(active.call, Status.TIMEOUT, error=error)
        finally:
            clock.stop(cancellation)
        if cancellation.fired:
            left = await cancellation.settle()
            if left is not None:
                raise left
        return outcome

    return end_in_time


def _add_clock(
    clocks: "dict[asyncio.AbstractEventLoop, _Clock]",
    loop: asyncio.AbstractEventLoop,
    seconds: float,
) -> "_Clock":
    """A clock for a loop that has none yet; those of closed loops are dropped."""
    # The dict is copied, because other threads may add clocks for their loops meanwhile.
    for known in list(clocks):
        if known.is_closed():
            clocks.pop(known, None)
    clock = clocks[loop] = _Clock(loop, seconds)
    return clock


class _Deadline(Cancellation):
    """The cancellation of one attempt that takes too long."""

    __slots__ = ("_run",)

    def __init__(self, active: ActiveCall) -> None:
        # Written out, because another frame costs a plain call a fortieth of it.
        self.task = task = active.task
        self.before = task.cancelling()
        self.fired = False
        self._run = active

    def fire(self) -> None:
        # The task of a call that was left behind with another one is somebody else's by now.
        if not self._run.was_left:
            super().fire()


@types.coroutine
def _watch_attempt(
    attempt: Coroutine[Any, Any, Outcome], waited: Any, cancellation: Cancellation
) -> "Generator[Any, Any, Outcome | _Lingering]":
    """Wait for an attempt, until it has ended or awaits something after it was cancelled."""
    failure: BaseException | None = None
    while not cancellation.fired:
        try:
            yield waited
        except BaseException as error:
            failure = error
        try:
            waited = attempt.send(None) if failure is None else attempt.throw(failure)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        finally:
            # An error refers to this frame, which must not refer to the error.
            failure = None
    return _Lingering(attempt, waited)


class _Lingering:
    """An attempt that was cancelled and has not ended, with what it awaits."""

    __slots__ = ("_attempt", "_waited")

    def __init__(self, attempt: Coroutine[Any, Any, Outcome], waited: Any) -> None:
        self._attempt = attempt
        self._waited = waited

    async def run(self, seconds: float | None = None) -> Outcome | None:
        """Go on with it in this task; None if it has not ended after so many seconds."""
        ends = None if seconds is None else monotonic() + seconds
        while True:
            failure: BaseException | None = None
            try:
                if not await self._wait_until(ends):
                    return None
            except BaseException as error:
                failure = error
            try:
                attempt = self._attempt
                self._waited = attempt.send(None) if failure is None else attempt.throw(failure)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            finally:
                # An error refers to this frame, which must not refer to the error.
                failure = None

    async def end_or_leave(
        self, active: ActiveCall, seconds: float | None, left_behind: "set[asyncio.Task[None]]"
    ) -> Outcome:
        """Its outcome; `CancelledError` if it has not ended in time and goes on by itself."""
        outcome = await self.run(seconds)
        if outcome is not None:
            return outcome
        active.stopped = True
        active.note("abandoned", True)
        task = asyncio.get_running_loop().create_task(self.run_abandoned(active))
        left_behind.add(task)
        task.add_done_callback(left_behind.discard)
        raise asyncio.CancelledError

    async def run_abandoned(self, active: ActiveCall) -> None:
        """Go on with it after its call has ended, and tell the engine of its end."""
        value: Any = None
        error: BaseException | None = None
        try:
            outcome = await self.run()
            if outcome is not None:
                value, error = outcome.value, outcome.error
            if isinstance(error, ToolFailed):
                error = error.original
        except BaseException as raised:
            if isinstance(raised, KeyboardInterrupt):
                raise
            error = raised
        active.late(active, value, error)

    async def _wait_until(self, ends: float | None) -> bool:
        """Wait for what it awaits, which is not touched; False if that has not come in time."""
        loop, waited = asyncio.get_running_loop(), self._waited
        turn = loop.create_future()

        def wake(*_: Any) -> None:
            if not turn.done():
                turn.set_result(None)

        timer = None if ends is None else loop.call_later(ends - monotonic(), wake)
        if waited is None:
            loop.call_soon(wake)
        else:
            waited.add_done_callback(wake)
        try:
            await turn
        except asyncio.CancelledError:
            if waited is not None:
                waited.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waited is not None:
                waited.remove_done_callback(wake)
        over = ends is not None and monotonic() >= ends
        return not over if waited is None else bool(waited.done())


class _Clock:
    """All deadlines of one tool on one loop.

    All have the same length, so they come due in the order in which they began, and one
    timer is enough.
    """

    __slots__ = ("_armed", "_loop", "_running", "_seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._running: dict[Cancellation, float] = {}
        self._armed = False

    def start(self, cancellation: Cancellation) -> None:
        self._running[cancellation] = monotonic() + self._seconds
        if not self._armed:
            self._armed = True
            self._loop.call_later(self._seconds, self._cancel_overdue, context=_NO_CONTEXT)

    def stop(self, cancellation: Cancellation) -> None:
        self._running.pop(cancellation, None)

    def _cancel_overdue(self) -> None:
        self._armed = False
        now = monotonic()
        for cancellation, due in list(self._running.items()):
            if due > now:
                self._armed = True
                self._loop.call_later(due - now, self._cancel_overdue, context=_NO_CONTEXT)
                return
            del self._running[cancellation]
            cancellation.fire()
