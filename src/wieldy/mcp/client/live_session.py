"""One live session with a server, from its handshake to its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from wieldy.core.task import time_limit

T = TypeVar("T")
# The server with which the present code exchanges messages.
current_server: ContextVar[str | None] = ContextVar("wieldy_current_server", default=None)
# The loggers of the SDK's parts that read messages.
_LOGGERS = (
    "client",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
# What a message of a server can raise, or one that comes when nobody waits for it any more.
_MISTAKES = (ValidationError, UnicodeDecodeError, anyio.BrokenResourceError)
_MAX_LENGTH = 300
# For these reasons, the server's process can give more details.
STDIN_CLOSED, STDOUT_CLOSED = "it closed its stdin", "it closed its stdout"
PROCESS_ENDED = "its process ended"
ENDED = (STDIN_CLOSED, STDOUT_CLOSED, PROCESS_ENDED)
# For this reason, the owner of the session can give more details.
STREAM_ENDED = "the connection ended"
# How long to wait for the end of a session before reporting why it ended.
_LAST_WORDS = 3.0


class LiveSession:
    """A session that can be lost. `lost` is the reason, and None while the session works."""

    def __init__(self, seconds: float) -> None:
        self.lost: str | None = None
        self.gone = asyncio.Event()
        self.client: Client
        self.ready = False
        # Whether this side ends the session on purpose.
        self.polite = False
        # Whether requests are independent of each other, as since version 2026-07-28.
        self.modern = False
        self._seconds = seconds
        self._over = asyncio.Event()
        self._asking = 0
        self._check: asyncio.Task[None] | None = None

    def begin(self, client: Client) -> None:
        """Accept requests, now that the handshake is complete."""
        self.client, self.ready = client, True
        self.modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS

    def lose(self, reason: str) -> None:
        """Mark the session as lost; its owner ends it."""
        if self.lost is None:
            self.lost = reason
            self._over.set()

    def retire(self, reason: str) -> None:
        """Accept no more requests; running ones may still get their answers."""
        if self.lost is None:
            self.lost = reason
            if not self._asking:
                self._over.set()

    async def ask(self, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request, and count it as running."""
        self._asking += 1
        try:
            return await send(self.client)
        finally:
            self._asking -= 1
            if self.lost is not None and not self._asking:
                self._over.set()

    async def over(self) -> None:
        """Wait until the session is lost or should be closed."""
        await self._over.wait()

    def close(self) -> None:
        """Ask the owner to end the session cleanly."""
        self.polite = self.ready and self.lost is None
        self._over.set()

    async def why(self) -> str:
        """The reason for the loss, once the session has ended and the details are known."""
        try:
            async with time_limit(_LAST_WORDS):
                await self.gone.wait()
        except TimeoutError:
            pass
        return self.lost or "the connection was closed"

    def doubt(self) -> None:
        """Send a ping, because a caller gave up waiting for an answer."""
        if self.lost is None and (self._check is None or self._check.done()):
            loop = asyncio.get_running_loop()
            self._check = loop.create_task(self._ask_for_life(), context=Context())

    async def sure(self) -> bool:
        """Whether the session works, after a running ping has been answered."""
        if self._check is not None and not self._check.done():
            await asyncio.wait((self._check,))
        return self.lost is None

    def stop(self) -> None:
        """Stop sending pings."""
        if self._check is not None:
            self._check.cancel()

    async def _ask_for_life(self) -> None:
        session = self.client.session
        try:
            async with time_limit(self._seconds):
                if self.modern:
                    await session.send_discover(LATEST_MODERN_VERSION)
                else:
                    await session.send_ping()
        except TimeoutError:
            self.lose(f"it did not answer for {self._seconds:g} s")
        except MCPError as error:
            if error.code == types.REQUEST_TIMEOUT:
                self.lose("it did not answer")
        except Exception as error:
            self.lose(f"it gave no sign of life ({error!r})")


class WatchedStream:
    """A stream of messages from the server that reports its end before its reader sees it.

    A result without a type counts as complete; the stream adds the type that the SDK requires.
    """

    def __init__(self, inner: Any, link: LiveSession) -> None:
        self._inner = inner
        self._link = link

    @property
    def last_context(self) -> Any:
        """The context in which the last message was received, if the stream knows it."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._link.lose(STREAM_ENDED)
            raise
        message = getattr(item, "message", None)
        if self._link.modern and isinstance(message, types.JSONRPCResponse):
            message.result.setdefault("resultType", "complete")
        return item

    async def receive(self) -> Any:
        """The next message."""
        return await self._inner.receive()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        ended: bool | None = await self._inner.__aexit__(kind, error, trace)
        return ended


class _OneLine(logging.Filter):
    """Takes the traceback away from what is said of a server that we are connected to."""

    def filter(self, record: logging.LogRecord) -> bool:
        server = current_server.get()
        error = record.exc_info[1] if record.exc_info else None
        if server is not None and isinstance(error, _MISTAKES):
            said = f"{record.getMessage()} ({_describe(error)})"
            record.msg, record.args = "%s: %s", (server, " ".join(said.split())[:_MAX_LENGTH])
            record.exc_info = record.exc_text = None
        return True


def _describe(error: BaseException) -> str:
    """What is wrong, without what was sent."""
    if not isinstance(error, ValidationError):
        return type(error).__name__
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:3])


def log_in_one_line() -> None:
    """From now on say such things in one line; a second call changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)


_FILTER = _OneLine()
