"""Limit how many calls run at once and how many wait, and refuse the others."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from wieldy.core.limits.concurrency import Slots
from wieldy.core.sync import blocking_border
from wieldy.core.task import current_task

from .handed_out import call_around


class Turns:
    """A queue for blocking and async callers, in the order in which they arrive."""

    def __init__(self, most: int | None, longest: int | None) -> None:
        if most is not None and most < 1:
            raise ValueError(f"max_concurrency must be 1 or more, not {most!r}")
        if longest is not None and (longest < 0 or most is None):
            raise ValueError("max_queue is 0 or more, and needs max_concurrency")
        self._slots = None if most is None else Slots(most, longest)

    @property
    def free(self) -> bool:
        """Whether the caller does not have to wait."""
        # A call inside another call must not wait for the turn that the outer call holds.
        return self._slots is None or call_around() is not None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a turn; waiting for it blocks this thread."""
        assert self._slots is not None
        turn = _Turn(self._slots)
        try:
            blocking_border().wait(lambda home: turn.take())
            yield
        finally:
            turn.give()

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[None]:
        """Hold a turn; waiting for it blocks nobody."""
        assert self._slots is not None
        turn = _Turn(self._slots)
        try:
            await turn.take()
            yield
        finally:
            turn.give()


class _Turn:
    """One caller in the queue."""

    task: "asyncio.Task[Any]"

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The future on which the caller waits for its turn."""
        return self.task.get_loop()

    async def take(self) -> None:
        """Wait for the turn; `queue.Full` where too many wait already."""
        self.task = current_task()
        await self._slots.take(self, "this registry")

    def give(self) -> None:
        """Let the next one have it, if it had come."""
        self._slots.give(self)
