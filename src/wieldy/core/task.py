"""The task that is running now, found as cheaply as this Python allows."""

import asyncio
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


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
        """Cancel the task, only once. Call it on the task's own loop."""
        if not self.fired and not self.task.done():
            self.fired = True
            self.task.cancel()

    def taken_back(self) -> bool:
        """Whether the `CancelledError` just caught was ours alone."""
        return self.fired and self.task.uncancel() <= self.before

    async def settle(self) -> asyncio.CancelledError | None:
        """Absorb a cancellation that was fired while its frame was already ending.

        Returns the `CancelledError` to raise if somebody else cancelled the task too.
        """
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            return error if self.task.uncancel() > self.before else None
        self.task.uncancel()
        return None


def current_task() -> "asyncio.Task[Any]":
    """The running task; engine code always runs in one."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def hear_observer(waiting: Awaitable[Any]) -> asyncio.CancelledError | None:
    """Wait for an observer; returns a cancellation to raise after the other observers were told."""
    task = current_task()
    before = task.cancelling()
    try:
        await waiting
    except asyncio.CancelledError as error:
        if task.cancelling() == before:
            raise
        return error
    return None


@types.coroutine
def run_in_copy(
    coroutine: Coroutine[Any, Any, T], variables: Context | None = None
) -> Generator[Any, Any, T]:
    """Run a coroutine in this task, and in a copy of its context, as a task of its own would.

    Where `variables` are given, the copy is of these.
    """
    context = copy_context() if variables is None else variables.copy()
    given, failure = None, None
    while True:
        try:
            if failure is None:
                waited = context.run(coroutine.send, given)
            else:
                waited = context.run(coroutine.throw, failure)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            # An error refers to this frame, which must not refer to the error.
            failure = None
        try:
            given = yield waited
        except BaseException as error:
            failure = error


class _Current:
    """The running task as a list of one."""

    def __iter__(self) -> "Iterator[asyncio.Task[Any]]":
        yield current_task()


# Before 3.12, asking for the running loop makes a system call, which costs as much as a whole
# tool call. The asyncio of those versions no longer changes, so its table of tasks can be read.
running_tasks: Any = _Current()
if sys.version_info < (3, 12):
    running_tasks = vars(asyncio.tasks)["_current_tasks"].values()


@asynccontextmanager
async def time_limit(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """`asyncio.timeout`, also in a task that was asked to stop before.

    There the first releases of Python 3.11 raise `CancelledError` when the time is up, so that
    what cleans up after a cancellation would stop half-way.
    """
    task = current_task()
    before = task.cancelling()
    try:
        async with asyncio.timeout(seconds) as limit:
            yield limit
    except asyncio.CancelledError:
        if limit.expired() and task.cancelling() <= before:
            raise TimeoutError from None
        raise
