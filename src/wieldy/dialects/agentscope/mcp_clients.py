"""Clients of MCP servers."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from wieldy.core.limits.limits import Limits
from wieldy.core.tool import Permission
from wieldy.toolbox import Toolbox, own_box

from .mcp_function import MCPToolFunction, OwnFunction

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool

Transport = Literal["streamable_http", "sse"]
_KINDS = {"streamable_http": "http", "sse": "sse"}
# AgentScope has no approvals.
_PERMISSION = Permission.AUTO


class MCPClientBase(ABC):
    """What all clients can do. Clients of your own may be derived from it."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    async def list_tools(self) -> "list[ListedTool]":
        """The tools that the server lists now, as objects of the SDK."""

    @abstractmethod
    async def get_callable_function(
        self, name: str, wrap_tool_result: bool = True, execution_timeout: float | None = None
    ) -> Callable[..., Any]:
        """A tool of the server as a function; `ValueError` if it has none of this name."""


class OwnMCPClient(Protocol):
    """A client of the user's own, derived from `MCPClientBase` or not."""

    name: str

    async def list_tools(self) -> "list[ListedTool]":
        """The tools that the server lists now, as objects of the SDK."""

    @property
    def get_callable_function(self) -> Callable[..., Awaitable[Callable[..., Any]]]:
        """Takes the name of a tool and gives it as a function."""


class SessionClient(MCPClientBase):
    """A client whose functions are called in a session of a toolbox."""

    @abstractmethod
    def session(self) -> Any:
        """A toolbox connected to the server, for the time of an `async with`."""

    async def list_tools(self) -> "list[ListedTool]":
        """The tools that the server lists now, as objects of the SDK."""
        async with self.session() as box:
            listed: list[ListedTool] = await box.mcp[self.name].list_tools()
            return listed

    async def get_callable_function(
        self, name: str, wrap_tool_result: bool = True, execution_timeout: float | None = None
    ) -> MCPToolFunction:
        """A tool of the server as a function; `ValueError` if it has none of this name."""
        (function,) = await self.functions([name], (), wrap_tool_result, execution_timeout)
        return function

    async def functions(
        self,
        enable: Iterable[str] | None = None,
        disable: Iterable[str] = (),
        wrap_tool_result: bool = True,
        execution_timeout: float | None = None,
        named: Iterable[str] = (),
    ) -> list[MCPToolFunction]:
        """The tools of the server as functions: all of them, or the chosen ones.

        Every name must belong to a tool of the server. The names in `named` are only checked.
        """
        async with self.session() as box:
            listed = {tool.name: tool for tool in box}
        for name in (*(enable or ()), *disable, *named):
            if name not in listed:
                known = ", ".join(listed) or "none"
                raise ValueError(f"{self.name} has no function {name!r}, only: {known}")
        wanted = listed if enable is None else dict.fromkeys(enable)
        return [
            MCPToolFunction(self, listed[name], wrap_tool_result, execution_timeout)
            for name in wanted
            if name not in disable
        ]

    async def _open_box(self) -> Toolbox:
        # The toolkit and the server both check the arguments, so this box need not.
        box = own_box(validation="describe")
        try:
            await self._add_to(box)
        except BaseException:
            await box.close()
            raise
        return box

    @abstractmethod
    async def _add_to(self, box: Toolbox) -> None:
        """Connect the toolbox to the server."""


def is_client(given: object) -> bool:
    """Whether this is a client, of this module or of the user's own."""
    methods = (getattr(given, name, None) for name in ("list_tools", "get_callable_function"))
    return isinstance(getattr(given, "name", None), str) and all(map(callable, methods))


async def client_functions(
    client: OwnMCPClient,
    enable: Sequence[str] | None,
    disable: Sequence[str],
    wrap_tool_result: bool,
    execution_timeout: float | None,
    named: Iterable[str],
) -> "list[MCPToolFunction | OwnFunction]":
    """The functions of any client, all of them or those chosen; `ValueError` for a wrong name."""
    if isinstance(client, SessionClient):
        how = (wrap_tool_result, execution_timeout)
        return [*await client.functions(enable, disable, *how, named)]
    listed = {tool.name: tool for tool in await client.list_tools()}
    for name in (*(enable or ()), *disable, *named):
        if name not in listed:
            known = ", ".join(listed) or "none"
            raise ValueError(f"{client.name} has no function {name!r}, only: {known}")
    options: dict[str, Any] = {"wrap_tool_result": wrap_tool_result}
    if execution_timeout is not None:
        options["execution_timeout"] = execution_timeout
    return [
        OwnFunction(client.name, listed[name], await client.get_callable_function(name, **options))
        for name in (listed if enable is None else dict.fromkeys(enable))
        if name not in disable
    ]


class StatefulClientBase(SessionClient):
    """A client with one session from `connect` to `close`. Any task may call either of them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._box: Toolbox | None = None
        self._connecting = False

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected."""
        return self._box is not None

    async def connect(self) -> None:
        """Start or reach the server."""
        if self._box is not None or self._connecting:
            raise RuntimeError(f"the MCP client {self.name!r} is connected already: close() first")
        self._connecting = True
        try:
            self._box = await self._open_box()
        finally:
            self._connecting = False

    async def close(self, ignore_errors: bool = True) -> None:
        """End the session and the server's process. Closing twice is no error.

        Errors of the server are never raised here, so `ignore_errors` has no effect.
        """
        box, self._box = self._box, None
        if box is not None:
            await box.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Toolbox]:
        """The connected toolbox; `RuntimeError` if the client is not connected."""
        if self._box is None:
            raise RuntimeError(f"the MCP client {self.name!r} is not connected: connect() first")
        yield self._box


class StdIOStatefulClient(StatefulClientBase):
    """A client of a program that speaks on stdin and stdout."""

    def __init__(
        self,
        name: str,
        command: str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        super().__init__(name)
        self._command = [command, *(args or ())]
        self._env = env
        self._cwd = cwd

    async def _add_to(self, box: Toolbox) -> None:
        await box.add_mcp(
            self._command, self.name, permission=_PERMISSION, env=self._env, cwd=self._cwd
        )


class _HttpClient(SessionClient):
    """A server behind a URL. `timeout` is for connecting, `sse_read_timeout` for a call."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        url: str,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
        sse_read_timeout: float = 300,
    ) -> None:
        super().__init__(name)
        if transport not in _KINDS:
            raise ValueError(f"transport must be one of {', '.join(_KINDS)}, not {transport!r}")
        self._facts = (url, _KINDS[transport], dict(headers or {}))
        self._timeout = timeout
        self._limits = Limits(timeout=sse_read_timeout)

    async def _add_to(self, box: Toolbox) -> None:
        # The SDK is slow to import, and most programs don't use it.
        from wieldy.mcp import Patience  # noqa: PLC0415
        from wieldy.mcp.client.server_source import Address  # noqa: PLC0415

        patience = Patience(connect=self._timeout)
        await box.add_mcp(
            Address(*self._facts),
            self.name,
            limits=self._limits,
            permission=_PERMISSION,
            patience=patience,
        )


class HttpStatefulClient(_HttpClient, StatefulClientBase):
    """A client of a server behind a URL, with one session."""


class HttpStatelessClient(_HttpClient):
    """A client of a server behind a URL, with a new session for everything it does."""

    async def connect(self) -> None:
        """Check that the server answers. No connection stays open."""
        async with self.session():
            pass

    async def close(self, ignore_errors: bool = True) -> None:
        """Do nothing: nothing is open between calls."""

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Toolbox]:
        """A toolbox that is connected while the `async with` block runs."""
        box = await self._open_box()
        try:
            yield box
        finally:
            await box.close()
