"""Sign in to a remote server with OAuth or a token, using the SDK's flows."""

import asyncio
import inspect
import socket
import webbrowser
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from wieldy.core.secrets.secret import reveal_secret
from wieldy.core.task import time_limit

SIGN_IN_SECONDS = 300.0
_PAGE = b"You can close this window and go back to your program."


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """How to sign in to a server that requires OAuth.

    By default the client registers itself, a browser window opens, and a local port waits for
    the redirect. With `unattended=True` no person is involved: the client signs in with its own
    secret, and only at its `issuer`.

    Attributes:
        scope: The scope to request. Default: the scope that the server asks for.
        client_id: The id of a registered client. Default: the client registers itself.
        client_secret: The client's secret.
        issuer: The authorization server of the client.
        unattended: Sign in as the client, without a person.
        storage: The SDK's `TokenStorage` for the tokens. Default: in memory.
        open_url: A function that shows the sign-in page, instead of the browser.
        receive: A function that waits for the redirect and returns `(code, state)`, instead of
            a local port.
        redirect_uri: The address of the redirect, for use with `receive`.
        client_name: The client's name on the server's sign-in page.
        client_metadata_url: The address of the client's metadata, for servers that accept it
            instead of a registration.

    Example:
        `await box.add_mcp("https://example.org/mcp", auth=OAuth())`
    """

    scope: str | None = None
    client_id: str | None = None
    client_secret: Any = None
    issuer: str | None = None
    unattended: bool = False
    storage: TokenStorage | None = None
    open_url: Callable[[str], Any] | None = None
    receive: Callable[[], Awaitable[tuple[str, str | None]]] | None = None
    redirect_uri: str | None = None
    client_name: str = "Wieldy"
    client_metadata_url: str | None = None

    def auth(self, url: str) -> httpx2.Auth:
        """The sign-in flow for one server, for its HTTP client."""
        secret = reveal_secret(self.client_secret)
        if self.unattended:
            if self.client_id is None or secret is None or self.issuer is None:
                raise ValueError("OAuth: unattended needs client_id, client_secret and issuer")
            kept = self.storage or _Memory()
            return ClientCredentialsOAuthProvider(
                url, kept, self.client_id, secret, scope=self.scope, issuer=self.issuer
            )
        landing = _Landing(self.redirect_uri)

        async def show(page: str) -> None:
            if self.receive is None:
                # The port has to be open before the browser can be redirected to it.
                await landing.open()
            await self._show_url(page)

        return OAuthClientProvider(
            url,
            self._client_metadata(landing.uri),
            self.storage or _Memory(self._client(landing.uri, secret)),
            show,
            landing.arrival if self.receive is None else self._receive_code,
            client_metadata_url=self.client_metadata_url,
        )

    def _client_metadata(self, redirect_uri: str) -> OAuthClientMetadata:
        return OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect_uri)], scope=self.scope, client_name=self.client_name
        )

    def _client(self, redirect_uri: str, secret: str | None) -> OAuthClientInformationFull | None:
        if self.client_id is None:
            return None
        return OAuthClientInformationFull(
            client_id=self.client_id,
            client_secret=secret,
            redirect_uris=[AnyUrl(redirect_uri)],
            scope=self.scope,
            issuer=self.issuer,
            token_endpoint_auth_method="none" if secret is None else "client_secret_basic",
        )

    async def _show_url(self, url: str) -> None:
        # A thread, because opening a browser may take long.
        waiting = await asyncio.to_thread(self.open_url or webbrowser.open, url)
        if inspect.isawaitable(waiting):
            await waiting

    async def _receive_code(self) -> AuthorizationCodeResult:
        assert self.receive is not None
        code, state = await self.receive()
        return AuthorizationCodeResult(code=code, state=state)


class Bearer(httpx2.Auth):
    """A fixed token on every request."""

    def __init__(self, token: Any) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Any:
        """Add the token to a request."""
        request.headers["Authorization"] = f"Bearer {reveal_secret(self._token)}"
        yield request


def to_auth(given: Any, url: str) -> httpx2.Auth | None:
    """Authentication for an HTTP client, from a flow, a token or OAuth settings."""
    if given is None or isinstance(given, httpx2.Auth):
        return given
    if isinstance(given, OAuth):
        return given.auth(url)
    if isinstance(reveal_secret(given), str):
        return Bearer(given)
    raise TypeError(f"auth takes a token, OAuth(…) or an httpx2.Auth, not {type(given).__name__}")


class _Memory:
    """Keeps tokens in memory."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._client = client
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class _Landing:
    """A local port to which the browser is redirected after signing in."""

    def __init__(self, uri: str | None) -> None:
        self.uri = uri or f"http://127.0.0.1:{_free_port()}/callback"
        self._server: asyncio.Server | None = None
        self._arrived: asyncio.Future[AuthorizationCodeResult]

    async def open(self) -> None:
        """Open the port."""
        place = urlsplit(self.uri)
        self._arrived = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve_landing, place.hostname, place.port)

    async def arrival(self) -> AuthorizationCodeResult:
        """The code and the state from the redirect."""
        assert self._server is not None
        async with self._server, time_limit(SIGN_IN_SECONDS):
            return await self._arrived

    async def _serve_landing(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        line = await reader.readline()
        _, _, rest = line.decode("latin-1").partition(" ")
        brought = parse_qs(urlsplit(rest.rpartition(" ")[0]).query)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(_PAGE)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + _PAGE)
        await writer.drain()
        writer.close()
        if not self._arrived.done():
            _bring_code(self._arrived, {key: values[0] for key, values in brought.items()})


def _bring_code(
    arrived: "asyncio.Future[AuthorizationCodeResult]", brought: dict[str, str]
) -> None:
    if "code" in brought:
        known = {key: brought[key] for key in ("code", "state", "iss") if key in brought}
        arrived.set_result(AuthorizationCodeResult(**known))
    elif "error" in brought:
        arrived.set_exception(PermissionError(f"signing in was refused: {brought['error']}"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
