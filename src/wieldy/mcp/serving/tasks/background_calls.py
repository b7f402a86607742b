"""The calls that go on in this process after their client was told to ask again later."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mcp.shared.exceptions import MCPError

from wieldy.core.block import Block, Notice, Progress
from wieldy.core.visible_text import visible_line
from wieldy.mcp.serving.traffic import Traffic

T = TypeVar("T")
Tell = Callable[[Block | Progress], Awaitable[None]]
# Leaves the call of an id to a later process, if that is possible.
Leave = Callable[[str], Awaitable[bool]]
_MAX_MESSAGE = 300
_LEAVE_SECONDS = 3.0
_log = logging.getLogger("wieldy.mcp")


class BackgroundCalls:
    """Runs the work of tasks, and keeps what they said last."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._servings = 0
        self._running: dict[str, set[asyncio.Task[Any]]] = {}
        self._said: dict[str, str] = {}

    @asynccontextmanager
    async def serving(self, leave: Leave) -> AsyncIterator[None]:
        """Let work go on while the server runs, over any number of transports.

        At its end `leave` is asked to leave each call to a later process. The others are stopped.
        """
        self._servings += 1
        try:
            yield
        finally:
            self._servings -= 1
            if not self._servings:
                await self._stop_all(leave)

    async def _stop_all(self, leave: Leave) -> None:
        left = [each for each in list(self._running) if await leave(each)]
        leaving = [task for each in left for task in self._running.get(each, ())]
        if leaving:
            await asyncio.wait(leaving, timeout=_LEAVE_SECONDS)
        stopped = [task for tasks in self._running.values() for task in tasks]
        for task in stopped:
            task.cancel()
        if stopped:
            await asyncio.wait(stopped)

    def start(self, task_id: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Do the work of a task, which counts as a running call."""
        task = asyncio.get_running_loop().create_task(self._count(work))
        self._running.setdefault(task_id, set()).add(task)
        task.add_done_callback(lambda done: self._forget(task_id, done))
        return task

    async def _count(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            with self._traffic.one():
                return await work
        finally:
            # If the server is ending, the work was never begun.
            work.close()

    def _forget(self, task_id: str, done: "asyncio.Task[Any]") -> None:
        tasks = self._running[task_id]
        tasks.discard(done)
        if not tasks:
            del self._running[task_id]
            self._said.pop(task_id, None)
        error = None if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, MCPError):
            _log.warning("The work of %s failed: %r", task_id, error)

    def is_busy(self, task_id: str) -> bool:
        """Whether something is being done for a task here."""
        return task_id in self._running

    def last_message(self, task_id: str) -> str | None:
        """What the running call said last, if it said anything."""
        return self._said.get(task_id)

    def note(self, task_id: str, item: Block | Progress) -> None:
        """Keep what a running call shows, as far as it is a message for people."""
        message = _read_message(item)
        if message and task_id in self._running:
            self._said[task_id] = visible_line(message, _MAX_MESSAGE)


class TaskTeller:
    """Tells the client what a call shows, until the client has a task that it polls instead."""

    def __init__(self, calls: BackgroundCalls, task_id: str, tell: Tell | None) -> None:
        self._calls = calls
        self._task_id = task_id
        self._tell = tell

    def leave(self) -> None:
        """Tell the client nothing more: its request has been answered."""
        self._tell = None

    async def tell(self, item: Block | Progress) -> None:
        """Pass an item on, and keep its message."""
        self._calls.note(self._task_id, item)
        if self._tell is not None:
            await self._tell(item)


def _read_message(item: Block | Progress) -> str | None:
    if isinstance(item, Notice):
        return item.shown_text
    if not isinstance(item, Progress):
        return None
    total = "" if item.total is None else f" of {float(item.total):g}"
    done = f"{float(item.done):g}{total}"
    return f"{done}: {item.message}" if item.message else done
