"""Whose list of tools a client sees, where the box has search tools."""

import uuid
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent

from .callers import caller_name

# The key of the client that opens a stream, while it does.
stream_key: ContextVar[str | None] = ContextVar("wieldy_mcp_stream", default=None)


class ClientLists:
    """Tells clients apart: by token, or else by connection.

    Clients of the newer protocol over HTTP that have no token can't be told apart. They share
    one list, which ends with the server.
    """

    def __init__(self) -> None:
        self._nameless = _new_key()
        self._keys: WeakKeyDictionary[object, str] = WeakKeyDictionary()

    def key_of(self, ctx: ServerRequestContext[Any, Any]) -> str:
        """The key of the list that the client of a request sees."""
        caller = caller_name()
        if caller is not None:
            return caller
        # The SDK has no public way from a session to its connection. Of a connection that lasts,
        # each request has the same way back to the client.
        connection = ctx.session._connection
        if not connection.has_standalone_channel:
            return self._nameless
        return self._keys.setdefault(connection.outbound, _new_key())


class ListBus(InMemorySubscriptionBus):
    """Tells open streams of events: all of them, or those of the clients that see one list."""

    def __init__(self) -> None:
        super().__init__()
        self._streams: dict[str | None, InMemorySubscriptionBus] = {}

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a listener, also for the list of the client that opens the stream."""
        key = stream_key.get()
        own = self._streams.setdefault(key, InMemorySubscriptionBus())
        ends = (super().subscribe(listener), own.subscribe(listener))

        def unsubscribe() -> None:
            for end in ends:
                end()
            if not own._listeners:
                self._streams.pop(key, None)

        return unsubscribe

    async def publish_to(self, key: str, event: ServerEvent) -> None:
        """Tell the clients that see this list."""
        own = self._streams.get(key)
        if own is not None:
            await own.publish(event)


def _new_key() -> str:
    return f"mcp:{uuid.uuid4().hex}"
