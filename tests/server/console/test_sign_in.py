"""Signing in with a browser, and everything that another page could try with its cookie."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.api.api_client import make_box
from tests.server.test_app import LISTING, MODERN, http
from wieldy import Toolbox
from wieldy.core.choices import Role
from wieldy.mcp.serving.callers import Identity, KeptTokens
from wieldy.mcp.serving.wrong_tokens import MAX_WRONG
from wieldy.server import app
from wieldy.server.config.gateway_file import CallerTable
from wieldy.server.named_callers import NamedCallers

OWN = {"Origin": "http://localhost"}
WIPE = {"tool": "wipe", "arguments": {"path": "x"}}
FOREIGN: list[Mapping[str, str]] = [
    {},
    {"Origin": "http://localhost:3000"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "null"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": "http://evil@localhost"},
    {"Origin": "http://localhost", "Sec-Fetch-Site": "same-site"},
    {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "none"},
]


class Office:
    """A served toolbox whose people have tokens in its store."""

    def __init__(self, box: Toolbox, client: httpx2.AsyncClient) -> None:
        self.box = box
        self.client = client

    async def make_link(self, name: str, *roles: Role) -> str:
        if roles:
            await self.box.store.tokens.make(name, roles)
        return await self.box.store.sign_ins.make_link(name)

    async def sign_in(self, key: str, **headers: str) -> httpx2.Response:
        return await self.client.post("/sign-in", json={"key": key}, headers={**OWN, **headers})

    async def enter(self, name: str, *roles: Role) -> dict[str, str]:
        """The cookie of somebody who signed in."""
        answer = await self.sign_in(await self.make_link(name, *roles))
        assert answer.status_code == 200, answer.text
        self.client.cookies.clear()
        return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

    async def status(self, method: str, path: str, **options: Any) -> int:
        return (await self.client.request(method, path, **options)).status_code


@asynccontextmanager
async def office(
    folder: Path, base: str = "http://localhost", **options: Any
) -> AsyncIterator[Office]:
    box = make_box(folder)
    options.setdefault("stored_tokens", True)
    async with http(app(box, **options), base=base) as client:
        yield Office(box, client)
    await box.close()


async def test_a_link_signs_in_with_the_roles_of_its_token(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        answer = await at.sign_in(await at.make_link("ann", "approve"))
        me = (await at.client.get("/api/me")).json()
        out = await at.client.post("/sign-out", json={}, headers=OWN)
        after = await at.status("GET", "/api/me")
    cookie = answer.headers["set-cookie"]
    assert answer.json() == {"name": "ann", "roles": ["approve"]}
    assert (me["name"], me["roles"]) == ("ann", ["approve"])
    for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert part in cookie
    assert "Secure" not in cookie and "Domain" not in cookie
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert 'wieldy_session=""' in out.headers["set-cookie"] and "Max-Age=0" in str(out.headers)
    assert (out.status_code, after) == (200, 401)


async def test_over_https_no_other_host_can_set_or_see_the_cookie(tmp_path: Path) -> None:
    async with office(tmp_path, "https://localhost") as at:
        key = await at.make_link("ann", "approve")
        answer = await at.sign_in(key, Origin="https://localhost")
        me = await at.client.get("/api/me")
    assert answer.headers["set-cookie"].startswith("__Host-wieldy_session=")
    assert "Secure" in answer.headers["set-cookie"]
    assert me.json()["name"] == "ann"


@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_page_of_another_origin_changes_nothing_with_the_cookie(
    headers: dict[str, str], tmp_path: Path
) -> None:
    async with office(tmp_path) as at:
        cookie = await at.enter("adam", "call", "approve", "administer")
        rule = {"verdict": "deny", "pattern": "add"}
        for method, path, body in (
            ("POST", "/api/calls", WIPE),
            ("POST", "/api/rules", rule),
            ("PUT", "/api/modes", {"mode": "bypass"}),
            ("DELETE", "/api/rules/x", None),
        ):
            sent: dict[str, Any] = {} if body is None else {"json": body}
            refused = await at.client.request(method, path, headers={**cookie, **headers}, **sent)
            assert refused.status_code == 403, (method, path)
            assert refused.json()["error"]["code"] == "not_from_there"
        fine = await at.status("POST", "/api/rules", json=rule, headers={**cookie, **OWN})
        calls = (await at.client.get("/api/calls", headers=cookie)).json()["calls"]
    assert (fine, calls) == (201, [])


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_form_changes_nothing_with_the_cookie(kind: str, tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        cookie = await at.enter("adam", "administer")
        headers = {**cookie, **OWN, "Content-Type": kind}
        content = b'{"verdict": "deny", "pattern": "add"}'
        made = await at.status("POST", "/api/rules", content=content, headers=headers)
        key = await at.make_link("adam")
        content = f'{{"key": "{key}"}}'.encode()
        entered = await at.status("POST", "/sign-in", content=content, headers=headers)
    assert (made, entered) == (415, 415)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_another_site_embeds_gets_nothing(site: str, tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        cookie = await at.enter("adam", "administer")
        headers = {**cookie, "Sec-Fetch-Site": site}
        assert await at.status("GET", "/api/calls", headers=headers) == 403
        opened = {**cookie, "Sec-Fetch-Site": "none"}
        assert await at.status("GET", "/api/calls", headers=opened) == 200


@pytest.mark.parametrize("headers", FOREIGN)
async def test_nobody_is_signed_in_or_out_by_another_page(
    headers: dict[str, str], tmp_path: Path
) -> None:
    async with office(tmp_path) as at:
        key = await at.make_link("mallory", "call")
        refused = await at.client.post("/sign-in", json={"key": key}, headers=headers)
        cookie = await at.enter("ann", "call")
        kept = await at.client.post("/sign-out", json={}, headers={**cookie, **headers})
        still = await at.status("GET", "/api/me", headers=cookie)
        # The link was not used up.
        used = await at.sign_in(key)
    assert refused.status_code == kept.status_code == 403
    assert "set-cookie" not in refused.headers and "set-cookie" not in kept.headers
    assert (still, used.status_code) == (200, 200)


async def test_a_page_under_another_host_name_gets_nothing(tmp_path: Path) -> None:
    async with office(tmp_path, hosts=["tools.example"]) as at:
        key = await at.make_link("ann", "approve")
        rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert (await at.sign_in(key, **rebound)).status_code == 421
        cookie = await at.enter("bob", "approve")
        assert await at.status("GET", "/api/calls", headers={**cookie, **rebound}) == 421
        ours = {"Host": "tools.example", "Origin": "http://tools.example"}
        assert (await at.sign_in(key, **ours)).status_code == 200


async def test_a_session_is_for_the_api_and_never_for_mcp(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        cookie = await at.enter("ann", "call", "approve", "administer")
        headers = {**cookie, **OWN, "Sec-Fetch-Site": "same-origin"}
        called = await at.client.post("/mcp", json=LISTING, headers={**MODERN, **headers})
        figures = await at.status("GET", "/metrics", headers=headers)
    assert (called.status_code, figures) == (401, 401)


async def test_a_link_used_twice_or_changed_does_not_sign_in(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        key = await at.make_link("ann", "approve")
        assert (await at.sign_in(key)).status_code == 200
        for wrong in (key, key[:-1], key.upper(), "x", "é" * 50):
            refused = await at.sign_in(wrong)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "bad_link")
            assert "set-cookie" not in refused.headers
        bodies: list[Any] = [{}, {"key": ""}, {"key": 1}, {"key": "x" * 300}, [], {"key": None}]
        for body in bodies:
            answer = await at.client.post("/sign-in", json=body, headers=OWN)
            assert answer.status_code == 422
        for content in (b"", b"{", b"\xff", b"[" * 40_000):
            headers = {**OWN, "Content-Type": "application/json"}
            answer = await at.client.post("/sign-in", content=content, headers=headers)
            assert answer.status_code == 422


async def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        cookie = await at.enter("ann", "approve")
        assert await at.status("GET", "/api/calls", headers=cookie) == 200
        await at.box.store.tokens.revoke("ann")
        assert await at.status("GET", "/api/calls", headers=cookie) == 401
        await at.box.store.tokens.make("ann", ["administer"])
        assert await at.status("GET", "/api/calls", headers=cookie) == 401


async def test_a_session_that_a_page_chose_is_none(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        for value in ("chosen", "wieldy_session_chosen", "", "a=b", '"quoted"', "\x01"):
            headers = {"Cookie": f"wieldy_session={value}"}
            assert await at.status("GET", "/api/me", headers=headers) == 401
        key = await at.make_link("ann", "call")
        answer = await at.sign_in(key, Cookie="wieldy_session=chosen")
        assert "chosen" not in answer.headers["set-cookie"]


async def test_two_cookies_of_one_name_are_not_chosen_between(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        ann = (await at.enter("ann", "call"))["Cookie"]
        mallory = (await at.enter("mallory", "call"))["Cookie"]
        other = {"Cookie": f"theme=dark; {ann}; x=wieldy_session=1"}
        assert await at.status("GET", "/api/me", headers=other) == 200
        for both in (f"{mallory}; {ann}", f"{ann}; __Host-{mallory}"):
            assert await at.status("GET", "/api/me", headers={"Cookie": both}) == 401
        twice = [("Cookie", mallory), ("Cookie", ann)]
        assert await at.status("GET", "/api/me", headers=twice) == 401


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_gateways_of_one_host_have_cookies_of_their_own(scheme: str, tmp_path: Path) -> None:
    names, cookie = {}, ""
    async with office(tmp_path, f"{scheme}://localhost") as at:
        for port, name in (("", "ann"), (":8000", "bob"), (":8001", "cal")):
            page = f"{scheme}://localhost{port}"
            headers = {"Origin": page}
            body = {"key": await at.make_link(name, "call")}
            answer = await at.client.post(f"{page}/sign-in", json=body, headers=headers)
            cookie = answer.headers["set-cookie"].partition(";")[0]
            names[page] = cookie.partition("=")[0]
        # A browser sends the cookies of all ports to each.
        for page, name in zip(names, ("ann", "bob", "cal"), strict=True):
            assert (await at.client.get(f"{page}/api/me")).json()["name"] == name
        out = f"{scheme}://localhost:8000"
        await at.client.post(f"{out}/sign-out", json={}, headers={"Origin": out})
        after = [await at.status("GET", f"{page}/api/me") for page in names]
        at.client.cookies.clear()
        # The cookie of one port is none of another.
        foreign = {"Cookie": cookie}
        other = await at.status("GET", f"{scheme}://localhost/api/me", headers=foreign)
    prefix = "__Host-" if scheme == "https" else ""
    assert [*names.values()] == [f"{prefix}wieldy_session{end}" for end in ("", "_8000", "_8001")]
    assert (after, other) == ([200, 401, 200], 401)


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/api/me", "/api/calls"])
async def test_every_refusal_has_the_form_and_the_headers_of_the_api(
    path: str, tmp_path: Path
) -> None:
    async with office(tmp_path) as at:
        headers = {"Origin": "https://evil.example"}
        refused = await at.client.post(path, json={}, headers=headers)
        rebound = await at.client.post(path, json={}, headers={"Host": "evil.example"})
    for answer, code in ((refused, "not_from_there"), (rebound, "wrong_host")):
        assert answer.json()["error"].keys() == {"code", "message", "hint", "details"}
        assert answer.json()["error"]["code"] == code
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_wrong_token_is_not_made_good_by_a_cookie(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        cookie = await at.enter("ann", "call")
        for wrong in ("Bearer wrong", "Basic YTpi", ""):
            headers = {**cookie, "Authorization": wrong}
            assert await at.status("GET", "/api/me", headers=headers) == 401


async def test_whoever_signs_in_with_another_link_leaves_the_session_before(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as at:
        cookie = await at.enter("ann", "call")
        assert (await at.sign_in(await at.make_link("bob", "call"), **cookie)).status_code == 200
        at.client.cookies.clear()
        assert await at.status("GET", "/api/me", headers=cookie) == 401


async def test_a_caller_sees_nothing_of_others_in_the_console(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        cal, bob = await at.enter("cal", "call"), await at.enter("bob", "call")
        made = await at.client.post("/api/calls", json=WIPE, headers={**cal, **OWN})
        call_id = made.json()["call_id"]
        for path in (f"calls/{call_id}", f"pending/{call_id}", f"calls/{call_id}/raw/arguments"):
            assert await at.status("GET", f"/api/{path}", headers=bob) == 404
            assert await at.status("GET", f"/api/{path}", headers=cal) == 200
        for path in ("calls", "pending", "sessions", "runs", "artifacts"):
            listed = (await at.client.get(f"/api/{path}", headers=bob)).json()
            assert call_id not in str(listed)
        for path in ("rules", "modes", "lock-changes"):
            assert await at.status("GET", f"/api/{path}", headers=bob) == 403
        own = f"/api/pending/{call_id}/approve"
        assert await at.status("POST", own, json={}, headers={**cal, **OWN}) == 403


async def test_what_a_gateways_file_says_of_a_name_holds_for_its_session(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    tables = {"ann": CallerTable(roles=["call"], view="sums")}
    kept = KeptTokens(box.store)
    options: dict[str, Any] = {
        "identifiers": [NamedCallers(kept, tables)],
        "views": {"sums": box.view(tags=["sums"])},
    }
    async with http(app(box, **options)) as client:
        at = Office(box, client)
        cookie = await at.enter("ann", "call", "administer")
        me = (await client.get("/api/me", headers=cookie)).json()
        tools = (await client.get("/api/tools", headers=cookie)).json()["tools"]
    await box.close()
    assert (me["roles"], me["view"]) == (["call"], "sums")
    assert [tool["name"] for tool in tools] == ["add"]


async def test_no_key_comes_into_a_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with office(tmp_path) as at:
        key = await at.make_link("ann", "call")
        answer = await at.sign_in(key)
        again = await at.sign_in(key)
        await at.client.get("/api/me")
    session = answer.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert session not in caplog.text and key not in caplog.text
    assert key not in again.text and key not in answer.text


class Issuer:
    """Knows the tokens of programs, as an OAuth issuer does."""

    async def identify(self, token: str) -> Identity | None:
        """Nobody."""
        return None


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": {"ann": "secret-of-ann"}},
        {"identifiers": [NamedCallers(Issuer(), {})]},
    ],
)
async def test_where_no_links_are_made_nobody_signs_in(
    options: dict[str, Any], tmp_path: Path
) -> None:
    async with office(tmp_path, stored_tokens=False, **options) as at:
        answer = await at.sign_in("anything")
        cookie = {"Cookie": "wieldy_session=anything"}
        me = await at.status("GET", "/api/me", headers=cookie)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_sign_in")
    assert me == 401


async def test_where_no_token_is_needed_a_session_that_has_ended_is_nobody(tmp_path: Path) -> None:
    async with office(tmp_path, stored_tokens=False) as at:
        cookie = {"Cookie": "wieldy_session=anything"}
        over = (await at.client.get("/api/me", headers=cookie)).json()
        key = await at.make_link("ann", "approve")
        signed = await at.sign_in(key)
        known = (await at.client.get("/api/me")).json()
        foreign = await at.status("GET", "/api/me", headers={"sec-fetch-site": "cross-site"})
    assert (over["name"], over["roles"], over["reads_all"]) == (None, ["call"], True)
    assert (signed.status_code, known["name"], known["roles"]) == (200, "ann", ["approve"])
    assert foreign == 403


async def test_guessed_links_are_limited_like_tokens(tmp_path: Path) -> None:
    async with office(tmp_path) as there:
        good = await there.make_link("ann", "approve")
        tried = [(await there.sign_in(f"guess-{n}")).status_code for n in range(MAX_WRONG + 2)]
        assert (tried.count(403), tried[-2:]) == (MAX_WRONG, [429, 429])
        refused = await there.sign_in(good)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_tries")


async def test_the_store_knows_a_session_that_has_ended_from_one_that_never_was(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as there:
        sign_ins = there.box.store.sign_ins
        begun = await sign_ins.use_link(await there.make_link("ann", "approve"))
        assert begun is not None
        soon = 1e-6
        link = await there.make_link("ann")
        assert await sign_ins.use_link(link, seconds=soon) is None, "it ends at once"
        await sign_ins.use_link(await there.make_link("ann"))
        assert await sign_ins.had_session(begun.key)
        assert not await sign_ins.had_session("wieldy_session_guess")
