"""Connections to servers behind a URL: streamable HTTP, and SSE for older ones."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from wieldy.core.network.addresses import Reach
from wieldy.core.network.bounded_body import ENCODINGS
from wieldy.core.network.guarded_transport import GuardedTransport
from wieldy.core.secrets.secret import reveal_secret

from .bounded_transport import BoundedTransport
from .oauth import OAuth
from .request_extras import current_errand
from .server_source import Address
from .sse_transport import open_sse

Lost = Callable[[str], None]
_SESSION = "mcp-session-id"
_HEADERS = {"Accept-Encoding": ENCODINGS}
# A server may keep the stream of an answer open for a long time without sending anything.
_TIMEOUT = httpx2.Timeout(30.0, read=300.0)


@asynccontextmanager
async def open_address(
    address: Address, transport: str, auth: httpx2.Auth | None, lost: Lost, max_message: int
) -> AsyncIterator[Any]:
    """The streams to a server, over the requested transport."""
    older = transport == "sse"
    post = _Postman(address, lost, lone=older)
    bounded = BoundedTransport(GuardedTransport(reach_of(address)), max_message)
    client = httpx2.AsyncClient(headers=_HEADERS, timeout=_TIMEOUT, auth=auth, transport=bounded)
    async with post.equip(client) as http:
        opened = (
            open_sse(http, address.url, lost)
            if older
            else streamable_http_client(address.url, http_client=http, max_sse_event_size=None)
        )
        async with opened as streams:
            yield streams


class _Postman:
    """Adds headers to each request, and records what happened to it."""

    def __init__(self, address: Address, lost: Lost, lone: bool = False) -> None:
        self._headers = address.headers
        self._origin = _url_origin(httpx2.URL(address.url))
        self._lost = lost
        # Over SSE only the HTTP client notices that a message could not be delivered.
        self._lone = lone

    def equip(self, client: httpx2.AsyncClient) -> httpx2.AsyncClient:
        """The client, with hooks for its requests and responses."""
        client.event_hooks = {"request": [self._before_request], "response": [self._after_response]}
        return client

    async def _before_request(self, request: httpx2.Request) -> None:
        if _url_origin(request.url) != self._origin:
            return
        errand = current_errand.get()
        own = errand.headers if errand is not None else {}
        for name, value in (await self._standing_headers(bool(own)) | dict(own)).items():
            request.headers[name] = str(reveal_secret(value))

        async def trace(event: str, facts: Mapping[str, Any]) -> None:
            if errand is not None and event.endswith("send_request_headers.started"):
                errand.sent = True
            elif self._lone and request.method == "POST" and event.endswith(".failed"):
                self._lost(f"a message could not be sent ({facts.get('exception')!r})")

        request.extensions = {**request.extensions, "trace": trace}

    async def _after_response(self, response: httpx2.Response) -> None:
        errand = current_errand.get()
        if errand is not None:
            errand.status = response.status_code
            errand.turned_away = (
                response.status_code == 404 and _SESSION in response.request.headers
            )
        if self._lone and response.request.method == "POST" and response.status_code >= 400:
            self._lost(f"it answered HTTP {response.status_code} to a message")

    async def _standing_headers(self, has_own: bool) -> dict[str, Any]:
        """The headers of the connection, without those that a request sets itself."""
        if not callable(self._headers):
            return dict(self._headers)
        if has_own:
            return {}
        made = self._headers(None)
        return dict(await made if inspect.isawaitable(made) else made)


def reach_of(address: Address) -> Reach:
    """The hosts that requests may reach: the server, and the sign-in server that it names.

    A remote server can't point to this machine or its network; a local one can.
    """
    reach = Reach(leads_on=True)
    issuer = address.auth.issuer if isinstance(address.auth, OAuth) else None
    for url in (address.url, issuer):
        if url is not None:
            reach.allow(httpx2.URL(url).raw_host.decode("ascii"))
    return reach


def _url_origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
