"""Manage the MCP servers of one toolbox."""

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

try:
    import mcp as _sdk  # noqa: F401
except ImportError as error:
    raise ImportError('MCP needs an extra: pip install "wieldy[mcp]"') from error

from wieldy.core.errors import InvalidSource, ServerUnavailable, WieldyError, describe_exception
from wieldy.core.forking import renewed_in_child
from wieldy.core.limits.limits import Limits
from wieldy.core.loop_bridge import run_on_loop, wind_down
from wieldy.core.names import listed_names
from wieldy.core.registry import Registry
from wieldy.core.sync import LoopThread
from wieldy.core.tool import Permission, Tool

from .change_streams import Change
from .config import read_entries, read_file
from .patience import Patience
from .server_link import Announce, Server
from .server_requests import OnRequest, RequestAnswers
from .server_source import (
    Address,
    Command,
    GivenSource,
    Headers,
    Inside,
    PerCaller,
    read_source,
)
from .tool_sync import DEFAULT_LIMITS, PREFIX, Tags, Terms

__all__ = ["Server", "Servers"]
# How long closing waits for connections, and for callbacks, which are the user's code.
_WIND_DOWN_SECONDS, _ANSWERS_SECONDS = 10.0, 1.0
_log = logging.getLogger("wieldy.mcp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The options of `add_mcp`: how servers are reached and what they may do."""

    terms: Terms
    headers: Headers | None = None
    auth: Any = None
    env: Mapping[str, Any] | None = None
    cwd: str | None = None
    on_elicit: OnRequest | None = None
    on_sample: OnRequest | None = None
    patience: Patience

    @property
    def reaches(self) -> bool:
        """Whether an option is set that applies to one server only."""
        return any(given is not None for given in (self.headers, self.auth, self.env, self.cwd))

    def applied(self, source: GivenSource) -> GivenSource:
        """The source with these options applied."""
        if isinstance(source, PerCaller):
            given = {"headers": self.headers, "auth": self.auth, "env": self.env, "cwd": self.cwd}
            self._refuse_options(source, **given)
            return source
        if isinstance(source, Command):
            self._refuse_options(source, headers=self.headers, auth=self.auth)
            return replace(
                source, env={**source.env, **(self.env or {})}, cwd=self.cwd or source.cwd
            )
        self._refuse_options(source, env=self.env, cwd=self.cwd)
        if isinstance(source, Inside):
            self._refuse_options(source, headers=self.headers, auth=self.auth)
            return source
        headers: Headers = source.headers
        if callable(self.headers):
            headers = self.headers
        elif self.headers is not None:
            assert not callable(headers)
            headers = {**headers, **self.headers}
        return replace(source, headers=headers, auth=self.auth or source.auth)

    def _refuse_options(self, source: GivenSource, **given: Any) -> None:
        for name, value in given.items():
            if value is not None:
                raise InvalidSource(source.guess, f"{name}= has no meaning for this kind of server")


class Servers(Mapping[str, Server]):
    """The servers by name. Connections run on a loop of their own, on which no tool runs."""

    kind = "MCP servers"

    def __init__(self, registry: Registry) -> None:
        # A weak reference, so that closing the servers does not keep a dropped toolbox alive.
        self._home = weakref.ref(registry)
        self._lock = threading.Lock()
        self._open = False
        self._servers: dict[str, Server] = {}
        self._watchers: list[Announce] = []
        self._renew_threads()
        _pools.add(self)

    async def add(self, source: Any, name: str | None, settings: ServerSettings) -> list[Tool]:
        """Connect to a source and add its tools; returns the tools.

        If one server of a configuration fails, the others are still added.
        """
        found = read_source(source)
        if not isinstance(found, Path | Mapping):
            return await self._add_one(settings.applied(found), name, settings)
        where = str(found) if isinstance(found, Path) else "the configuration"
        content = read_file(found) if isinstance(found, Path) else found
        entries = read_entries(content, where)
        if len(entries) == 1:
            [(listed, read)] = entries.items()
            only = read()
            if only is None:
                return []
            return await self._add_one(settings.applied(only), name or listed or None, settings)
        if name is not None or settings.reaches or settings.terms.prefix:
            given = "name=" if name is not None else "headers=, auth=, env=, cwd= or prefix="
            raise InvalidSource(where, f"{given} is for one server, and there are {len(entries)}")
        return await self._add_all(entries, settings)

    async def remove(self, name: str) -> None:
        """Close a server and remove its tools."""
        with self._lock:
            server = self._servers.pop(name, None)
        if server is None:
            known = ", ".join(map(repr, self._servers)) or "none"
            raise KeyError(f"There is no MCP server {name!r} here; there is {known}.")
        server.empty()
        await server.close()
        self._announce(server, "resources", None)
        self._announce(server, "prompts", None)

    def put_in_place(self, name: str, order: Sequence[str]) -> None:
        """Put a server that was just added where it is in this order, and its tools with it.

        The tools of those behind it are added once more, so that their names follow from the
        order too, not from which server was there first.
        """
        known = [self._servers[each] for each in order if each in self._servers]
        self._put_in_order(known)
        added = known[known.index(self._servers[name]) :]
        if any(server.tools for server in added[1:]):
            for put_back in [server.take_out_tools() for server in added]:
                put_back()

    def note_failure(self, name: str, error: WieldyError, order: Sequence[str] = ()) -> None:
        """Keep the reason why a server could not be added, until it is, in its place."""
        with self._lock:
            known = self._servers.get(name)
            if known is None or not known.was_added:
                self._servers[name] = Server.failed(name, self._thread, error)
        self._put_in_order([self._servers[each] for each in order if each in self._servers])

    def watch(self, told: Announce) -> Callable[[], None]:
        """Have a function called with each change of what a server offers besides tools.

        It is called on the server's thread, until what this gives is called.
        """
        self._watchers.append(told)
        return lambda: self._watchers.remove(told)

    def _announce(self, server: Server, change: Change, uri: str | None) -> None:
        for told in tuple(self._watchers):
            told(server, change, uri)

    @property
    def _require_registry(self) -> Registry:
        registry = self._home()
        if registry is None:
            raise ServerUnavailable("the toolbox", "it was dropped")
        return registry

    @property
    def held(self) -> bool:
        """Whether there may be connections."""
        return self._open

    async def close(self) -> None:
        """Close all connections, and the threads they lived on."""
        self._open = False
        await asyncio.gather(*(server.close() for server in list(self._servers.values())))
        await wind_down(self._thread, _WIND_DOWN_SECONDS)
        await wind_down(self._answers, _ANSWERS_SECONDS)

    async def _add_all(self, entries: Mapping[str, Any], settings: ServerSettings) -> list[Tool]:
        """Connect to all servers at once, and add them in the order in which they are listed."""
        made: list[Server] = []
        try:
            servers = await asyncio.gather(
                *(self._try_server(name, read, settings, made) for name, read in entries.items())
            )
        except BaseException:
            for server in made:
                self._drop_server(server)
                await asyncio.shield(server.close())
            raise
        known = [server for server in servers if server is not None]
        self._put_in_order(known)
        failed = [server for server in known if server.error is not None]
        for server in failed:
            _log.warning("An MCP server was not added: %s", server.error)
        if failed and len(failed) == len(known):
            for server in failed:
                self._drop_server(server)
            reasons = "\n".join(str(server.error) for server in failed)
            raise ServerUnavailable(", ".join(s.name for s in failed), f"none of them:\n{reasons}")
        return [
            tool
            for server in known
            if server.error is None
            for tool in server.offer(self._require_registry, settings.terms)
        ]

    def _put_in_order(self, servers: Iterable[Server]) -> None:
        """Put the servers into the order in which they are listed."""
        with self._lock:
            for server in servers:
                if self._servers.get(server.name) is server:
                    self._servers[server.name] = self._servers.pop(server.name)

    def _drop_server(self, server: Server) -> None:
        with self._lock:
            if self._servers.get(server.name) is server:
                del self._servers[server.name]

    async def _try_server(
        self, name: str, read: Any, settings: ServerSettings, made: list[Server]
    ) -> Server | None:
        """Connect to one server of several; an error is kept under its name."""
        try:
            source = read()
            if source is None:
                return None
            server = await self._connect_server(source, name, settings)
        except Exception as error:
            # Errors of the SDK are caught too, because one server must not stop the others.
            if not isinstance(error, WieldyError):
                error = ServerUnavailable(name, describe_exception(error))
            server = Server.failed(name, self._thread, error)
            with self._lock:
                # If the name is taken, the existing server keeps it.
                self._servers.setdefault(name, server)
        made.append(server)
        return server

    async def _add_one(
        self, source: GivenSource, name: str | None, settings: ServerSettings
    ) -> list[Tool]:
        server = await self._connect_server(source, name, settings)
        terms = settings.terms
        if isinstance(source, Address) and callable(source.headers):
            terms = replace(terms, headers=source.headers)
        elif isinstance(source, PerCaller):
            # The answer to one caller is not for another.
            terms = replace(terms, limits=replace(terms.limits, cache=None))
        return server.offer(self._require_registry, terms)

    async def _connect_server(
        self, source: GivenSource, name: str | None, settings: ServerSettings
    ) -> Server:
        """A connected server, under the given name or the one that it reports."""
        if name is not None:
            self._check_free(name)
        self._open = True
        own = isinstance(source, Inside)
        # A server object runs the user's code, so it gets a loop of its own.
        thread = LoopThread("wieldy-mcp-inside") if own else self._thread
        server = Server(name or source.guess, thread, own, self._announce)
        patience = settings.patience

        def make_answers() -> RequestAnswers:
            asked = settings.on_elicit, settings.on_sample
            return RequestAnswers(self._answers, patience.answer, *asked)

        try:
            await run_on_loop(thread, lambda: server.connect(source, patience, make_answers))
            self._keep_server(server, name)
        except BaseException:
            await asyncio.shield(server.close())
            raise
        return server

    def _check_free(self, name: str) -> None:
        known = self._servers.get(name)
        # One that could not be added makes way for another try.
        if known is not None and known.was_added:
            raise InvalidSource(
                name, "there is a server of this name; remove it first, or pass name="
            )

    def _keep_server(self, server: Server, given: str | None) -> None:
        with self._lock:
            if given is not None:
                self._check_free(given)
            else:
                reported = str(server.info.get("name") or server.name)
                free, number = reported, 2
                while free in self._servers:
                    free, number = f"{reported}_{number}", number + 1
                server.rename(free)
            self._servers[server.name] = server

    def _renew_threads(self) -> None:
        self._thread = LoopThread("wieldy-mcp")
        self._answers = LoopThread("wieldy-mcp-answers")

    def after_fork(self) -> None:
        """Start over in a forked child, because threads and sessions belong to the parent."""
        self._lock = threading.Lock()
        self._renew_threads()
        for server in self._servers.values():
            server.forget(self._thread)

    def __getitem__(self, name: str) -> Server:
        return self._servers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._servers))

    def __len__(self) -> int:
        return len(self._servers)

    def __bool__(self) -> bool:
        # `servers or default` must use these servers even while there are none.
        return True

    # Mappings compare by content, but this one is compared by identity.
    __hash__ = object.__hash__


_pools = renewed_in_child(Servers.after_fork)


def make_terms(
    tags: Iterable[str] | str | Tags,
    allow: Iterable[str] | str | None,
    deny: Iterable[str] | str | None,
    limits: Limits | None,
    trusted: bool,
    permission: Permission | str | None,
    on_conflict: str | None,
    check_output: bool,
    prefix: str,
) -> Terms:
    """The terms from the options of `add_mcp`."""
    if prefix and not PREFIX.fullmatch(prefix):
        raise ValueError(
            f"prefix is up to 40 letters, digits, _ and -, such as 'github_', not {prefix!r}"
        )
    if on_conflict not in (None, "override", "skip", "rename"):
        raise ValueError(f"on_conflict is 'override', 'skip' or 'rename', not {on_conflict!r}")
    return Terms(
        tags=tags if callable(tags) else listed_names(tags),
        allow=None if allow is None else listed_names(allow),
        deny=listed_names(deny),
        limits=DEFAULT_LIMITS if limits is None else limits,
        trusted=trusted,
        permission=None if permission is None else Permission(permission),
        on_conflict=on_conflict,
        check_output=check_output,
        prefix=prefix,
    )
