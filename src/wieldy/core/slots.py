"""Let only so many calls run at once, from whichever event loop they come."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from .call import Outcome
from .gate import Gate
from .run import Handler, Middleware, Run, stand_in_queue


class Slots:
    """A first-come-first-served semaphore that callers on different loops can share."""

    __slots__ = ("_free", "_lock", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()

    def take_free(self) -> bool:
        """Take a slot if one is free."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            return False

    async def take(self) -> None:
        """Wait for a slot."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
        try:
            await stand_in_queue(future)
        except asyncio.CancelledError:
            with self._lock:
                handed_over = future not in self._waiting
                if not handed_over:
                    self._waiting.remove(future)
            if handed_over:
                self.give()
            raise

    def give(self) -> None:
        """Give a slot back, to the one who has waited longest."""
        with self._lock:
            while self._waiting:
                future = self._waiting.popleft()
                try:
                    future.get_loop().call_soon_threadsafe(_wake, future)
                except RuntimeError:
                    # Its loop was closed while it waited; the next one.
                    continue
                return
            self._free += 1


def limit_concurrency(
    count: int, key: Callable[[Mapping[str, Any]], Hashable] | None, gate: Gate
) -> Middleware:
    """A middleware with `count` slots, or `count` for each key.

    Calls nested in an exclusive call have slots of their own: while that runs,
    nobody else does, and who holds the others may be waiting for it to end.
    """
    kept: dict[Hashable, tuple[Slots, int]] = {(None, None): (Slots(count), 1)}
    lock = threading.Lock()

    def enter(name: Hashable) -> Slots:
        with lock:
            slots, users = kept.get(name) or (Slots(count), 0)
            kept[name] = (slots, users + 1)
            return slots

    def leave(name: Hashable) -> None:
        with lock:
            slots, users = kept.pop(name)
            if users > 1:
                kept[name] = (slots, users - 1)

    async def take_slot(run: Run, proceed: Handler) -> Outcome:
        name = (_alone_above(run), None if key is None else key(run.values))
        slots = enter(name)
        try:
            if _held_above(run, slots):
                return await proceed(run)
            outside = False
            if not slots.take_free():
                outside = gate.step_out(run)
                await slots.take()
            run.slots = slots
            try:
                if outside:
                    await gate.step_in(run)
                return await proceed(run)
            finally:
                run.slots = None
                slots.give()
        finally:
            leave(name)

    return take_slot


def _alone_above(run: Run) -> Run | None:
    """The exclusive call that this one is nested in."""
    above = run.parent
    while above is not None and not above.exclusive:
        above = above.parent
    return above


def _held_above(run: Run, slots: Slots) -> bool:
    """Whether a call that this one is nested in holds a slot; to wait for it would be forever."""
    above = run.parent
    while above is not None:
        if above.slots is slots:
            return True
        above = above.parent
    return False


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
