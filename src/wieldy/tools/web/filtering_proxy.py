"""The only way out for the browser: a proxy on loopback that connects to checked addresses.

Every request of a page comes here, whatever made it. The proxy looks the host up once, refuses
near addresses as the HTTP client does, and connects to the address that was checked. It serves
only those who show a pass, and each pass belongs to one page and has a limit of bytes.
"""

import asyncio
import base64
import hmac
import secrets
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpcore2

from wieldy.core.errors import ServiceError
from wieldy.core.network.addresses import Reach
from wieldy.core.network.guarded_transport import GuardedBackend
from wieldy.core.task import time_limit

_MAX_CONNECTIONS = 256
_MAX_HEAD = 256 * 1024
_CHUNK = 64 * 1024
_HEAD_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_CHALLENGE = b'Proxy-Authenticate: Basic realm="wieldy"\r\n'
# Headers that concern one connection only, and are not passed on.
_OWN = (b"connection", b"keep-alive", b"te", b"upgrade")


class ProxyPass:
    """The right of one page to use the proxy, and what came of it.

    Attributes:
        left: How many bytes may still come and go.
        refused: The hosts that it was not led to, each with the reason.
    """

    def __init__(self, most_bytes: int) -> None:
        self.name = secrets.token_hex(16)
        self.secret = secrets.token_hex(16)
        self.left = most_bytes
        self.refused: dict[str, ServiceError] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def spend(self, count: int) -> None:
        """Count bytes; `_Refusal` where there are too many."""
        self.left -= count
        if self.left < 0:
            raise _Refusal(503, "Too Large")


class FilteringProxy:
    """A proxy for one browser, served on the loop that starts it."""

    def __init__(self, reach: Reach) -> None:
        self._backend = GuardedBackend(reach, httpcore2.AnyIOBackend())
        self._passes: dict[str, ProxyPass] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, listener: socket.socket | None = None) -> int:
        """Serve on a socket, or on a new one; gives its port."""
        if listener is None:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_MAX_HEAD)
        else:
            server = await asyncio.start_server(self._accept, sock=listener, limit=_MAX_HEAD)
        # A browser with a network of its own comes by its own socket, and nobody by the others.
        for each in self._servers:
            each.close()
        self._servers = [server]
        return int(server.sockets[0].getsockname()[1])

    def issue(self, most_bytes: int) -> ProxyPass:
        """A pass for one page."""
        given = ProxyPass(most_bytes)
        self._passes[given.name] = given
        return given

    def revoke(self, given: ProxyPass) -> None:
        """End a pass, and all connections that were made with it."""
        self._passes.pop(given.name, None)
        for task in given.tasks:
            task.cancel()

    async def close(self) -> None:
        """End every connection."""
        for server in self._servers:
            server.close()
        self._servers = []
        self._passes.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _MAX_CONNECTIONS:
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except _Refusal as refusal:
            writer.write(refusal.to_bytes())
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
            # The browser left, or said something that is no request.
            pass
        except (httpcore2.NetworkError, httpcore2.TimeoutException):
            # The site left.
            pass
        except asyncio.CancelledError:
            # The pass ended, and nothing more is sent.
            writer.transport.abort()
            raise
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with time_limit(_HEAD_SECONDS):
            head = _RequestHead(await reader.readuntil(b"\r\n\r\n"))
        given = self._check_pass(head)
        task = asyncio.current_task()
        assert task is not None
        given.tasks.add(task)
        try:
            stream = await self._connect(head, given)
            try:
                if head.method == b"CONNECT":
                    await _tunnel(reader, writer, stream, given)
                else:
                    await _forward(head, reader, writer, stream, given)
            finally:
                await stream.aclose()
        finally:
            given.tasks.discard(task)

    def _check_pass(self, head: "_RequestHead") -> ProxyPass:
        """The pass that a request shows, compared in a time that tells nothing."""
        kind, _, shown = head.fields.get(b"proxy-authorization", b"").partition(b" ")
        try:
            name, _, secret = base64.b64decode(shown, validate=True).decode("ascii").partition(":")
        except ValueError:
            name = secret = ""
        given = self._passes.get(name)
        if (
            given is None
            or kind.lower() != b"basic"
            or not hmac.compare_digest(secret.encode(), given.secret.encode())
        ):
            raise _Refusal(407, "Proxy Authentication Required", _CHALLENGE)
        return given

    async def _connect(
        self, head: "_RequestHead", given: ProxyPass
    ) -> httpcore2.AsyncNetworkStream:
        host, port = head.find_target()
        given.spend(0)
        try:
            return await self._backend.connect_tcp(host, port, _CONNECT_SECONDS)
        except ServiceError as error:
            given.refused[host] = error
            raise _Refusal(403, "Forbidden") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException):
            raise _Refusal(502, "Bad Gateway") from None


class _Refusal(Exception):
    """An answer of the proxy itself."""

    def __init__(self, status: int, reason: str, fields: bytes = b"") -> None:
        super().__init__(reason)
        self._line = f"HTTP/1.1 {status} {reason}\r\n".encode()
        self._fields = fields

    def to_bytes(self) -> bytes:
        return self._line + self._fields + b"Content-Length: 0\r\nConnection: close\r\n\r\n"


class _RequestHead:
    """The first lines of a request."""

    def __init__(self, raw: bytes) -> None:
        first, *lines = raw[:-4].split(b"\r\n")
        self.method, self.target, _ = first.split(b" ", 2)
        self.lines = lines
        self.fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in lines)
        }

    def find_target(self) -> tuple[str, int]:
        """The host and port to connect to."""
        spelled = self.target.decode("ascii")
        parts = urlsplit(f"//{spelled}" if self.method == b"CONNECT" else spelled)
        if self.method != b"CONNECT" and parts.scheme != "http":
            raise _Refusal(400, "Bad Request")
        port = parts.port or (None if self.method == b"CONNECT" else 80)
        if not parts.hostname or port is None:
            raise _Refusal(400, "Bad Request")
        return parts.hostname, port

    def to_site(self) -> bytes:
        """The request as the site itself gets it: its own path, and nothing for the proxy."""
        _, _, rest = self.target.partition(b"://")
        start = min((at for at in map(rest.find, (b"/", b"?")) if at >= 0), default=len(rest))
        path = rest[start:]
        path = path if path.startswith(b"/") else b"/" + path
        return _join_head(self.method + b" " + path + b" HTTP/1.1", self.lines)


def _join_head(first: bytes, lines: list[bytes]) -> bytes:
    """A head without what is meant for the next station only, on a connection used once."""
    names = ((line.partition(b":")[0].strip().lower(), line) for line in lines)
    kept = [line for name, line in names if name not in _OWN and not name.startswith(b"proxy-")]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


async def _tunnel(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stream: httpcore2.AsyncNetworkStream,
    given: ProxyPass,
) -> None:
    """Pass bytes both ways until one side ends or the pass is used up."""
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    with suppress(_Refusal):
        # The head of an answer was sent, so an end is all that can still be said.
        await _first_to_end(_upload(reader, stream, given), _download(stream, writer, given))


async def _forward(
    head: _RequestHead,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stream: httpcore2.AsyncNetworkStream,
    given: ProxyPass,
) -> None:
    """Pass on one request, and its answer, and no second request.

    A second one might be meant for another host.
    """
    said = head.fields.get(b"content-length", b"0")
    if b"transfer-encoding" in head.fields or not said.isdigit():
        raise _Refusal(411, "Length Required")
    length = int(said)
    await stream.write(head.to_site())
    await _first_to_end(_upload(reader, stream, given, length), _answer_once(stream, writer, given))


async def _answer_once(
    stream: httpcore2.AsyncNetworkStream, writer: asyncio.StreamWriter, given: ProxyPass
) -> None:
    begun = b""
    while b"\r\n\r\n" not in begun:
        chunk = await stream.read(_CHUNK)
        given.spend(len(chunk))
        begun += chunk
        if not chunk or len(begun) > _MAX_HEAD:
            raise _Refusal(502, "Bad Gateway")
    raw, _, rest = begun.partition(b"\r\n\r\n")
    first, *lines = raw.split(b"\r\n")
    if b" 407" in first[:13]:
        # A site must not ask for the pass as if it were the proxy.
        raise _Refusal(502, "Bad Gateway")
    writer.write(_join_head(first, lines) + rest)
    with suppress(_Refusal):
        await _download(stream, writer, given)


async def _upload(
    reader: asyncio.StreamReader,
    stream: httpcore2.AsyncNetworkStream,
    given: ProxyPass,
    length: int | None = None,
) -> None:
    """Pass on what the browser sends: as many bytes as it said, then wait for it to leave."""
    while chunk := await reader.read(_CHUNK if length is None else min(_CHUNK, length or 1)):
        if length is not None:
            length -= len(chunk)
            if length < 0:
                return
        given.spend(len(chunk))
        await stream.write(chunk)


async def _download(
    stream: httpcore2.AsyncNetworkStream, writer: asyncio.StreamWriter, given: ProxyPass
) -> None:
    while chunk := await stream.read(_CHUNK):
        given.spend(len(chunk))
        writer.write(chunk)
        await writer.drain()


async def _first_to_end(*ways: Coroutine[Any, Any, None]) -> None:
    """Run two ways of a connection until one of them ends, and raise what ended it."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
