"""Signing in to a server that wants OAuth, with the SDK's own authorization server."""

import secrets
import socket
import time
from base64 import b64encode
from typing import Any

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.responses import JSONResponse, Response

from tests.mcp.web import Seen, served
from wieldy import Secret, ServerUnavailable, Toolbox
from wieldy.mcp import OAuth


class Accounts:
    """An authorization server that lets everybody in, and keeps all in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.lifetime = 3600

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return self._issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return self._issue(client, scopes, None)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)

    def _issue(
        self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None
    ) -> OAuthToken:
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        expires = int(time.time()) + self.lifetime
        self.tokens[access] = AccessToken(
            token=access,
            client_id=client.client_id,
            scopes=scopes,
            expires_at=expires,
            resource=resource,
        )
        self.refreshes[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes
        )
        return OAuthToken(access_token=access, expires_in=self.lifetime, refresh_token=refresh)


def guarded_shop(accounts: Accounts, port: int) -> Seen:
    here = f"http://127.0.0.1:{port}"
    shop = MCPServer(
        "guarded",
        auth_server_provider=accounts,  # type: ignore[arg-type] # one grant is left out
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(here),
            resource_server_url=AnyHttpUrl(f"{here}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        ),
    )

    @shop.tool()
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    return Seen(shop.streamable_http_app())


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        found: int = probe.getsockname()[1]
        return found


async def browse(url: str) -> None:
    """Be the person's browser: follow wherever the sign-in page leads."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        arrived = await browser.get(url)
        assert "close this window" in arrived.text


async def test_a_person_signs_in_once_and_the_calls_have_a_token(box: Toolbox, port: int) -> None:
    accounts, opened = Accounts(), []

    async def open_url(url: str) -> None:
        opened.append(url)
        await browse(url)

    app = guarded_shop(accounts, port)
    with served(app, port):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", auth=OAuth(open_url=open_url))
        outcomes = await box.call_many([("add", {"a": n}) for n in range(5)])
        await box.close()

    assert [outcome.value for outcome in outcomes] == [{"result": n + 2} for n in range(5)]
    assert len(opened) == 1
    [client] = accounts.clients.values()
    assert client.client_name == "Wieldy"
    used = {r.get("authorization") for r in app.requests if r.get("mcp-name") == "add"}
    assert used == {f"Bearer {token}" for token in accounts.tokens}


async def test_the_way_back_may_be_received_by_the_program(box: Toolbox, port: int) -> None:
    accounts = Accounts()
    brought: dict[str, str] = {}

    async def open_url(url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            back = httpx2.URL((await browser.get(url)).headers["location"])
            brought.update(back.params)

    async def receive() -> tuple[str, str | None]:
        return brought["code"], brought.get("state")

    auth = OAuth(open_url=open_url, receive=receive, redirect_uri="https://example.org/back")
    with served(guarded_shop(accounts, port), port):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", auth=auth)
        assert (await box.call("add", {"a": 1})).ok
        await box.close()


async def test_a_refused_sign_in_is_an_error(box: Toolbox, port: int) -> None:
    async def open_url(url: str) -> None:
        back = httpx2.URL(url).params["redirect_uri"]
        async with httpx2.AsyncClient() as browser:
            await browser.get(f"{back}?error=access_denied")

    with (
        served(guarded_shop(Accounts(), port), port),
        pytest.raises(ServerUnavailable, match="access_denied"),
    ):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", auth=OAuth(open_url=open_url))


async def test_without_a_token_the_server_is_closed(box: Toolbox, port: int) -> None:
    with (
        served(guarded_shop(Accounts(), port), port),
        pytest.raises(ServerUnavailable, match="401"),
    ):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")


async def test_a_given_token_opens_it(box: Toolbox, port: int) -> None:
    accounts = Accounts()
    client = OAuthClientInformationFull(client_id="me", redirect_uris=None)
    token = accounts._issue(client, [], None).access_token
    with served(guarded_shop(accounts, port), port):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", auth=Secret(token))
        assert (await box.call("add", {"a": 1})).ok
        await box.close()


async def test_any_flow_of_the_http_client_can_be_used(box: Toolbox, port: int) -> None:
    class Refusing(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> Any:
            raise OAuthFlowError("no key in the safe")
            yield request

    with (
        served(guarded_shop(Accounts(), port), port),
        pytest.raises(ServerUnavailable, match="no key in the safe"),
    ):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", auth=Refusing())


async def test_an_unattended_client_signs_in_as_itself(box: Toolbox, port: int) -> None:
    here = f"http://127.0.0.1:{port}"
    documents = {
        "/.well-known/oauth-protected-resource/mcp": {
            "resource": f"{here}/mcp", "authorization_servers": [here],
        },
        "/.well-known/oauth-authorization-server": {
            "issuer": here, "authorization_endpoint": f"{here}/authorize",
            "token_endpoint": f"{here}/token", "response_types_supported": ["code"],
            "grant_types_supported": ["client_credentials"],
        },
        "/token": {"access_token": "for-the-robot", "token_type": "Bearer", "expires_in": 3600},
    }  # fmt: skip
    shop = MCPServer("robots")
    inner = shop.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] in documents:
            await JSONResponse(documents[scope["path"]])(scope, receive, send)
        elif scope["type"] == "http" and not _is_robot(scope):
            await Response(status_code=401)(scope, receive, send)
        else:
            await inner(scope, receive, send)

    seen = Seen(app)
    auth = OAuth(unattended=True, client_id="robot", client_secret=Secret("s3cret"), issuer=here)
    with served(seen, port):
        await box.add_mcp(f"{here}/mcp", auth=auth)
        await box.close()

    [asked] = [request for request in seen.requests if request["path"] == "/token"]
    assert asked["authorization"] == "Basic " + b64encode(b"robot:s3cret").decode()


def _is_robot(scope: Any) -> bool:
    return (b"authorization", b"Bearer for-the-robot") in scope["headers"]


def test_an_unattended_client_needs_its_secret() -> None:
    with pytest.raises(ValueError, match="client_secret"):
        OAuth(unattended=True, client_id="me").auth("https://example.org/mcp")
    own = OAuth(unattended=True, client_id="me", client_secret=Secret("s"), issuer="https://e.org")
    assert isinstance(own.auth("https://example.org/mcp"), httpx2.Auth)


async def test_what_can_be_no_auth_is_refused(box: Toolbox) -> None:
    with pytest.raises(TypeError, match="auth takes"):
        await box.add_mcp("http://127.0.0.1:9/mcp", auth=42)
