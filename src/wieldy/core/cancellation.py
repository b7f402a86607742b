"""Stop a piece of a task and take exactly that stop back."""

import asyncio
from typing import Any


class Cancellation:
    """A cancellation of one task that ends at the frame which made it.

    Frames below see an ordinary `CancelledError`. The frame that made it asks
    `taken_back()`: true means that this was the only reason, and the task goes on.
    """

    __slots__ = ("before", "fired", "task")

    def __init__(self, task: "asyncio.Task[Any]", before: int) -> None:
        self.task = task
        self.before = before
        self.fired = False

    def fire(self) -> None:
        """Cancel the task, once. Call it on the task's own loop."""
        if not self.fired and not self.task.done():
            self.fired = True
            self.task.cancel()

    def taken_back(self) -> bool:
        """Whether the `CancelledError` just caught was ours alone."""
        return self.fired and self.task.uncancel() <= self.before

    async def settle(self) -> asyncio.CancelledError | None:
        """Absorb a cancellation that was fired while its frame was ending by itself.

        Gives the `CancelledError` that has to go on, if somebody else cancelled too.
        """
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            return error if self.task.uncancel() > self.before else None
        self.task.uncancel()
        return None
