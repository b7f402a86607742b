"""End a call that takes too long."""

import asyncio
from contextvars import Context
from time import monotonic

from wieldy.core.call import Outcome, Status
from wieldy.core.errors import CallTimeout
from wieldy.core.run import Handler, Middleware, Run
from wieldy.core.task import Cancellation

# The timer gets an empty context: its own would keep the call and its arguments alive.
_NO_CONTEXT = Context()


def limit_time(seconds: float) -> Middleware:
    """A middleware that gives each attempt this many seconds.

    It cancels the caller's own task and then revokes the cancellation, which is far cheaper
    than a task or a timeout context per call. A coroutine that swallows its cancellation
    can't be ended this way.
    """
    clocks: dict[asyncio.AbstractEventLoop, _Clock] = {}

    async def end_in_time(run: Run, proceed: Handler) -> Outcome:
        loop = run.task.get_loop()
        clock = clocks.get(loop)
        if clock is None:
            # The dict is copied, because other threads may add clocks for their loops meanwhile.
            for known in list(clocks):
                if known.is_closed():
                    clocks.pop(known, None)
            clock = clocks[loop] = _Clock(loop, seconds)
        cancellation = Cancellation(run.task, run.task.cancelling())
        clock.start(cancellation)
        try:
            outcome = await proceed(run)
        except asyncio.CancelledError:
            if not cancellation.taken_back():
                raise
            error = CallTimeout(run.tool.name, seconds)
            return Outcome(run.call, Status.TIMEOUT, error=error)
        finally:
            clock.stop(cancellation)
        if cancellation.fired:
            left = await cancellation.settle()
            if left is not None:
                raise left
        return outcome

    return end_in_time


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
