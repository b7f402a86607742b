"""Limit how many calls run at once, across event loops."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Hashable

from wieldy.core.active_call import ActiveCall, Handler, Middleware, stand_in_queue, wake_in_queue
from wieldy.core.call import Outcome
from wieldy.core.forking import renewed_in_child
from wieldy.core.sync import Holder, refuse_standstill

from .exclusive import Gate
from .limits import LimitKey, takes_scope


class Slots:
    """A first-come-first-served semaphore that callers on different loops can share.

    `longest` is how many may wait; the next one gets `queue.Full`.
    """

    __slots__ = ("_free", "_holders", "_lock", "_longest", "_waiting")

    def __init__(self, count: int, longest: int | None = None) -> None:
        self._free = count
        self._longest = longest
        self._holders: set[Holder] = set()
        self._waiting: deque[tuple[asyncio.Future[None], Holder]] = deque()
        self._lock = threading.Lock()

    def take_free(self, holder: Holder) -> bool:
        """Take a slot if one is free."""
        with self._lock:
            return self._take_free(holder)

    async def take(self, holder: Holder, what: str) -> None:
        """Wait for a slot, or raise if that would be forever; `what` names it in the message."""
        with self._lock:
            self._drop_dead()
            if self._take_free(holder):
                return
            refuse_standstill(holder, self._holders, f"the slot of {what}")
            if self._longest is not None and len(self._waiting) >= self._longest:
                raise queue.Full(f"{self._longest} calls of {what} wait already")
            waiter = (asyncio.get_running_loop().create_future(), holder)
            self._waiting.append(waiter)
        try:
            await stand_in_queue(waiter[0])
        except asyncio.CancelledError:
            with self._lock:
                handed_over = waiter not in self._waiting
                if not handed_over:
                    self._waiting.remove(waiter)
            if handed_over:
                self.give(holder)
            raise

    def give(self, holder: Holder) -> None:
        """Release a slot, to the caller that has waited longest."""
        with self._lock:
            if holder in self._holders:
                self._holders.discard(holder)
                self._free += 1
                self._hand_over()

    def _take_free(self, holder: Holder) -> bool:
        if self._free > 0:
            self._free -= 1
            self._holders.add(holder)
            return True
        return False

    def _drop_dead(self) -> None:
        """Take back the slots of calls whose loop was closed, because those calls never end."""
        for holder in [each for each in self._holders if each.loop.is_closed()]:
            self._holders.discard(holder)
            self._free += 1
        self._hand_over()

    def _hand_over(self) -> None:
        while self._free > 0 and self._waiting:
            future, holder = self._waiting.popleft()
            if wake_in_queue(future):
                self._take_free(holder)


class _Pool:
    """The slots of one tool, by key. A key that is not in use is removed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.renew()
        _pools.add(self)

    def renew(self) -> None:
        """Start empty in a forked child, where the parent's calls never release their slots."""
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[Slots, int]] = {(None, None): (Slots(self._count), 1)}

    def enter(self, name: Hashable) -> Slots:
        with self._lock:
            slots, users = self._kept.get(name) or (Slots(self._count), 0)
            self._kept[name] = (slots, users + 1)
            return slots

    def leave(self, name: Hashable, slots: Slots) -> None:
        with self._lock:
            kept, users = self._kept.get(name, (None, 0))
            if kept is not slots:
                return  # These slots are from before a fork.
            del self._kept[name]
            if users > 1:
                self._kept[name] = (slots, users - 1)


def limit_concurrency(count: int, key: LimitKey | None, gate: Gate) -> Middleware:
    """A middleware with `count` slots, or `count` for each key.

    Calls nested in an exclusive call have slots of their own. Nothing else runs meanwhile,
    and the holders of the other slots may be waiting for the exclusive call to end.
    """
    pool, key_of = _Pool(count), _key_reader(key)

    async def take_slot(active: ActiveCall, proceed: Handler) -> Outcome:
        name = (_alone_above(active), key_of(active))
        slots = pool.enter(name)
        try:
            if _held_above(active, slots):
                return await proceed(active)
            outside = False
            if not slots.take_free(active):
                outside = gate.step_out(active)
                await slots.take(active, active.tool.name)
            active.slots = slots
            try:
                if outside:
                    await gate.step_in(active)
                return await proceed(active)
            finally:
                active.slots = None
                slots.give(active)
        finally:
            pool.leave(name, slots)

    return take_slot


def _key_reader(key: LimitKey | None) -> Callable[[ActiveCall], Hashable]:
    """The function that computes the key of a call."""
    if key is None:
        return lambda active: None
    made: Callable[..., Hashable] = key
    if takes_scope(key):
        return lambda active: made(active.values, active.call.scope)
    return lambda active: made(active.values)


def _alone_above(active: ActiveCall) -> ActiveCall | None:
    """The exclusive call that this one is nested in."""
    return next((above for above in active.ancestors() if above.exclusive), None)


def _held_above(active: ActiveCall, slots: Slots) -> bool:
    """Whether a call around this one holds a slot, for which this one would wait forever."""
    return any(above.slots is slots for above in active.ancestors())


_pools = renewed_in_child(_Pool.renew)
