"""HTTP to an MCP server of which no message is read that is larger than its bound."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from wieldy.core.bounded_json import MAX_WRAPPED, parse_json
from wieldy.core.errors import ServiceError
from wieldy.core.network.bounded_body import Packing

from .message_bound import BoundedEvents, BoundedMessage, MessageTooLong

_EVENTS = "text/event-stream"
# The body that is read is unpacked, and may be another.
_HEADERS_OF_BODY = ("content-encoding", "content-length", "transfer-encoding")


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Gives the answers of another transport, with errors in place of messages that are too long.

    Args:
        inner: The transport.
        most: How many bytes a message may have, after it was unpacked.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, most: int) -> None:
        self._inner = inner
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        answer = await self._inner.handle_async_request(request)
        kept = [
            (name, value)
            for name, value in answer.headers.multi_items()
            if name.lower() not in _HEADERS_OF_BODY
        ]
        return httpx2.Response(
            answer.status_code,
            headers=kept,
            stream=_BoundedBody(request, answer, self._most),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close the other transport."""
        await self._inner.aclose()


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer: one message, or a stream of events with one each."""

    def __init__(self, request: httpx2.Request, answer: httpx2.Response, most: int) -> None:
        self._request = request
        self._answer = answer
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kind = self._answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        reading = self._read_events() if kind == _EVENTS else self._read_message()
        try:
            async for part in reading:
                if part:
                    yield part
        except MessageTooLong as error:
            raise httpx2.ReadError(str(error), request=self._request) from None

    async def aclose(self) -> None:
        await self._answer.aclose()

    async def _read_message(self) -> AsyncIterator[bytes]:
        message, packed_size = BoundedMessage(self._most, self._read_id), 0
        try:
            async for packed, chunk in self._unpack():
                packed_size += len(packed)
                error = message.add(chunk)
                # Gigabytes can unpack to nothing.
                if error is None and packed_size > self._most:
                    error = message.refuse()
                if error is not None:
                    yield error
                    return
        except ServiceError:
            yield message.refuse()
            return
        yield message.end()

    async def _read_events(self) -> AsyncIterator[bytes]:
        events = BoundedEvents(self._most, self._read_id if self._asks else None)
        try:
            async for _, chunk in self._unpack():
                yield events.feed(chunk)
        except ServiceError:
            yield events.refuse()

    async def _unpack(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """Each chunk as it came, and unpacked."""
        packing = Packing(self._answer.headers.get("content-encoding", ""))
        stream: Any = self._answer.stream
        async for packed in stream:
            yield packed, packing.unpack(packed, self._most)

    @property
    def _asks(self) -> bool:
        """Whether the request has a message, which the answer is for."""
        return self._request.method == "POST"

    def _read_id(self) -> int | str | None:
        """The id of the request that is answered; None if it was no request of the protocol."""
        try:
            asked = parse_json(self._request.content, MAX_WRAPPED)
        except (ValueError, httpx2.RequestNotRead):
            return None
        found = asked.get("id") if isinstance(asked, dict) and "method" in asked else None
        return found if isinstance(found, int | str) else None
