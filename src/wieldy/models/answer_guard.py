"""Watch the size, the type and the beginning of an answer while it arrives over HTTP.

This module loads the HTTP library, and is itself loaded with the first request.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import httpx2

from wieldy.core.network.server_trust import trusted_context

from .model_errors import ModelAnswerTooLarge, ModelRefused

# Each piece of an answer is sent in an envelope that is many times its size. Only one line is
# held in memory at a time, but the last line of some APIs repeats the whole answer.
_WIRE_FACTOR = 32
_LINE_FACTOR = 8
_LEAST_WIRE = 1_000_000
_HEAD = 2_000
# An error message fits in a page; the rest of a longer one is not read.
_MAX_ERROR = 65_536
_DONE = b"[DONE]"
_STREAM_TYPES = ("text/event-stream", "")


class AnswerGuard:
    """Watches one answer, and stops it when it exceeds its limit."""

    def __init__(self, model: str, limit: int) -> None:
        self.model = model
        self.limit = limit
        self.response: httpx2.Response | None = None
        self.head = b""
        # Whether the end mark of OpenAI's streams has arrived, which the SDK does not report.
        self.said_done = False
        self._size = 0
        self._line = 0
        self._tail = b""

    @property
    def is_page(self) -> bool:
        """Whether the server answered successfully, but not with a stream."""
        fine = self.response is not None and self.response.is_success
        return fine and self.content_type not in _STREAM_TYPES

    @property
    def is_long_error(self) -> bool:
        """Whether the server's error message is too long to read."""
        return self._size > _MAX_ERROR and not (self.response and self.response.is_success)

    @property
    def content_type(self) -> str:
        """The kind of answer, as the server names it."""
        if self.response is None:
            return ""
        named: str = self.response.headers.get("content-type", "")
        return named.partition(";")[0].strip().lower()

    def take(self, chunk: bytes) -> None:
        """Count a piece as it arrives from the network."""
        self._size += len(chunk)
        last = chunk.rfind(b"\n")
        self._line = self._line + len(chunk) if last < 0 else len(chunk) - last
        wire = max(self.limit * _WIRE_FACTOR, _LEAST_WIRE)
        line = max(self.limit * _LINE_FACTOR, _LEAST_WIRE)
        if self._size > wire or self._line > line:
            raise ModelAnswerTooLarge(self.model, self.limit)
        if len(self.head) < _HEAD:
            self.head += chunk[: _HEAD - len(self.head)]
        recent = self._tail + chunk
        self.said_done = self.said_done or _DONE in recent
        self._tail = recent[-len(_DONE) :]

    async def close(self) -> None:
        """Return the connection to the pool, or close it if the answer was not read to its end."""
        if self.response is not None:
            # Errors while closing this connection don't concern the next request.
            with suppress(httpx2.HTTPError, OSError, RuntimeError):
                await self.response.aclose()


# The guard of the request that the running task makes.
current_guard: ContextVar[AnswerGuard] = ContextVar("wieldy_answer_guard")


class _Watched(httpx2.AsyncByteStream):
    """A response body that a guard watches."""

    def __init__(self, body: httpx2.AsyncByteStream, guard: AnswerGuard) -> None:
        self._body = body
        self._pieces = aiter(body)
        self._guard = guard

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._guard.is_long_error:
            await self.aclose()
        chunk = await anext(self._pieces)
        try:
            self._guard.take(chunk)
        except ModelAnswerTooLarge:
            await self.aclose()
            raise
        return chunk

    async def aclose(self) -> None:
        await self._body.aclose()
        await read_out(self._pieces)


async def read_out(pieces: AsyncIterator[Any]) -> None:
    """Read what is left of an answer whose connection is closed.

    An async generator that is not read to its end is closed by the garbage collector, in a task
    that may come after the end of the loop. Closing the outermost of several that read from one
    another leaves the others, but reading ends them all: there is no more, or an error.
    """
    with suppress(Exception):
        async for _ in pieces:
            pass


async def _watch_response(response: httpx2.Response) -> None:
    guard = current_guard.get()
    guard.response = response
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        # A few compressed bytes can expand to more than fits into memory.
        await response.aclose()
        raise ModelRefused(guard.model, f"the answer is encoded as {encoding}, which nobody asked")
    body = response.stream
    assert isinstance(body, httpx2.AsyncByteStream)
    response.stream = _Watched(body, guard)


def make_http(connect_timeout: float, connections: int) -> httpx2.AsyncClient:
    """The HTTP client for an SDK, which watches answers and does not follow redirects.

    A redirect would send the key to another address. Reading has no timeout at this level,
    because silence is measured between the deltas of an answer.
    """
    return httpx2.AsyncClient(
        verify=trusted_context(),
        timeout=httpx2.Timeout(None, connect=connect_timeout),
        limits=httpx2.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=30
        ),
        headers={"Accept-Encoding": "identity"},
        follow_redirects=False,
        event_hooks={"response": [_watch_response]},
    )
