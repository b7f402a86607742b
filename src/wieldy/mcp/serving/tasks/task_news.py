"""Tell clients of the changes of their tasks, on the stream of `subscriptions/listen`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    Notification,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from wieldy.core.errors import WieldyError
from wieldy.core.task import time_limit
from wieldy.mcp.tasks_extension import ENDED_TASK

from .served_tasks import ServedTasks

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.store.ledger_entry import Entry

Request = ServerRequestContext[Any, Any]
Listen = Callable[[Request, SubscriptionsListenRequestParams], Awaitable[SubscriptionsListenResult]]
_MAX_FOLLOWED = 100
# Not every change of a task is one of its own call, so it is looked at again after this time.
_PAUSE = 1.0


class TaskNotification(Notification[dict[str, Any], Literal["notifications/tasks"]]):
    """How a task stands now."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class TaskNews:
    """Follows the tasks that clients name when they open a stream."""

    def __init__(self, tasks: ServedTasks, listen: Listen) -> None:
        self._tasks = tasks
        self._listen = listen

    async def listen(
        self, ctx: Request, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve a stream, with the changes of the caller's own tasks among those it names."""
        named = (params.notifications.model_extra or {}).get("taskIds")
        if named is None:
            return await self._listen(ctx, params)
        self._tasks.check_request(ctx)
        own = [each for each in _read_ids(named) if await self._tasks.calls.is_own(each)]
        session = _NewsSession(ctx.session, own)
        following = [asyncio.create_task(self._follow(ctx, session, each)) for each in own]
        try:
            return await self._listen(replace(ctx, session=cast(ServerSession, session)), params)
        finally:
            for each in following:
                each.cancel()
            if following:
                await asyncio.wait(following)

    async def _follow(self, ctx: Request, session: "_NewsSession", task_id: str) -> None:
        """Tell how a task stands, and then each change until its end."""
        last: dict[str, Any] | None = None
        await session.acknowledged.wait()
        # A task that is no longer kept, or whose client has gone, is not followed any more.
        with suppress(MCPError):
            while last is None or last["status"] not in ENDED_TASK:
                entry = await self._tasks.calls.find_current(task_id)
                told = await self._tasks.describe(ctx, entry)
                if last is None or _facts_of(told) != _facts_of(last):
                    await self._tell(ctx, told)
                last = told
                await self._wait_for_change(entry)

    async def _tell(self, ctx: Request, told: dict[str, Any]) -> None:
        facts = {key: value for key, value in told.items() if key != "resultType"}
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        news: Any = TaskNotification(params={**facts, "_meta": meta})
        await ctx.session.send_notification(news, related_request_id=ctx.request_id)

    async def _wait_for_change(self, entry: "Entry") -> None:
        if entry.ended:
            return
        with suppress(TimeoutError, WieldyError):
            async with time_limit(_PAUSE):
                await self._tasks.calls.wait_for_change(entry)


class _NewsSession:
    """A session that adds the followed tasks to the acknowledgement of a stream."""

    def __init__(self, inner: ServerSession, task_ids: list[str]) -> None:
        self._inner = inner
        self._task_ids = task_ids
        self.acknowledged = asyncio.Event()

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notification. The acknowledgement is the first."""
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            accepted = notification.params.notifications
            setattr(accepted, "taskIds", self._task_ids)  # noqa: B010 - a field that the SDK lacks
        await self._inner.send_notification(notification, related_request_id)
        self.acknowledged.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _read_ids(named: Any) -> list[str]:
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise MCPError(INVALID_PARAMS, "taskIds must be a list of ids.")
    if len(named) > _MAX_FOLLOWED:
        raise MCPError(INVALID_PARAMS, f"No more than {_MAX_FOLLOWED} taskIds on one stream.")
    return list(dict.fromkeys(named))


def _facts_of(told: dict[str, Any]) -> dict[str, Any]:
    """What makes a change: everything but how often to poll."""
    return {key: value for key, value in told.items() if key != "pollIntervalMs"}
