"""Tokens of an OAuth issuer: whose they are, and which are refused."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.mcp.clients import connected, text_of
from tests.mcp.served import served
from tests.mcp.web import served as served_app
from wieldy import Context, Toolbox
from wieldy.server.config.gateway_file import CallerTable
from wieldy.server.named_callers import NamedCallers
from wieldy.server.oauth import signing_keys
from wieldy.server.oauth.issuer import ClaimGrant, OAuthIssuer
from wieldy.server.oauth.signing_keys import IssuerUnavailable

AUDIENCE = "https://tools.example.com/mcp"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def describe_key(key: Any, key_id: str, algorithm: str) -> dict[str, Any]:
    kind = jwt.algorithms.RSAAlgorithm if algorithm == "RS256" else jwt.algorithms.ECAlgorithm
    public = kind.to_jwk(key.public_key(), as_dict=True)
    return {**public, "kid": key_id, "use": "sig", "alg": algorithm}


class Issuer:
    """An issuer on this machine, and what it was asked."""

    def __init__(self) -> None:
        self.keys = [describe_key(RSA_KEY, "one", "RS256"), describe_key(EC_KEY, "two", "ES256")]
        self.keys.append({"kty": "unheard of", "kid": "three"})
        self.asked: list[str] = []
        self.broken = False
        self.name = ""
        self.description: dict[str, Any] = {}

    async def describe(self, request: Request) -> Response:
        self.asked.append("description")
        described = {"issuer": self.name, "jwks_uri": f"{self.name}/keys", **self.description}
        return Response(status_code=503) if self.broken else JSONResponse(described)

    async def list_keys(self, request: Request) -> Response:
        self.asked.append("keys")
        return Response(status_code=503) if self.broken else JSONResponse({"keys": self.keys})

    def sign(
        self, key: Any = RSA_KEY, key_id: str = "one", alg: str = "RS256", **facts: Any
    ) -> str:
        now = time.time()
        claims = {"iss": self.name, "aud": AUDIENCE, "sub": "ann", "exp": now + 60.5, **facts}
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, key, alg, headers={"kid": key_id})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    routes = [
        Route("/.well-known/openid-configuration", made.describe),
        Route("/keys", made.list_keys),
    ]
    with served_app(Starlette(routes=routes)) as port:
        made.name = f"http://127.0.0.1:{port}"
        yield made


MakeChecker = Callable[..., OAuthIssuer]


@pytest.fixture
async def make_checker(issuer: Issuer) -> AsyncIterator[MakeChecker]:
    made: list[OAuthIssuer] = []

    def make(*grants: ClaimGrant, **options: Any) -> OAuthIssuer:
        made.append(OAuthIssuer(issuer.name, AUDIENCE, grants, **options))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_a_token_of_the_issuer_is_known_and_its_keys_are_fetched_once(
    issuer: Issuer, make_checker: MakeChecker
) -> None:
    checker = make_checker()
    for token in (
        issuer.sign(),
        issuer.sign(EC_KEY, "two", "ES256"),
        issuer.sign(aud=[AUDIENCE, "x"]),
    ):
        identity = await checker.identify(token)
        assert identity is not None
        assert (identity.name, sorted(identity.roles)) == ("oauth:ann", ["call"])
    assert issuer.asked == ["description", "keys"]


@pytest.mark.parametrize(
    "facts",
    [
        {"aud": "https://other.example.com/mcp"},
        {"aud": AUDIENCE + "/"},
        {"aud": None},
        {"iss": "http://127.0.0.1:1"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": 9_999_999_999},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 201},
        {"sub": ["ann"]},
    ],
    ids=str,
)
async def test_a_token_that_is_not_for_us_is_refused(
    issuer: Issuer, make_checker: MakeChecker, facts: dict[str, Any]
) -> None:
    try:
        token = issuer.sign(**facts)
    except TypeError:
        # The library refuses to sign some; a hostile issuer would not.
        payload = {
            "iss": issuer.name,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": time.time() + 60,
            **facts,
        }
        token = jwt.api_jws.encode(
            json.dumps(payload).encode(), RSA_KEY, "RS256", headers={"kid": "one"}
        )
    assert await make_checker().identify(token) is None


async def test_a_token_that_the_issuer_did_not_sign_is_refused(
    issuer: Issuer, make_checker: MakeChecker
) -> None:
    good = issuer.sign()
    head, body, signature = good.split(".")
    forged = [
        issuer.sign(OTHER_KEY),
        issuer.sign(RSA_KEY, "two"),
        issuer.sign(EC_KEY, "one", "ES256"),
        issuer.sign("a-shared-secret-that-is-long-enough", "one", "HS256"),
        jwt.encode({"iss": issuer.name}, "", "none", headers={"kid": "one"}),
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-2]}AA",
        f"{head}.{body}",
        "..",
        "a.b.c",
        "",
        "x" * 100_000,
        good + "\ud800",
    ]
    checker = make_checker()
    assert [await checker.identify(token) for token in forged] == [None] * len(forged)
    assert await checker.identify(good) is not None


@pytest.mark.parametrize(
    ("claims", "roles", "view"),
    [
        ({"groups": ["admins", "staff"]}, ["administer", "call"], None),
        ({"groups": ["staff"]}, ["call"], "readers"),
        ({"scope": "openid tools"}, ["call"], None),
        ({"scope": "toolsmith"}, [], None),
        ({"groups": "staff-and-more"}, [], None),
        ({"groups": {"staff": 1}}, [], None),
        ({}, [], None),
    ],
    ids=str,
)
async def test_claims_give_roles_and_views_and_the_first_that_fits_counts(
    issuer: Issuer,
    make_checker: MakeChecker,
    claims: dict[str, Any],
    roles: list[str],
    view: str | None,
) -> None:
    checker = make_checker(
        ClaimGrant("groups", "admins", frozenset(("call", "administer"))),
        ClaimGrant("groups", "staff", frozenset(("call",)), "readers"),
        ClaimGrant("scope", "tools", frozenset(("call",))),
    )
    identity = await checker.identify(issuer.sign(**claims))
    assert identity is not None
    assert (sorted(identity.roles), identity.view) == (roles, view)
    # The grants before the one that fits had a say too.
    chosen_by = ("groups", "scope") if claims.get("scope") == "openid tools" else ("groups",)
    assert identity.chosen_by == (chosen_by if roles else ())


async def test_new_keys_are_fetched_and_unknown_ones_do_not_flood_the_issuer(
    issuer: Issuer, make_checker: MakeChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = make_checker()
    assert await checker.identify(issuer.sign()) is not None
    issuer.keys.append(describe_key(OTHER_KEY, "new", "RS256"))
    for number in range(50):
        assert await checker.identify(issuer.sign(OTHER_KEY, f"guess {number}")) is None
    assert issuer.asked.count("keys") == 1

    monkeypatch.setattr(signing_keys, "_RETRY_SECONDS", 0.0)
    assert await checker.identify(issuer.sign(OTHER_KEY, "new")) is not None


async def test_an_issuer_that_does_not_answer_lets_nobody_in_and_known_keys_go_on(
    issuer: Issuer, make_checker: MakeChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, unknown = make_checker(), make_checker()
    assert await known.identify(issuer.sign()) is not None
    issuer.broken = True
    monkeypatch.setattr(signing_keys, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(signing_keys, "_RETRY_SECONDS", 0.0)
    assert await known.identify(issuer.sign()) is not None
    with pytest.raises(IssuerUnavailable, match="503"):
        await unknown.identify(issuer.sign())


async def test_a_description_of_another_issuer_is_not_believed(
    issuer: Issuer, make_checker: MakeChecker
) -> None:
    issuer.description = {"issuer": "https://evil.example.com"}
    with pytest.raises(IssuerUnavailable, match=r"evil\.example\.com"):
        await make_checker().identify(issuer.sign())


async def test_a_file_may_say_more_about_somebody_of_the_issuer(
    issuer: Issuer, make_checker: MakeChecker
) -> None:
    checker = make_checker()
    named = NamedCallers(checker, {"oauth:ann": CallerTable(roles=["approve"], view="v")})
    identity = await named.identify(issuer.sign())
    assert identity is not None
    assert (sorted(identity.roles), identity.view) == (["approve"], "v")
    assert named.metadata is checker.metadata


async def test_a_server_tells_clients_where_to_get_a_token_and_lets_them_in(
    issuer: Issuer, make_checker: MakeChecker
) -> None:
    box = Toolbox()

    @box.tool
    async def who(context: Context) -> str | None:
        """Tell who calls."""
        return context.scope.caller

    with served(box, identifiers=[make_checker()]) as url:
        origin = url.removesuffix("/mcp")
        async with httpx2.AsyncClient(timeout=120) as http:
            refused = await http.post(url, json={})
            metadata = "/.well-known/oauth-protected-resource/mcp"
            found = await http.get(origin + metadata)
        challenge = refused.headers["www-authenticate"]
        assert refused.status_code == 401
        assert challenge == f'Bearer resource_metadata="https://tools.example.com{metadata}"'
        assert found.json()["authorization_servers"] == [issuer.name]
        assert found.json()["resource"] == AUDIENCE
        async with connected(url, issuer.sign()) as client:
            assert text_of(await client.call_tool("who")) == "oauth:ann"
