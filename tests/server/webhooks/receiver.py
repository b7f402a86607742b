"""A receiver of webhooks: an HTTP server on this machine that answers as it is told."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from wieldy.server.webhooks.webhook import Webhook

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two bytes, fixed").decode()
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Message(NamedTuple):
    """What came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.headers["webhook-id"]

    @property
    def content(self) -> Any:
        """What the message says, after its signature was checked."""
        assert is_signed(self, SECRET)
        return json.loads(self.body)


Answer = Callable[[Message, asyncio.StreamWriter], Awaitable[None]]


def is_signed(message: Message, secret: str) -> bool:
    """Whether one of the signatures is right, worked out as the specification says."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    stamp = message.headers["webhook-timestamp"]
    signed = f"{message.id}.{stamp}.".encode() + message.body
    right = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{right}" in message.headers["webhook-signature"].split(" ")


def reply(status: str, *headers: str, body: bytes = b"") -> Answer:
    """Answer with this status."""

    async def answer(message: Message, writer: asyncio.StreamWriter) -> None:
        head = "\r\n".join((f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers))
        writer.write(f"{head}\r\n\r\n".encode() + body)

    return answer


class Receiver:
    """Keeps what comes. The first answers are those in `answers`; all others are 200."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.answers: list[Answer] = []
        self._came = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def hook(self, name: str = "here", **options: Any) -> Webhook:
        """A webhook that leads here."""
        options = {"secret": SECRET, "allow_private": True, **options}
        return Webhook(name, f"{self.url}/{name}", **options)

    async def wait_for(self, count: int) -> list[Message]:
        """What has come, as soon as it is this much."""
        async with self._came:
            await self._came.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        message = Message(first.split(" ")[1], headers, body)
        answer = self.answers.pop(0) if self.answers else None
        async with self._came:
            self.received.append(message)
            self._came.notify_all()
        if answer is None:
            writer.write(OK)
        else:
            await answer(message, writer)
        await writer.drain()
        return True
