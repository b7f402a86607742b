"""Servers behind a gateway that everybody reaches as themselves: two callers, over real HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import Completion, PromptReference, ResourceListChangedNotification
from pydantic import BaseModel

from tests.mcp.clients import MODES, Mode, Person, connected, text_of
from tests.mcp.served import served as serve_gateway
from tests.mcp.web import Seen, served
from wieldy import Status, Toolbox
from wieldy.cli.live_gateway import LiveGateway
from wieldy.core.choices import Role
from wieldy.mcp.serving.callers import Identity
from wieldy.server import run
from wieldy.server.named_callers import NamedCallers

FILE = """
store = "sqlite:///calls.db"
[servers.search]
url = "http://127.0.0.1:{port}/mcp"
type = "http"
headers.Authorization = "Bearer ${{caller.claims.search_token}}"
headers.X-User = "${{caller.name}}"
listing = {{ Authorization = "Bearer listing-token" }}
prefix = "s_"
[access]
tokens = true
[access.oauth]
issuer = "https://issuer.example"
audience = "https://gateway.example/mcp"
[[rules]]
verdict = "ask"
tools = "s_wipe"
[[rules]]
verdict = "allow"
tools = "*"
"""


class Tokens:
    """Knows people whose token is their name, with claims as an issuer's token has them."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {
            name: {"search_token": f"token-of-{name}", "exp": time.time() + 3600}
            for name in ("ann", "bob")
        }
        self.claims["eve"] = {"exp": time.time() + 3600}
        self.chosen_by: tuple[str, ...] = ()

    async def identify(self, token: str) -> Identity | None:
        """Whose token this is."""
        roles: frozenset[Role] = frozenset(("call", "approve", "administer"))
        claims = self.claims.get(token)
        if claims is None:
            return None
        return Identity(token, roles, claims=dict(claims), chosen_by=self.chosen_by)


@dataclass
class Upstream:
    """A real server, and every request that it got."""

    seen: Seen
    port: int

    def identities(self) -> set[tuple[str | None, str | None]]:
        """Who it was asked as: the token and the user of each request."""
        return {(each.get("authorization"), each.get("x-user")) for each in self.seen.requests}

    def check_sessions(self) -> None:
        """Fail if a session was ever used with two tokens."""
        owners: dict[str, set[str | None]] = {}
        for each in self.seen.requests:
            if "mcp-session-id" in each:
                owners.setdefault(each["mcp-session-id"], set()).add(each.get("authorization"))
        assert all(len(tokens) == 1 for tokens in owners.values()), owners


class Answer(BaseModel):
    """What a person is asked for."""

    word: str


def make_search() -> MCPServer:
    """A server that says as whom it is asked, in all that it offers.

    It says it backwards, because the gateway covers tokens in answers.
    """
    search = MCPServer("search", instructions="Search well.")
    asked_as: ContextVar[str] = ContextVar("asked_as")

    async def note_owner(ctx: Any, call_next: Any) -> Any:
        if ctx.request is not None:
            asked_as.set(ctx.request.headers.get("authorization", "Bearer nobody")[7:][::-1])
        return await call_next(ctx)

    search.middleware.append(note_owner)

    @search.tool()
    async def whoami() -> str:
        """Say as whom it is asked."""
        return asked_as.get()

    @search.tool()
    async def wipe() -> str:
        """Wipe, and say as whom."""
        return asked_as.get()

    @search.tool()
    async def ask(ctx: Context) -> str:
        """Ask the person whose call it is."""
        answer = await ctx.elicit(f"For {asked_as.get()}?", Answer)
        return f"{asked_as.get()}: {answer.action}"

    @search.tool()
    async def touch(ctx: Context) -> str:
        """Tell the session of this call, and no other, that the resources have changed."""
        await ctx.session.send_resource_list_changed()
        return "touched"

    @search.resource("note://mine")
    def note() -> str:
        return asked_as.get()

    @search.prompt()
    def greet(word: str = "") -> str:
        return asked_as.get()

    @search.completion()  # type: ignore[untyped-decorator,no-untyped-call]
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=[asked_as.get()])

    return search


def only_old(scope: Any, headers: dict[str, str]) -> int | None:
    """Turn away whoever asks for the newest version, as a server with sessions does."""
    return 400 if headers.get("mcp-protocol-version", "").startswith("2026") else None


@pytest.fixture(params=["newer", "older"])
def upstream(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    refuse = only_old if request.param == "older" else None
    seen = Seen(make_search().streamable_http_app(), refuse)
    with served(seen) as port:
        yield Upstream(seen, port)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def path(upstream: Upstream, tmp_path: Path) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(FILE.format(port=upstream.port))
    return path


@asynccontextmanager
async def gateway_of(path: Path, tokens: Tokens) -> AsyncIterator[tuple[LiveGateway, str]]:
    """A gateway while it is served, and its address."""
    gateway = await LiveGateway.open(path)
    identifiers = [NamedCallers(tokens, gateway.callers, gateway.people.known)]
    options: dict[str, Any] = {"identifiers": identifiers, "views": gateway.views}
    serving = serve_gateway(gateway.found.box, run, view=gateway.found.offer, **options)
    url = await asyncio.to_thread(serving.__enter__)
    try:
        yield gateway, url
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)


def change(path: Path, old: str, new: str) -> None:
    """Write another file in place of the one that is there."""
    path.write_text(path.read_text().replace(old, new))


def token_of(name: str) -> str:
    """What the server says if it is asked as this caller."""
    return f"token-of-{name}"[::-1]


async def call_api(url: str, who: str, path: str, body: Any = None) -> Any:
    """The answer of the API to somebody."""
    address = url.removesuffix("/mcp") + path
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {who}"}, timeout=120) as http:
        answer = await (http.get(address) if body is None else http.post(address, json=body))
    return answer.json()


@pytest.mark.parametrize("mode", MODES)
async def test_each_caller_reaches_the_server_with_their_own_token_in_all_that_it_offers(
    upstream: Upstream, path: Path, tokens: Tokens, mode: Mode
) -> None:
    async with gateway_of(path, tokens) as (gateway, url):

        async def use_all(name: str) -> None:
            async with connected(url, name, mode) as client:
                for _ in range(2):
                    answers = [
                        text_of(await client.call_tool("s_whoami", {})),
                        (await client.read_resource("note://mine")).contents[0].text,  # type: ignore[union-attr]
                        (await client.get_prompt("s_greet", {})).messages[0].content.text,  # type: ignore[union-attr]
                        (
                            await client.complete(
                                PromptReference(name="s_greet"), {"name": "word", "value": ""}
                            )
                        ).completion.values[0],
                    ]
                    assert answers == [token_of(name)] * 4

        await asyncio.gather(use_all("ann"), use_all("bob"), use_all("ann"), use_all("bob"))
        assert gateway.found.toolbox.mcp["search"].caller_count == 2
    upstream.check_sessions()
    assert upstream.identities() == {
        ("Bearer listing-token", None),
        ("Bearer token-of-ann", "ann"),
        ("Bearer token-of-bob", "bob"),
    }


async def test_for_whom_a_server_has_no_identity_nothing_of_it_exists(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    async with gateway_of(path, tokens) as (_, url), connected(url, "eve") as client:
        assert (await client.list_tools()).tools == []
        assert (await client.list_resources()).resources == []
        assert (await client.list_prompts()).prompts == []
        assert client.instructions is None
        with pytest.raises(MCPError, match="no tool named"):
            await client.call_tool("s_whoami", {})
        with pytest.raises(MCPError):
            await client.read_resource("note://mine")
        told = await call_api(url, "eve", "/api/calls", {"tool": "s_whoami"})
        assert told["error"]["code"] == "not_found"
        assert (await call_api(url, "eve", "/api/tools"))["tools"] == []
    assert upstream.identities() == {("Bearer listing-token", None)}


async def test_an_approved_call_runs_as_its_caller_whoever_approves_it(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    async with gateway_of(path, tokens) as (gateway, url):
        receipt = await call_api(url, "ann", "/api/calls", {"tool": "s_wipe"})
        assert receipt["state"] == "pending"
        done = await call_api(url, "bob", f"/api/pending/{receipt['call_id']}/approve", {})
        assert done["value"] == {"result": token_of("ann")}

        # Another process without the tool approves, and the gateway picks the call up.
        receipt = await call_api(url, "ann", "/api/calls", {"tool": "s_wipe"})
        async with Toolbox(store=f"sqlite:///{path.parent}/calls.db") as elsewhere:
            await elsewhere.approve(receipt["call_id"], by="bob")
        outcome = await gateway.found.toolbox.wait(receipt["call_id"])
        assert outcome.value == {"result": token_of("ann")}
    assert ("Bearer token-of-bob", "bob") not in upstream.identities()


async def test_a_call_whose_caller_is_not_known_any_more_fails_and_says_why(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    async with gateway_of(path, tokens) as (_, url):
        first = await call_api(url, "ann", "/api/calls", {"tool": "s_wipe"})
        tokens.claims["ann"]["exp"] = time.time() - 60
        second = await call_api(url, "ann", "/api/calls", {"tool": "s_wipe"})
        late = await call_api(url, "bob", f"/api/pending/{first['call_id']}/approve", {})
        assert (late["state"], second.get("error", {}).get("code")) == ("error", "not_found")
        assert "the claims of ann are not known any more" in late["error"]

        tokens.claims["ann"]["exp"] = time.time() + 60
        third = await call_api(url, "ann", "/api/calls", {"tool": "s_wipe"})
    async with gateway_of(path, tokens) as (_, url):
        after = await call_api(url, "bob", f"/api/pending/{third['call_id']}/approve", {})
        assert after["state"] == "error"
        assert "They have to come in again" in after["error"]
    assert upstream.identities() == {("Bearer listing-token", None)}


async def test_a_call_that_waited_is_refused_if_a_claim_it_depends_on_is_another_by_now(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    change(path, "headers.X-User", 'headers.X-Team = "${caller.claims.team}"\nheaders.X-User')
    for name in ("ann", "bob"):
        tokens.claims[name] |= {"team": "the-red-team", "groups": ["ops", "dev"]}
    tokens.chosen_by = ("groups",)
    async with gateway_of(path, tokens) as (gateway, url):

        async def park() -> str:
            made = await call_api(url, "ann", "/api/calls", {"tool": "s_wipe"})
            return str(made["call_id"])

        async def approve(call_id: str) -> Any:
            return await call_api(url, "bob", f"/api/pending/{call_id}/approve", {})

        # Digests are shown, and nothing else of the claims is kept or shown.
        first = await park()
        shown = await call_api(url, "bob", f"/api/pending/{first}")
        assert list(shown["claims"]) == ["groups", "team"]
        assert all(len(digest) == 64 for digest in shown["claims"].values())
        kept = b"".join(each.read_bytes() for each in path.parent.glob("calls.db*"))
        assert (b"claims" in kept, b"the-red-team" in kept, b"token-of-ann" in kept) == (
            (True, False, False)
        )

        # A credential may be renewed, and the order of a list means nothing.
        tokens.claims["ann"] |= {"search_token": "token-of-ann2", "groups": ["dev", "ops"]}
        await call_api(url, "ann", "/api/me")
        assert (await approve(first))["value"] == {"result": token_of("ann2")}

        for claim, value in (("team", "the-blue-team"), ("groups", ["dev"]), ("team", None)):
            waiting, picked_up = await park(), await park()
            tokens.claims["ann"][claim] = value
            await call_api(url, "ann", "/api/me")
            refused = await approve(waiting)
            assert refused["state"] == "denied"
            assert f"the claim {claim} of its caller is not what it was" in refused["error"]
            async with Toolbox(store=f"sqlite:///{path.parent}/calls.db") as elsewhere:
                await elsewhere.approve(picked_up, by="bob")
            outcome = await gateway.found.toolbox.wait(picked_up)
            assert outcome.status is Status.DENIED
    assert {each.get("x-team") for each in upstream.seen.requests} == {None, "the-red-team"}


async def test_a_call_that_waited_is_sent_with_the_newest_values_of_its_caller(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    change(path, "caller.claims.search_token", "caller.values.key")
    change(path, "headers.X-User", 'headers.X-Team = "${caller.values.team}"\nheaders.X-User')
    values = '[callers.ann]\nvalues = { key = "token-of-first", team = "the-red-team" }\n'
    change(path, "[access]", f"{values}[access]")
    async with gateway_of(path, tokens) as (gateway, url):
        made = [await call_api(url, "ann", "/api/calls", {"tool": "s_wipe"}) for _ in range(2)]
        shown = await call_api(url, "bob", f"/api/pending/{made[0]['call_id']}")
        assert (made[0]["state"], shown["claims"]) == ("pending", {})
        change(path, "token-of-first", "token-of-second")
        change(path, "the-red-team", "the-blue-team")
        assert await gateway.reload()
        done = await call_api(url, "bob", f"/api/pending/{made[0]['call_id']}/approve", {})
        assert done["value"] == {"result": token_of("second")}
        async with Toolbox(store=f"sqlite:///{path.parent}/calls.db") as elsewhere:
            await elsewhere.approve(made[1]["call_id"], by="bob")
        outcome = await gateway.found.toolbox.wait(made[1]["call_id"])
        assert outcome.value == {"result": token_of("second")}
    sent = {(each.get("authorization"), each.get("x-team")) for each in upstream.seen.requests}
    assert sent == {("Bearer listing-token", None), ("Bearer token-of-second", "the-blue-team")}


async def test_claims_that_chose_a_view_hold_for_tools_of_the_gateway_itself(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    change(path, 'tools = "*"', 'tools = "s_*"')
    tokens.chosen_by = ("groups",)
    async with gateway_of(path, tokens) as (gateway, url):

        @gateway.found.toolbox.tool(permission="confirm")
        def drop() -> int:
            """Drop it."""
            return 1

        receipt = await call_api(url, "ann", "/api/calls", {"tool": "drop"})
        other = await call_api(url, "ann", "/api/calls", {"tool": "drop"})
        done = await call_api(url, "bob", f"/api/pending/{other['call_id']}/approve", {})
        assert done["value"] == 1
        tokens.claims["ann"]["groups"] = ["new"]
        await call_api(url, "ann", "/api/me")
        done = await call_api(url, "bob", f"/api/pending/{receipt['call_id']}/approve", {})
        assert done["state"] == "denied" and "the claim groups" in done["error"]


async def test_a_new_token_of_a_caller_counts_at_once(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    async with gateway_of(path, tokens) as (_, url), connected(url, "ann") as client:
        assert text_of(await client.call_tool("s_whoami", {})) == token_of("ann")
        tokens.claims["ann"]["search_token"] = "token-of-ann2"
        assert text_of(await client.call_tool("s_whoami", {})) == token_of("ann2")
    upstream.check_sessions()


async def test_a_changed_file_and_a_new_connection_keep_callers_apart(
    upstream: Upstream, path: Path, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOBS", "token-of-bobs-value ${HOME}")
    async with gateway_of(path, tokens) as (gateway, url):

        async def ask(name: str) -> str:
            return str((await call_api(url, name, "/api/calls", {"tool": "s_whoami"})).get("value"))

        assert token_of("ann") in await ask("ann")
        await call_api(url, "bob", "/api/servers/search/reconnect", {})
        assert (token_of("ann") in await ask("ann"), token_of("bob") in await ask("bob")) == (
            True,
            True,
        )
        change(path, "caller.claims.search_token", "caller.values.key")
        change(path, "[access]", '[callers.bob]\nvalues = { key = "${BOBS}" }\n[access]')
        assert await gateway.reload()
        # What is filled in is not read as a template again.
        assert token_of("bobs-value ${HOME}") in await ask("bob")
        assert await ask("ann") == "None"
        change(path, "${BOBS}", "token-of-other")
        assert await gateway.reload()
        assert token_of("other") in await ask("bob")
    upstream.check_sessions()


async def test_questions_of_the_server_reach_the_person_whose_call_it_is(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    people = {name: Person(word="x") for name in ("ann", "bob")}
    async with gateway_of(path, tokens) as (_, url):

        async def ask(name: str) -> str:
            options: dict[str, Any] = {"elicitation_callback": people[name]}
            async with connected(url, name, "legacy", **options) as client:
                return text_of(await client.call_tool("s_ask", {}))

        answers = await asyncio.gather(*map(ask, people))
    if upstream.seen.refuse is not None:
        assert answers == [f"{token_of(name)}: accept" for name in people]
        for name, person in people.items():
            assert [token_of(name) in said for said in person.asked] == [True]
    upstream.check_sessions()


async def test_a_change_on_the_connection_of_one_caller_is_told_to_that_caller_alone(
    upstream: Upstream, path: Path, tokens: Tokens
) -> None:
    if upstream.seen.refuse is None:
        # Servers of the newer protocol have no sessions that could be told apart.
        return
    heard = {"ann": 0, "bob": 0}
    told = asyncio.Event()

    def hear(name: str) -> Any:
        async def keep(message: Any) -> None:
            if isinstance(message, ResourceListChangedNotification):
                heard[name] += 1
                told.set()

        return keep

    async with (
        gateway_of(path, tokens) as (_, url),
        connected(url, "ann", "legacy", message_handler=hear("ann")) as ann,
        connected(url, "bob", "legacy", message_handler=hear("bob")) as bob,
    ):
        for client in (ann, bob):
            await client.list_resources()
        for client in (ann, bob):
            told.clear()
            await client.call_tool("s_touch", {})
            await told.wait()
    assert heard == {"ann": 1, "bob": 1}
