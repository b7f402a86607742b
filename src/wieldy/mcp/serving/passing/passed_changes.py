"""Tell clients what has changed behind: lists of resources and prompts, and single resources."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from wieldy.core.errors import WieldyError
from wieldy.core.task import time_limit
from wieldy.mcp.client.change_streams import Change
from wieldy.mcp.client.server_link import Server
from wieldy.mcp.serving.callers import caller_name
from wieldy.mcp.serving.client_lists import ListBus

from .catalogue import Catalogues

Request = ServerRequestContext[Any, Any]
_SLOWEST = 5.0
# The resources that one client may follow.
_MAX_FOLLOWED = 1000


@dataclass(eq=False, slots=True)
class _Listener:
    """A client that is told: a session of the older protocol, or a stream of the newer one.

    It is told in the context in which it came, so that it hears only of what it may see.
    """

    context: Context
    session: ServerSession | None = None
    key: str | None = None
    # The server and its own URI, by the URI that the client knows.
    followed: dict[str, tuple[Server, str]] = field(default_factory=dict)


class PassedChanges:
    """The sessions that listen, and what each listens to."""

    def __init__(self, catalogues: Catalogues, bus: ListBus) -> None:
        self._catalogues = catalogues
        self._bus = bus
        self._listeners: dict[object, _Listener] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(self) -> Callable[[], None]:
        """Hear of changes, from any thread, until what this gives is called."""
        watch = getattr(self._catalogues.servers, "watch", None)
        if watch is None:
            return lambda: None
        loop = asyncio.get_running_loop()

        def hear(server: Server, change: Change, uri: str | None) -> None:
            # A server may change after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._tell_all, server, change, uri)

        end: Callable[[], None] = watch(hear)
        return end

    def join(self, ctx: Request) -> None:
        """Tell a session of the older protocol, as long as its connection lasts."""
        # The SDK has no public way from a session to its connection, which knows its own end.
        connection = ctx.session._connection
        self._listeners[connection] = _Listener(copy_context(), session=ctx.session)
        connection.exit_stack.push_async_callback(self._leave, connection)

    @asynccontextmanager
    async def listening(self, key: str, uris: Iterable[str]) -> AsyncIterator[None]:
        """Tell a stream of the newer protocol, also of these resources, while this is entered."""
        token, listener = object(), _Listener(copy_context(), key=key)
        self._listeners[token] = listener
        try:
            for uri in list(uris)[:_MAX_FOLLOWED]:
                # A resource that is not there is one that never changes.
                with suppress(MCPError):
                    await self._follow(listener, uri)
            yield
        finally:
            await asyncio.shield(self._leave(token))

    async def subscribe(
        self, ctx: Request, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Tell a session of the older protocol of updates of a resource."""
        listener = self._listeners.get(ctx.session._connection)
        if listener is None or not await self._follow(listener, str(params.uri)):
            raise MCPError(types.INVALID_PARAMS, "There is no such resource to subscribe to.")
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: Request, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Stop telling a session of updates of a resource."""
        listener = self._listeners.get(ctx.session._connection)
        found = None if listener is None else listener.followed.pop(str(params.uri), None)
        if found is not None:
            await found[0].unfollow(found[1])
        return types.EmptyResult()

    def tell_visibility(self) -> None:
        """Tell everybody that they may see other servers now."""
        for server in list(self._catalogues.servers.values()):
            self._tell_all(server, "resources", None)
            self._tell_all(server, "prompts", None)

    async def _follow(self, listener: _Listener, uri: str) -> bool:
        if uri in listener.followed:
            return True
        if len(listener.followed) >= _MAX_FOLLOWED:
            raise MCPError(types.INVALID_PARAMS, f"No more than {_MAX_FOLLOWED} subscriptions.")
        catalogue = await self._catalogues.current("resources", "templates")
        found = catalogue.find_resource(uri)
        if found is None:
            return False
        listener.followed[uri] = found
        try:
            await found[0].follow(found[1])
        except WieldyError as error:
            listener.followed.pop(uri, None)
            raise MCPError(types.INTERNAL_ERROR, "Its server tells of no changes.") from error
        return True

    async def _leave(self, token: object) -> None:
        listener = self._listeners.pop(token, None)
        for server, own in () if listener is None else listener.followed.values():
            with suppress(WieldyError):
                await server.unfollow(own)

    def _tell_all(self, server: Server, change: Change, uri: str | None) -> None:
        told: set[tuple[str, str | None]] = set()
        for listener in list(self._listeners.values()):
            served = [name for name, meant in listener.followed.items() if meant == (server, uri)]
            for name in served if change == "updated" else [None]:
                if listener.key is not None:
                    # The streams of one client are told together.
                    if (listener.key, name) in told:
                        continue
                    told.add((listener.key, name))
                work = self._tell(listener, server, change, name)
                loop = asyncio.get_running_loop()
                task = loop.create_task(work, context=listener.context.copy())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell(
        self, listener: _Listener, server: Server, change: Change, uri: str | None
    ) -> None:
        # A client that does not read must not hold up the others; a view may be gone.
        with suppress(TimeoutError, MCPError, WieldyError):
            async with time_limit(_SLOWEST):
                if not await self._concerns_caller(server):
                    return
                if listener.session is not None:
                    await _notify(listener.session, change, uri)
                elif listener.key is not None:
                    await self._bus.publish_to(listener.key, _make_event(change, uri))

    async def _concerns_caller(self, server: Server) -> bool:
        """Whether the client in whose context this runs may hear of a server."""
        home = server.home
        if server is not home and server.owner != caller_name():
            # News on one caller's connection is for that caller alone.
            return False
        gone = self._catalogues.servers.get(home.name) is not home
        return gone or home in await self._catalogues.visible_servers()


async def _notify(session: ServerSession, change: Change, uri: str | None) -> None:
    if change == "updated":
        await session.send_resource_updated(str(uri))
    elif change == "resources":
        await session.send_resource_list_changed()
    else:
        await session.send_prompt_list_changed()


def _make_event(
    change: Change, uri: str | None
) -> ResourceUpdated | ResourcesListChanged | PromptsListChanged:
    if change == "updated":
        return ResourceUpdated(uri=str(uri))
    return ResourcesListChanged() if change == "resources" else PromptsListChanged()
