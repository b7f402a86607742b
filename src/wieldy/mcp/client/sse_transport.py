"""The older transport over HTTP: one stream of events from the server, and a POST per message."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
import mcp_types as types
from mcp.shared._httpx_utils import request_within_origin, stream_within_origin
from mcp.shared.message import SessionMessage

from wieldy.core.errors import RemoteFailure

_HEADERS = httpx2.Headers({"Accept": "text/event-stream", "Cache-Control": "no-store"})
_log = logging.getLogger("wieldy.mcp")
Read = SessionMessage | Exception


@asynccontextmanager
async def open_sse(
    client: httpx2.AsyncClient, url: str, lost: Callable[[str], None]
) -> AsyncIterator[Any]:
    """The streams to a server. The client bounds the size of an event, and nothing here does.

    Args:
        client: Sends the requests.
        url: The server's address.
        lost: Is told why the stream of events has broken off.
    """
    async with stream_within_origin(client, "GET", url, headers=_HEADERS) as response:
        response.raise_for_status()
        events = aiter(httpx2.EventSource(response, max_event_size=None))
        endpoint = await _find_endpoint(events, url)
        send, receive = anyio.create_memory_object_stream[Read](0)
        async with send, receive, anyio.create_task_group() as group:
            group.start_soon(_read_messages, events, send, lost)
            yield receive, _Outgoing(client, endpoint)
            group.cancel_scope.cancel()


class _Outgoing:
    """Messages to the server, each a request of its own."""

    def __init__(self, client: httpx2.AsyncClient, endpoint: str) -> None:
        self._client = client
        self._endpoint = endpoint

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message; returns when the server has taken it."""
        body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        try:
            answer = await request_within_origin(self._client, "POST", self._endpoint, json=body)
            answer.raise_for_status()
        except httpx2.HTTPError as error:
            # The client's hooks have said why.
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Nothing is held."""

    async def __aenter__(self) -> "_Outgoing":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


async def _find_endpoint(events: AsyncIterator[httpx2.ServerSentEvent], url: str) -> str:
    """Where messages are sent, which the first event says; it must be on the same server."""
    async for event in events:
        if event.event != "endpoint":
            continue
        endpoint = httpx2.URL(urljoin(url, event.data))
        base = httpx2.URL(url)
        if (endpoint.scheme, endpoint.host, endpoint.port) != (base.scheme, base.host, base.port):
            raise RemoteFailure(f"it names an address of another server: {endpoint.host}")
        return str(endpoint)
    raise RemoteFailure("its stream ended before it named an address")


async def _read_messages(
    events: AsyncIterator[httpx2.ServerSentEvent],
    send: "anyio.abc.ObjectSendStream[Read]",
    lost: Callable[[str], None],
) -> None:
    try:
        async for event in events:
            if event.event == "message" and event.data:
                await send.send(_read_message(event.data))
    except httpx2.HTTPError as error:
        lost(str(error) or repr(error))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        _log.debug("A message came when nobody listened any more")
    finally:
        await send.aclose()


def _read_message(data: str) -> Read:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        return error
