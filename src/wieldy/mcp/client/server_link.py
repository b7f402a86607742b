"""The public object for a connected MCP server."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import mcp_types as types
from mcp.client import Client

from wieldy.core.block import Block, read_block
from wieldy.core.context import Context
from wieldy.core.errors import CallUnknown, ServerUnavailable, WieldyError
from wieldy.core.loop_bridge import run_on_loop, wind_down
from wieldy.core.registry import Registry
from wieldy.core.sync import LoopThread
from wieldy.core.task import time_limit
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line

from .caller_links import CallerLinks
from .change_streams import Change
from .connection import Connection, list_all_pages
from .offerings import KINDS, Kind, Offered, Offerings
from .patience import Patience
from .request_extras import AnswerLost, RequestExtras
from .result_content import to_block
from .server_requests import RequestAnswers
from .server_source import GivenSource, Headers, PerCaller, Source, call_headers
from .tool_listing import Listing, read_listing
from .tool_sync import Shelf, Terms
from .transports import Opening

T = TypeVar("T")
# Told of a server, what has changed of it, and of an updated resource its URI.
Announce = Callable[["Server", Change, str | None], None]
_log = logging.getLogger("wieldy.mcp")
_CLOSE_SECONDS = 30.0
# How long a loop that runs foreign code may take to respond at all.
_BLOCKED_SECONDS = 5.0


class Server:
    """One MCP server of a toolbox: its tools, resources, prompts and state.

    `protocol_version` is the negotiated version. `info`, `instructions` and `extensions` are the
    server's description of itself. Where each caller has a connection of their own, `reach` gives
    the server as one caller reaches it: `home` is the one that has the tools, `owner` the caller.
    """

    def __init__(
        self,
        name: str,
        thread: LoopThread,
        own_thread: bool = False,
        announce: Announce | None = None,
        home: "Server | None" = None,
        owner: str | None = None,
    ) -> None:
        self.name = name
        self.home = self if home is None else home
        self.owner = owner
        self.protocol_version: str | None = None
        self.instructions: str | None = None
        self.info: dict[str, Any] = {}
        self.extensions: dict[str, dict[str, Any]] = {}
        self._thread = thread
        self._own_thread = own_thread
        self._error: WieldyError | None = None
        self._connection: Connection | None = None
        self._opening: Opening | None = None
        self._shelf: Shelf | None = None
        self._latest = Listing()
        self._was_open = False
        self._closed = False
        self._announce = announce
        self._headers: Headers | None = None
        self._prefix = "" if home is None else home.prefix
        self._per_caller: PerCaller | None = None
        self._links: CallerLinks[Server] | None = None
        self.offerings = Offerings(name, self._ask_here)

    @classmethod
    def failed(cls, name: str, thread: LoopThread, error: WieldyError) -> "Server":
        """A server that could not be added, kept to hold the reason."""
        server = cls(name, thread)
        server._error = error
        return server

    @property
    def error(self) -> WieldyError | None:
        """Why the server was not added, or why its last connection failed."""
        if self._error is None and self._connection is not None:
            return self._connection.failure
        return self._error

    @property
    def was_added(self) -> bool:
        """Whether the server was ever connected; if not, `error` says why."""
        return self._connection is not None

    @property
    def is_lost(self) -> bool:
        """Whether the session has ended. The next request opens another one."""
        return self._connection is not None and self._connection.is_lost

    @property
    def tools(self) -> list[Tool]:
        """The server's tools in the toolbox, in the order in which they were added."""
        return [] if self._shelf is None else self._shelf.tools

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret strings that the server was given; they are masked in its answers."""
        return () if self._opening is None else self._opening.secrets

    @property
    def tool_errors(self) -> dict[str, str]:
        """The reasons why listed tools are not offered, by the server's own names."""
        refused = {} if self._shelf is None else self._shelf.refused
        return {**self._latest.problems, **refused}

    def tool_meta(self) -> dict[str, dict[str, Any]]:
        """The `_meta` of the definitions of its tools, by their names in the toolbox."""
        return {} if self._shelf is None else self._shelf.find_meta()

    @property
    def offer_errors(self) -> dict[str, str]:
        """The reasons why listed resources, templates and prompts are not offered."""
        return dict(self.offerings.errors)

    @property
    def prefix(self) -> str:
        """What the names of its tools and prompts begin with here."""
        return self._prefix

    @property
    def lists_tools(self) -> bool:
        """Whether the server lists any tool itself, in the toolbox or not."""
        return bool(self._latest.tools or self._latest.problems)

    @property
    def stderr(self) -> str:
        """The end of the process's stderr; empty for a server that is not a process."""
        return "" if self._opening is None else self._opening.stderr

    async def list_tools(self) -> list[types.Tool]:
        """The tools that the server lists now, as objects of the SDK."""
        found: Listing = await self._ask_plainly(read_listing)
        return found.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None
    ) -> types.CallToolResult:
        """Call a tool directly, without the toolbox; returns the SDK's result.

        Args:
            name: the server's own name of the tool.
            arguments: its arguments.
        """
        sent = dict(arguments or {})
        try:
            return await self.ask(
                lambda client: client.call_tool(name, sent), RequestExtras(), False
            )
        except AnswerLost as lost:
            raise CallUnknown(name, str(lost)) from lost

    async def resources(self) -> list[dict[str, Any]]:
        """The resources that the server lists, in MCP's JSON shape."""
        return await self._list_pages(Client.list_resources, lambda page: page.resources)

    async def resource_templates(self) -> list[dict[str, Any]]:
        """The URI templates of the server's resources, in MCP's JSON shape."""
        return await self._list_pages(
            Client.list_resource_templates, lambda page: page.resource_templates
        )

    async def read_resource(self, uri: str) -> list[Block]:
        """The content of a resource, as blocks with text or bytes."""
        found = await self._ask_plainly(lambda client: client.read_resource(uri))
        shapes = (item.model_dump(by_alias=True, mode="json") for item in found.contents)
        return [read_block({"type": "resource", "resource": shape}) for shape in shapes]

    async def prompts(self) -> list[dict[str, Any]]:
        """The prompts that the server offers, in MCP's JSON shape."""
        return await self._list_pages(Client.list_prompts, lambda page: page.prompts)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> list[tuple[str, Block]]:
        """The messages of a prompt with its arguments filled in."""
        sent = dict(arguments or {})
        found = await self._ask_plainly(lambda client: client.get_prompt(name, sent))
        return [(message.role, to_block(message.content)) for message in found.messages]

    async def offered(self, kind: Kind) -> Offered:
        """The list of one kind, as it is kept; empty if the server can't be asked."""
        known = self.offerings.current(kind)
        if known is not None or self._connection is None or self._closed:
            return known or ()
        return await run_on_loop(self._thread, lambda: self.offerings.read(kind))

    async def follow(self, uri: str) -> None:
        """Hear of updates of a resource, until `unfollow` is called as often."""
        changes = self._require_connection().changes
        await run_on_loop(self._thread, lambda: changes.follow(uri))

    async def unfollow(self, uri: str) -> None:
        """Undo one `follow`."""
        if self._connection is not None and not self._closed:
            changes = self._connection.changes
            await run_on_loop(self._thread, lambda: changes.unfollow(uri))

    async def request(self, send: Callable[[Client], Awaitable[T]], context: Context | None) -> T:
        """Send a request that changes nothing, for whoever wants it and as them."""
        server, headers = await self.reach(context), await call_headers(self._headers, context)
        try:
            return await server.ask(send, RequestExtras(headers))
        except AnswerLost as lost:
            raise ServerUnavailable(self.name, str(lost)) from lost

    async def ask(
        self, send: Callable[[Client], Awaitable[T]], errand: RequestExtras, safe: bool = True
    ) -> T:
        """Send a request on the connection's loop, and return the answer on the caller's loop."""
        connection = self._require_connection()
        try:
            return await run_on_loop(self._thread, lambda: connection.ask(send, errand, safe))
        except asyncio.CancelledError:
            # The connection learns of the doubt before the next request, as all may hang.
            self._thread.call(connection.doubt)
            raise

    async def connect(
        self, source: GivenSource, patience: Patience, make_answers: Callable[[], RequestAnswers]
    ) -> None:
        """Open the first session. This runs on the connection's loop."""
        if isinstance(source, PerCaller):
            self._per_caller = source
            self._links = CallerLinks(
                lambda: self.name,
                source,
                lambda caller, own: self._connect_caller(caller, own, patience, make_answers),
            )
            source = source.listing
        answers = make_answers()
        self._opening = Opening(source, patience, answers, self._pass_notification)
        # Tools are read once for all callers, and locked as one.
        lists_tools = self.home is self
        self._connection = Connection(self, self._opening, patience, lists_tools)
        answers.find_errand = self._connection.find_errand
        await self._connection.open()

    async def reach(self, context: Context | None) -> "Server":
        """The server as whoever makes a call reaches it: this one, unless each has their own.

        Args:
            context: The call; without one this server is meant, which has nobody's identity.

        Raises:
            ServerUnavailable: The caller does not reach it; the reason says why.
        """
        links, source = self._links, self._per_caller
        if context is None or links is None or source is None:
            return self
        caller, own = context.scope.caller, source.find(context)
        return await run_on_loop(self._thread, lambda: links.find(caller, own))

    def admits(self, context: Context) -> bool:
        """Whether the caller of a call reaches the server at all."""
        try:
            return self._per_caller is None or bool(self._per_caller.find(context))
        except ServerUnavailable:
            return False

    async def _connect_caller(
        self,
        caller: str | None,
        own: Source,
        patience: Patience,
        make_answers: Callable[[], RequestAnswers],
    ) -> "Server":
        server = Server(self.name, self._thread, announce=self._announce, home=self, owner=caller)
        try:
            await server.connect(own, patience, make_answers)
        except BaseException:
            await asyncio.shield(server.close_here())
            raise
        return server

    @property
    def busy(self) -> bool:
        """Whether a request runs, or somebody follows a resource."""
        return self._connection is not None and self._connection.busy

    @property
    def caller_count(self) -> int | None:
        """How many callers have a connection of their own; None if they share this one."""
        return None if self._links is None else len(self._links)

    async def reconnect(self) -> None:
        """End the session and open another one, and read the tools again.

        Raises:
            ServerUnavailable: The server can't be reached, or was never added.
        """
        connection, links = self._require_connection(), self._links

        async def renew() -> None:
            await connection.renew()
            for each in [] if links is None else links.links:
                # A caller whose connection can't be renewed is told when they next need it.
                with suppress(ServerUnavailable):
                    await each._require_connection().renew()

        await run_on_loop(self._thread, renew)

    async def revive(self) -> None:
        """Open another session if the last one has ended, and read the tools again.

        Raises:
            ServerUnavailable: The server can't be reached now.
        """
        connection = self._require_connection()
        await run_on_loop(self._thread, connection.revive)

    def rename(self, name: str) -> None:
        """Change the name, before the server is visible to others."""
        self.name = name

    def offer(self, registry: Registry, terms: Terms) -> list[Tool]:
        """Add the server's tools to a toolbox and keep them up to date; returns the tools."""
        self._headers, self._prefix = terms.headers, terms.prefix
        self._shelf = Shelf(self.name, self, registry, terms)
        self._shelf.fill(self._latest.tools)
        return self._shelf.tools

    def listed(self, client: Client, listing: Listing) -> None:
        """Receive the server's description and tools, at every connection and change."""
        self.protocol_version = client.protocol_version
        self.instructions = client.instructions
        self.extensions = dict(client.server_capabilities.extensions or {})
        info = client.server_info
        self.info = {} if info is None else info.model_dump(by_alias=True, exclude_none=True)
        for name, problem in listing.problems.items():
            if self._latest.problems.get(name) != problem:
                _log.warning(
                    "%s: %s can't be offered: %s", self.name, visible_line(name, 80), problem
                )
        self._latest = listing
        if self._shelf is not None:
            self._shelf.fill(listing.tools)

    def changed(self, change: Change, uri: str | None) -> None:
        """Receive a change of what the server offers besides tools."""
        if change == "prompts":
            self.offerings.drop("prompts")
        elif change == "resources":
            self.offerings.drop("resources", "templates")
        if self._announce is not None:
            self._announce(self, change, uri)

    def renewed(self) -> None:
        """Receive that a new session has begun, of a server that may offer other things."""
        self.offerings.secrets = self.secrets
        self.offerings.drop(*KINDS)
        opened, self._was_open = self._was_open, True
        # The first session of one caller begins because that caller is about to look.
        if self._announce is not None and (opened or self.home is self):
            self._announce(self, "resources", None)
            self._announce(self, "prompts", None)

    def forget(self, thread: LoopThread) -> None:
        """Start over in a forked child, which does not have the parent's threads."""
        self._thread = LoopThread(self._thread.name) if self._own_thread else thread
        self.offerings.drop(*KINDS)
        if self._links is not None:
            self._links.forget()
        if self._connection is not None:
            self._connection.forget()

    async def close(self) -> None:
        """End the connection and the server's process; calls of its tools then fail."""
        if self._closed:
            return
        self._closed = True
        if self._connection is not None:
            with suppress(TimeoutError):
                async with time_limit(_CLOSE_SECONDS):
                    await run_on_loop(self._thread, self._close_connections)
        if self._own_thread:
            await wind_down(self._thread, _BLOCKED_SECONDS)

    async def close_here(self) -> None:
        """End the connection, from its own loop."""
        self._closed = True
        await self._close_connections()

    async def _close_connections(self) -> None:
        if self._links is not None:
            await self._links.close()
        if self._connection is not None:
            await self._connection.close()

    def take_out_tools(self) -> Callable[[], None]:
        """Remove the tools from the toolbox for a moment; gives what puts them back."""
        return (lambda: None) if self._shelf is None else self._shelf.take_out_all()

    def empty(self) -> None:
        """Remove the server's tools from the toolbox."""
        if self._shelf is not None:
            self._shelf.clear()

    async def _list_pages(
        self, fetch: Callable[..., Awaitable[Any]], items: Callable[[Any], list[Any]]
    ) -> list[dict[str, Any]]:
        found = await self._ask_plainly(
            lambda client: list_all_pages(lambda c: fetch(client, cursor=c), items)
        )
        return [item.model_dump(by_alias=True, mode="json", exclude_none=True) for item in found]

    async def _ask_plainly(self, send: Callable[[Client], Awaitable[Any]]) -> Any:
        try:
            return await self.ask(send, RequestExtras())
        except AnswerLost as lost:
            raise ServerUnavailable(self.name, str(lost)) from lost

    async def _ask_here(self, send: Callable[[Client], Awaitable[Any]]) -> Any:
        """Send a request from the connection's own loop."""
        return await self._require_connection().ask(send, RequestExtras())

    async def _pass_notification(self, message: Any) -> None:
        if self._connection is not None:
            self._connection.told(message)

    def _require_connection(self) -> Connection:
        if self._connection is None or self._closed:
            raise self.error or ServerUnavailable(self.name, "it was closed")
        return self._connection

    def __repr__(self) -> str:
        state = f"error={str(self.error)!r}" if self.error else f"{len(self.tools)} tools"
        return f"Server({self.name!r}, {state})"
