"""Tell clients that the tools have changed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ToolsListChanged
from mcp_types import (
    NotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from wieldy.core.errors import WieldyError
from wieldy.core.task import time_limit

from .client_lists import ClientLists, ListBus, stream_key
from .offer import WatchedTools
from .passing.catalogue import Catalogues
from .passing.passed_changes import PassedChanges

_SLOWEST = 5.0
_PAUSE = 1.0


class ListChanges:
    """The clients that listen for changes: streams of the new protocol, sessions of the old."""

    def __init__(self, box: WatchedTools, catalogues: Catalogues) -> None:
        self.bus = ListBus()
        self.passed = PassedChanges(catalogues, self.bus)
        self.listening = ListenHandler(self.bus)
        self.clients = ClientLists()
        self._box = box
        self._sessions: dict[Connection, tuple[ServerSession, str]] = {}
        self._servings = 0
        self._unwatch: Callable[[], None] | None = None
        # The changes to report: None concerns every client, any other value is the key of a list.
        self._changed: set[str | None] = set()
        self._telling: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Notify clients of changes while the server runs, over any number of transports."""
        self._servings += 1
        if self._unwatch is None:
            self._unwatch = self._watch_tools()
        if self._looking is None and self._box.recorded:
            # Clients are notified of every change after this point.
            known = await self._in_force()
            self._looking = asyncio.get_running_loop().create_task(self._look_for_rules(known))
        try:
            yield
        finally:
            self._servings -= 1
            if not self._servings:
                self._unwatch()
                self._unwatch = None
                for task in (self._telling, self._looking):
                    if task is not None:
                        task.cancel()
                self._looking = None

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream of the new protocol."""
        key = self.clients.key_of(ctx)
        before = stream_key.set(key)
        try:
            async with self.passed.listening(
                key, params.notifications.resource_subscriptions or ()
            ):
                return await self.listening(ctx, params)
        finally:
            stream_key.reset(before)

    async def join(self, ctx: ServerRequestContext[Any, Any], params: NotificationParams) -> None:
        """Notify this session too, as long as its connection lasts."""
        # The SDK has no public access to a session's connection, which knows when it ends.
        connection = ctx.session._connection
        self._sessions[connection] = (ctx.session, self.clients.key_of(ctx))
        connection.exit_stack.callback(self._sessions.pop, connection, None)
        self.passed.join(ctx)

    def _watch_tools(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def tell_soon(key: str | None) -> None:
            # Tools may be added on any thread, even after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._notify_soon, key)

        ends = (
            self._box.watch(lambda name: tell_soon(None)),
            self._box.watch_lists(tell_soon),
            self.passed.watch(),
        )

        def unwatch() -> None:
            for end in ends:
                end()

        return unwatch

    async def _look_for_rules(self, known: Hashable) -> None:
        """Look for rules that other processes made in the store, and for expired ones."""
        while True:
            await asyncio.sleep(_PAUSE)
            now = await self._in_force()
            if now not in (None, known):
                known = now
                self._notify_soon(None)

    async def _in_force(self) -> Hashable:
        # While the store can't be read, the known rules stay in force.
        with suppress(WieldyError):
            return await self._box.rules_in_force()
        return None

    def _notify_soon(self, key: str | None) -> None:
        self._changed.add(key)
        if self._servings and (self._telling is None or self._telling.done()):
            self._telling = asyncio.get_running_loop().create_task(self._notify_clients())

    async def _notify_clients(self) -> None:
        """Send one notification for all changes that happen at the same time."""
        while self._changed:
            keys, self._changed = self._changed, set()
            if None in keys:
                self.passed.tell_visibility()
                await self.bus.publish(ToolsListChanged())
            else:
                for key in keys:
                    await self.bus.publish_to(str(key), ToolsListChanged())
            sessions = tuple(self._sessions.values())
            meant = [session for session, key in sessions if None in keys or key in keys]
            await asyncio.gather(*map(_notify_session, meant))


async def _notify_session(session: ServerSession) -> None:
    # A client that does not read must not delay the others.
    with suppress(TimeoutError):
        async with time_limit(_SLOWEST):
            await session.send_tool_list_changed()
