"""The list of tools that each client sees, if the box has search tools."""

import hashlib
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent

from .callers import caller_name

# The header with which a client names the list that it sees.
NAME_HEADER = "wieldy-session"
# The key of the client that opens a stream, while it does.
stream_key: ContextVar[str | None] = ContextVar("wieldy_mcp_stream", default=None)


class ClientLists:
    """Tells clients apart: by token, or by the name that they give themselves, or by connection.

    The newer protocol over HTTP has no connections, and its clients have no name that the protocol
    knows. Those that have no token and give themselves no name share one list, which ends with
    the server.
    """

    def __init__(self) -> None:
        self._nameless = _new_key()
        # Anybody may give any name without a token, so these lists end with the server.
        self._named = _new_key()
        self._keys: WeakKeyDictionary[object, str] = WeakKeyDictionary()

    def key_of(self, ctx: ServerRequestContext[Any, Any]) -> str:
        """The key of the list that the client of a request sees."""
        caller = caller_name()
        if caller is not None:
            return caller
        named = _read_name(ctx)
        if named is not None:
            return f"{self._named}:{named}"
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


def _read_name(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """The name that a client over HTTP gives its list, as a digest of one length."""
    headers = getattr(ctx.request, "headers", None)
    given = None if headers is None else headers.get(NAME_HEADER)
    return hashlib.sha256(given.encode()).hexdigest()[:32] if given else None


def _new_key() -> str:
    return f"mcp:{uuid.uuid4().hex}"
