"""Let an exclusive tool run alone."""

import asyncio
import threading
from collections import deque

from wieldy.core.active_call import ActiveCall, Handler, stand_in_queue, wake_in_queue
from wieldy.core.call import Outcome
from wieldy.core.forking import renewed_in_child
from wieldy.core.schema.signature import is_async
from wieldy.core.sync import refuse_standstill


class Gate:
    """Many ordinary calls, or one exclusive call, never both.

    A nested call does not wait for its ancestors: an ancestor that waits for its nested call
    is not running. New ordinary calls queue behind a waiting exclusive call, so that it gets
    its turn. A call that has to wait for something else steps out meanwhile, and comes back
    ahead of that queue, because a call inside may wait for what it holds by then.
    """

    def __init__(self) -> None:
        self.renew()
        _gates.add(self)

    def renew(self) -> None:
        """Start empty in a forked child, where the parent's calls never leave."""
        self._lock = threading.Lock()
        self._inside: set[ActiveCall] = set()
        self._outside: set[ActiveCall] = set()
        self._alone: ActiveCall | None = None
        self._waiting: deque[_Waiter] = deque()

    async def share(self, active: ActiveCall, proceed: Handler) -> Outcome:
        """The middleware of an ordinary tool."""
        return await self._run_inside(active, proceed, alone=False)

    async def alone(self, active: ActiveCall, proceed: Handler) -> Outcome:
        """The middleware of an exclusive tool."""
        return await self._run_inside(active, proceed, alone=True)

    async def _run_inside(self, active: ActiveCall, proceed: Handler, alone: bool) -> Outcome:
        await self._enter(_Waiter(active, alone, ahead=active.parent is not None))
        try:
            return await proceed(active)
        finally:
            self._leave(active)

    def step_out(self, active: ActiveCall) -> bool:
        """Let others pass while an ordinary call waits; returns whether it has to step in again."""
        with self._lock:
            if active not in self._inside or active.exclusive:
                return False
            self._inside.discard(active)
            self._outside.add(active)
            self._admit_waiting()
            return True

    async def step_in(self, active: ActiveCall) -> None:
        """Come back, after waiting only for an exclusive call that is running."""
        await self._enter(_Waiter(active, alone=False, ahead=True))

    async def _enter(self, waiter: "_Waiter") -> None:
        with self._lock:
            if self._may_pass(waiter):
                self._admit(waiter)
                return
            self._drop_dead()
            if self._may_pass(waiter):
                self._admit(waiter)
                return
            for active in self._in_the_way(waiter):
                refuse_standstill(waiter.active, [active], "the gate of exclusive tools")
            waiter.turn = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            # The ancestors of this call now stand still, which may let another call in.
            self._admit_waiting()
        try:
            await stand_in_queue(waiter.turn)
        except asyncio.CancelledError:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
            self._leave(waiter.active)
            raise

    def _leave(self, active: ActiveCall) -> None:
        with self._lock:
            self._inside.discard(active)
            self._outside.discard(active)
            active.exclusive = False
            if self._alone is active:
                self._alone = _holder_above(active, self._inside)
            self._admit_waiting()

    def _may_pass(self, waiter: "_Waiter") -> bool:
        return self._may_enter(waiter) and (waiter.ahead or not self._waiting)

    def _drop_dead(self) -> None:
        """Remove calls whose loop was closed, because those calls never leave."""
        known = (*self._inside, *self._outside)
        for active in [each for each in known if each.loop.is_closed()]:
            self._inside.discard(active)
            self._outside.discard(active)
            if self._alone is active:
                self._alone = _holder_above(active, self._inside)
        self._admit_waiting()

    def _in_the_way(self, waiter: "_Waiter") -> list[ActiveCall]:
        """The calls that must certainly leave before this one may enter."""
        alone = self._alone
        if alone is not None and alone not in waiter.active.ancestors():
            return [alone]
        if not waiter.alone:
            return []
        standing = self._standing_calls(waiter)
        # Blocking functions are left out: one may still stand in a queue on another loop.
        return [active for active in self._inside - standing if is_async(active.tool.function)]

    def _may_enter(self, waiter: "_Waiter") -> bool:
        """Whether every running call is an ancestor of this one, or may run beside it."""
        above = list(waiter.active.ancestors())
        if self._alone is not None and self._alone not in above:
            return False
        if not waiter.alone:
            return True
        return self._inside <= self._standing_calls(waiter)

    def _standing_calls(self, waiter: "_Waiter") -> set[ActiveCall]:
        """The calls that stand still, because this call or a waiting one is nested in them."""
        standing = set(waiter.active.ancestors())
        for still in (*self._outside, *(other.active for other in self._waiting)):
            standing.update(still.ancestors())
        return standing

    def _admit(self, waiter: "_Waiter") -> None:
        self._inside.add(waiter.active)
        self._outside.discard(waiter.active)
        if waiter.alone:
            waiter.active.exclusive = True
            self._alone = waiter.active

    def _admit_waiting(self) -> None:
        """Let in the waiting calls that may enter now, in order."""
        behind = False
        for waiter in list(self._waiting):
            if (behind and not waiter.ahead) or not self._may_enter(waiter):
                behind = behind or waiter.alone
                continue
            self._waiting.remove(waiter)
            if wake_in_queue(waiter.turn):
                self._admit(waiter)


class _Waiter:
    """A call at the gate. With `ahead` it does not queue behind a waiting exclusive call."""

    __slots__ = ("active", "ahead", "alone", "turn")
    turn: asyncio.Future[None]

    def __init__(self, active: ActiveCall, alone: bool, ahead: bool) -> None:
        self.active = active
        self.alone = alone
        self.ahead = ahead


def _holder_above(active: ActiveCall, inside: set[ActiveCall]) -> ActiveCall | None:
    """The nearest ancestor that holds the gate alone."""
    above = (each for each in active.ancestors() if each.exclusive and each in inside)
    return next(above, None)


_gates = renewed_in_child(Gate.renew)
