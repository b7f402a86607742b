"""The MCP endpoint for a web application: its routes, its guard and its lifespan."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from .access import Access
from .callers import GivenTokens, Identifier, KeptTokens, ResourceMetadata, may_do
from .health import Health
from .http_guard import MAX_BODY, Guard
from .offer import ServedBox
from .server import BoxServer, ServerOptions, above_zero, server

PATH = "/mcp"
MAX_SESSIONS = 1000
IDLE_SECONDS = 1800.0
_COME_BACK_MS = 1000
_RETRY_AFTER = (b"retry-after", b"30")


class WebOptions(ServerOptions, total=False):
    """The options of a served application besides the box and the tokens.

    `hosts` and `origins` are allowed in addition to this machine's own names. `anonymous`
    accepts requests of other machines without a token. With an `events` store of the SDK,
    clients of the older protocol can continue reading after a broken connection.

    `max_body` is how many bytes the body of a request may have, by default 4 MiB.

    `max_sessions` is how many sessions of the older protocol may be open at once, by default
    1,000; a client that wants one more is told to try again later. A session without a request
    for `session_idle` seconds ends, by default after half an hour. None means no limit.

    With `stored_tokens` the tokens of the box's store count too, which `wieldy token` makes.
    `identifiers` are objects that know other tokens.

    Without any of these, anybody on this machine may call and read, and nobody decides but those
    whom `deciders` know, which are identifiers too. By default these are the tokens and sessions
    of the box's store.

    `started` is asked whether all tools are there; until they are, `/ready` answers with 503.
    """

    hosts: Sequence[str]
    origins: Sequence[str]
    anonymous: bool
    max_body: int
    events: EventStore | None
    max_sessions: int | None
    session_idle: float | None
    stored_tokens: bool
    identifiers: Sequence[Identifier]
    deciders: Sequence[Identifier]
    started: Callable[[], bool]


class HttpEndpoint:
    """One box, served over HTTP at `/mcp` and `/health`, behind one guard."""

    def __init__(
        self,
        box: ServedBox | BoxServer,
        tokens: Mapping[str, str] | None,
        options: WebOptions,
        open_paths: Sequence[str] = (),
    ) -> None:
        self.server = server(box, **of_server(options))
        stored = options.get("stored_tokens", False)
        identifiers = _find_identifiers(self.server.box, tokens, stored)
        identifiers += options.get("identifiers", ())
        if len(identifiers) == (tokens is not None) and not options.get("deciders"):
            # Only the owners of given tokens are known by name before their first request.
            self.server.check_callers(tokens or ())
        known = identifiers or options.get("deciders") or _find_deciders(self.server.box)
        self.access = Access(
            known,
            options.get("hosts", ()),
            options.get("origins", ()),
            options.get("anonymous", False),
            open_to_all=not identifiers,
        )
        self._max_body = options.get("max_body", MAX_BODY)
        self._events = options.get("events")
        self._most = above_zero("max_sessions", options.get("max_sessions", MAX_SESSIONS))
        self._idle = above_zero("session_idle", options.get("session_idle", IDLE_SECONDS))
        self._sessions: StreamableHTTPSessionManager | None = None
        health = Health(self.server, self.access, options.get("started"))
        described = [_serve_metadata(each) for each in self.access.metadata]
        self.routes = [Route(PATH, self), *health.routes, *described]
        self.access.open_paths |= {*open_paths}
        self.before_drain: list[Callable[[], None]] = []
        self.middleware = [
            Middleware(
                Guard,
                access=self.access,
                max_body=self._max_body,
                max_values=self.server.max_values,
            )
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._sessions is None:
            raise RuntimeError("The application has not been started: its lifespan must run.")
        if not may_do("call"):
            refused = JSONResponse({"error": "This token does not allow calling tools."}, 403)
            await refused(scope, receive, send)
            return
        await self._sessions.asgi_app(scope, receive, _with_retry(send))

    @property
    def open_sessions(self) -> int:
        """How many sessions of the older protocol are open."""
        # The SDK has no public count.
        return len(getattr(self._sessions, "_server_instances", ()))

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Serve while the `async with` block runs."""
        sessions = StreamableHTTPSessionManager(
            self.server,
            event_store=self._events,
            retry_interval=None if self._events is None else _COME_BACK_MS,
            max_request_body_size=self._max_body,
            max_sessions=self._most,
            session_idle_timeout=self._idle,
        )
        async with sessions.run():
            self._sessions = sessions
            try:
                yield
            finally:
                self._sessions = None

    async def drain(self, seconds: float) -> bool:
        """Refuse new calls and wait for running ones; returns whether they ended in time."""
        for each in self.before_drain:
            each()
        done = await self.server.traffic.drain(seconds)
        self.server.changes.listening.close()
        return done


def _serve_metadata(metadata: ResourceMetadata) -> Route:
    """The route that tells OAuth clients where to get a token; pages may read it too."""

    async def tell(request: Request) -> JSONResponse:
        return JSONResponse(metadata.to_dict(), headers={"access-control-allow-origin": "*"})

    return Route(metadata.path, tell)


def _find_identifiers(
    box: object, tokens: Mapping[str, str] | None, stored: bool
) -> list[Identifier]:
    """The verifiers of the tokens of those who may come in."""
    found: list[Identifier] = [] if tokens is None else [GivenTokens(tokens)]
    if stored:
        if not getattr(box, "recorded", False) or not hasattr(box, "store"):
            raise ValueError("stored_tokens needs a toolbox with a store, and this has none.")
        found.append(KeptTokens(box.store))
    return found


def _find_deciders(box: object) -> list[Identifier]:
    """Who decides where calling needs no token, and nobody was named: people of the store."""
    if getattr(box, "recorded", False) and hasattr(box, "store"):
        return [KeptTokens(box.store)]
    return []


def _with_retry(send: Send) -> Send:
    """Add a Retry-After header to the answer that says that there are too many sessions."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 503:
            message["headers"] = [*message.get("headers", ()), _RETRY_AFTER]
        await send(message)

    return told


def of_server(options: WebOptions) -> ServerOptions:
    """The options that apply to a server over any transport."""
    known = ServerOptions.__annotations__
    return cast(ServerOptions, {name: each for name, each in options.items() if name in known})
