"""Exchange messages with a process over its pipes, one JSON document per line."""

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from .live_session import STDIN_CLOSED, STDOUT_CLOSED
from .message_bound import BoundedMessage, MessageTooLong
from .patience import MAX_MESSAGE
from .request_extras import current_errand

_CHUNK = 256 * 1024
# Reading pauses when this many messages or bytes wait, so a fast server has to wait too.
_MAX_WAITING = 256
_MAX_WAITING_BYTES = 16 * 1024 * 1024
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")')


class _Stream:
    """The common part of both directions: a file descriptor and its closing."""

    def __init__(self, fd: int, lost: Callable[[str], None]) -> None:
        self._fd = fd
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self.closed = False

    def close(self) -> None:
        """Stop watching the pipe."""
        raise NotImplementedError

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Incoming(_Stream):
    """Messages from the server. A line that is not a message is skipped and kept for diagnosis."""

    def __init__(
        self, fd: int, lost: Callable[[str], None], max_message: int = MAX_MESSAGE
    ) -> None:
        super().__init__(fd, lost)
        self.garbage: deque[str] = deque(maxlen=5)
        self._line = BoundedMessage(max_message)
        self._items: deque[tuple[SessionMessage, int]] = deque()
        self._held = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._paused = False
        self._loop.add_reader(fd, self._on_readable)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._items:
            if self._ended or self.closed:
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            await self._waiter
        message, size = self._items.popleft()
        self._held -= size
        if self._paused and not self._is_ahead(2) and not self._ended:
            self._paused = False
            self._loop.add_reader(self._fd, self._on_readable)
        return message

    async def receive(self) -> SessionMessage | Exception:
        """The next message; `EndOfStream` when there are no more."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def close(self) -> None:
        """Stop reading."""
        if not self.closed:
            self.closed = True
            self._end_reading()

    def _on_readable(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._end_reading()
            self._lost(STDOUT_CLOSED)
            return
        try:
            self._split_lines(chunk)
        except MessageTooLong as error:
            self._end_reading()
            self._lost(str(error))
            return
        if self._is_ahead():
            self._paused = True
            self._loop.remove_reader(self._fd)

    def _split_lines(self, chunk: bytes) -> None:
        first, *rest = chunk.split(b"\n")
        self._take_line(self._line.add(first))
        for piece in rest:
            self._take_line(self._line.end().strip())
            self._take_line(self._line.add(piece))
        self._wake_waiter()

    def _take_line(self, line: bytes | None) -> None:
        if not line:
            return
        message = read_message(line)
        if message is None:
            self.garbage.append(line[:200].decode("utf-8", "replace"))
        else:
            self._items.append((SessionMessage(message), len(line)))
            self._held += len(line)

    def _is_ahead(self, share: int = 1) -> bool:
        """Whether more messages wait than this share of the limit."""
        many = len(self._items) > _MAX_WAITING // share
        return many or self._held > _MAX_WAITING_BYTES // share

    def _end_reading(self) -> None:
        if not self._ended:
            self._ended = True
            self._loop.remove_reader(self._fd)
            self._wake_waiter()

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Outgoing(_Stream):
    """Messages to the server. Each is written completely, even if its sender is cancelled."""

    def __init__(self, fd: int, lost: Callable[[str], None]) -> None:
        super().__init__(fd, lost)
        self._rest = bytearray()
        self._queued = self._written = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message; returns when the pipe has taken all of it."""
        if self.closed:
            raise anyio.ClosedResourceError
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        line = text.encode("utf-8", "replace") + b"\n"
        self._queued += len(line)
        self._rest += line
        self._flush_rest()
        if self.closed:
            raise anyio.BrokenResourceError
        if self._written < self._queued:
            taken = self._loop.create_future()
            self._waiting.append((self._queued, taken))
            await taken
        errand = current_errand.get()
        if errand is not None:
            errand.sent = True

    def close(self) -> None:
        """Stop writing; waiting senders get an error."""
        if not self.closed:
            self.closed = True
            self._loop.remove_writer(self._fd)
            for _, taken in self._waiting:
                if not taken.done():
                    taken.set_exception(anyio.BrokenResourceError())

    def _flush_rest(self) -> None:
        try:
            while self._rest:
                written = os.write(self._fd, memoryview(self._rest)[:_CHUNK])
                del self._rest[:written]
                self._written += written
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._flush_rest)
            self._tell_waiting()
            return
        except OSError:
            self.close()
            self._lost(STDIN_CLOSED)
            return
        self._loop.remove_writer(self._fd)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._written:
            _, taken = self._waiting.popleft()
            if not taken.done():
                taken.set_result(None)


def read_message(line: bytes) -> Any:
    """The message in a line, or None.

    Bytes that are not UTF-8 are replaced, so that the message is not lost. A broken answer
    whose id can still be read becomes an error for the request that waits for it.
    """
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        text = line.decode("utf-8", "replace")
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        pass
    found = _ID.search(line) if line.startswith(b"{") and b'"jsonrpc"' in line else None
    if found is None or b'"method"' in line:
        return None
    answered = found[1].decode().strip('"') if found[1][:1] == b'"' else int(found[1])
    error = types.ErrorData(code=types.PARSE_ERROR, message="the server's answer can't be read")
    return types.JSONRPCError(jsonrpc="2.0", id=answered, error=error)
