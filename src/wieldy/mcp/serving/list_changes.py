"""Tell clients that the tools have changed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import NotificationParams

from wieldy.core.errors import WieldyError

from .offer import WatchedTools

_SLOWEST = 5.0
_PAUSE = 1.0


class ListChanges:
    """Who listens for changes: streams of the new protocol, sessions of the old one."""

    def __init__(self, box: WatchedTools) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self.bus)
        self._box = box
        self._sessions: dict[Connection, ServerSession] = {}
        self._servings = 0
        self._unwatch: Callable[[], None] | None = None
        self._changed = False
        self._telling: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Tell of changes while the server runs, over however many transports."""
        self._servings += 1
        if self._unwatch is None:
            self._unwatch = self._watch()
        if self._looking is None and self._box.recorded:
            # Whatever changes from now on is told.
            known = await self._in_force()
            self._looking = asyncio.get_running_loop().create_task(self._look(known))
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

    async def join(self, ctx: ServerRequestContext[Any, Any], params: NotificationParams) -> None:
        """Tell this session too, as long as its connection lasts."""
        # The SDK has no public way from a session to its connection, which knows its own end.
        connection = ctx.session._connection
        self._sessions[connection] = ctx.session
        connection.exit_stack.callback(self._sessions.pop, connection, None)

    def _watch(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def told(name: str | None) -> None:
            # Tools may be added on any thread, also after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._soon)

        return self._box.watch(told)

    async def _look(self, known: Hashable) -> None:
        """Look for rules that others made in the store, and for those that have expired."""
        while True:
            await asyncio.sleep(_PAUSE)
            now = await self._in_force()
            if now not in (None, known):
                known = now
                self._soon()

    async def _in_force(self) -> Hashable:
        # While the store can't be read, the rules that are known hold.
        with suppress(WieldyError):
            return await self._box.rules_in_force()
        return None

    def _soon(self) -> None:
        self._changed = True
        if self._servings and (self._telling is None or self._telling.done()):
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        """Tell once of all that changes at the same time."""
        while self._changed:
            self._changed = False
            await self.bus.publish(ToolsListChanged())
            await asyncio.gather(*(_told(session) for session in tuple(self._sessions.values())))


async def _told(session: ServerSession) -> None:
    # A client that does not read must not hold up the others.
    with suppress(TimeoutError):
        async with asyncio.timeout(_SLOWEST):
            await session.send_tool_list_changed()
