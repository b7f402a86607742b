"""The forms in which an MCP server can be given: a command, a URL, or a server object."""

import inspect
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp.client.stdio import StdioServerParameters
from mcp.server import Server as LowLevelServer
from mcp.server.mcpserver import MCPServer

from wieldy.core.context import Context
from wieldy.core.errors import InvalidSource

Headers = (
    Mapping[str, Any] | Callable[[Context | None], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
)
TRANSPORTS = {
    "http": "http", "streamable-http": "http", "streamablehttp": "http", "streamable_http": "http",
    "sse": "sse",
}  # fmt: skip
_RUNNERS = {".py": [sys.executable], ".js": ["node"], ".mjs": ["node"], ".cjs": ["node"]}
CONFIGURATIONS = (".json", ".jsonc")


@dataclass(frozen=True, slots=True)
class Command:
    """A program that uses stdin and stdout."""

    command: Sequence[str]
    env: Mapping[str, Any] = field(default_factory=dict)
    cwd: str | None = None
    # What variables have filled in, with what is shown in its place.
    filled: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def guess(self) -> str:
        """A name, should nobody have a better one."""
        words = [word for word in self.command[1:] if not word.startswith("-")]
        return Path((words or self.command)[0]).stem or "server"


@dataclass(frozen=True, slots=True)
class Address:
    """A server behind a URL; without a `transport`, the newer one is tried first."""

    url: str
    transport: str | None = None
    headers: Headers = field(default_factory=dict)
    auth: Any = None
    filled: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def guess(self) -> str:
        """A name, should nobody have a better one."""
        return urlsplit(self.url).hostname or "server"


@dataclass(frozen=True, slots=True)
class Inside:
    """A server object in this process."""

    server: Any

    @property
    def guess(self) -> str:
        """A name, should nobody have a better one."""
        return getattr(self.server, "name", None) or "server"


Source = Command | Address | Inside


@dataclass(frozen=True, slots=True)
class PerCaller:
    """A server that each caller reaches over a connection, or in a process, of their own.

    Attributes:
        listing: How the toolbox itself reaches the server, to read its tools.
        find: Gives how the caller of a call reaches it, or raises `ServerUnavailable` with the
            reason why they don't.
        most: How many connections of callers may be open. If there are more callers, the one
            that has been idle longest makes room.
        idle: After how many seconds without use a connection is closed.
    """

    listing: Command | Address
    find: Callable[[Context], Command | Address]
    most: int = 50
    idle: float = 600.0

    @property
    def guess(self) -> str:
        """A name, should nobody have a better one."""
        return self.listing.guess


GivenSource = Source | PerCaller


def read_source(source: Any) -> GivenSource | Path | Mapping[str, Any]:
    """The source for a value that the user gave; for a configuration, its path or its dict."""
    if isinstance(source, Mapping | Command | Address | Inside | PerCaller):
        return source
    if isinstance(source, MCPServer | LowLevelServer):
        return Inside(source)
    if isinstance(source, StdioServerParameters):
        cwd = None if source.cwd is None else str(source.cwd)
        return Command([source.command, *source.args], source.env or {}, cwd)
    if isinstance(source, str | os.PathLike):
        return _read_text(os.fspath(source))
    if isinstance(source, Sequence) and source and all(isinstance(w, str) for w in source):
        return Command(list(source))
    raise InvalidSource(
        repr(source)[:80],
        "an MCP server is given as a list of words, a script, a URL, an mcpServers file or dict, "
        "or a server object",
    )


def _read_text(text: str | bytes) -> Source | Path:
    if not isinstance(text, str) or not text.strip():
        raise InvalidSource(repr(text), "there is nothing in it")
    if text.startswith(("http://", "https://")):
        return Address(text)
    # A command may be longer than the name of a file; before 3.14 `Path.is_file` raises for it.
    path = Path(text).expanduser()
    if path.suffix in CONFIGURATIONS or path.suffix in _RUNNERS:
        if os.path.isfile(path):
            given = str(path.resolve())
            return path if path.suffix in CONFIGURATIONS else script(given)
        if not any(mark in text for mark in " \t"):
            raise InvalidSource(text, "there is no such file")
    if os.path.isfile(path):
        return Command([str(path.resolve())])
    try:
        return Command(shlex.split(text))
    except ValueError as error:
        raise InvalidSource(text, f"it can't be read as a command: {error}") from None


def script(path: str) -> Command:
    """The command that runs a script."""
    return Command([*_RUNNERS[Path(path).suffix], path])


async def call_headers(headers: Headers | None, context: Context | None) -> Mapping[str, Any]:
    """The headers that a function gives for a call; none if they are the same for all calls."""
    if not callable(headers):
        return {}
    made = headers(context)
    return await made if inspect.isawaitable(made) else made
