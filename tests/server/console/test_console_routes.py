"""The console's pages and files: what is served, and with which headers."""

import pytest

from tests.server.test_app import ALICE, TOKENS, http, make_box
from wieldy.server import app
from wieldy.server.console.console_routes import read_assets

PAGES = ("/", "/inbox", "/calls", "/calls/call_1", "/calls/a/b", "/tools/x%2Fy", "/sign-in")
MAX_BYTES = 90_000
MAX_AS_FILES = 220_000


@pytest.mark.parametrize("path", [*PAGES, "/console/index.html"])
async def test_every_page_is_shown_to_anybody_and_may_load_nothing_from_elsewhere(
    path: str,
) -> None:
    async with http(app(make_box(), TOKENS)) as client:
        page = await client.get(path)

    policy = page.headers["content-security-policy"]
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-frame-options"] == "DENY"


async def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    async with http(app(make_box(), TOKENS)) as client:
        first = await client.get("/console/index.html")
        tag = first.headers["etag"]
        again = await client.get("/console/index.html", headers={"If-None-Match": f'"x", {tag}'})
        other = await client.get("/console/index.html", headers={"If-None-Match": '"x"'})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (other.status_code, other.content) == (200, first.content)


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/none.js",
        "/console/..%2fconsole_routes.py",
        "/console/%2e%2e/console_routes.py",
        "/console/%2fetc/passwd",
    ],
)
async def test_only_the_files_of_the_console_are_served(path: str) -> None:
    async with http(app(make_box(), TOKENS)) as client:
        answer = await client.get(path)

    assert answer.status_code == 404
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_pages_are_not_shown_under_another_host_name_or_to_another_origin() -> None:
    async with http(app(make_box(), TOKENS)) as client:
        rebound = await client.get("/", headers={"Host": "evil.example"})
        foreign = await client.get("/", headers={"Origin": "https://evil.example"})

    assert (rebound.status_code, foreign.status_code) == (421, 403)


@pytest.mark.parametrize(
    "path", ["/mcp", "/api/calls", "/api/me", "/metrics", "/callsx", "/sessions", "/webhooks"]
)
async def test_what_is_not_a_page_still_needs_a_token(path: str) -> None:
    async with http(app(make_box(), TOKENS)) as client:
        answer = await client.get(path)
        known = await client.get(path, headers=ALICE)

    assert answer.status_code == 401
    assert known.status_code != 401


async def test_pages_are_only_read() -> None:
    async with http(app(make_box(), TOKENS)) as client:
        assert (await client.post("/calls", json={})).status_code == 405


async def test_the_console_is_small_as_it_is_sent() -> None:
    names = read_assets()
    async with http(app(make_box(), TOKENS)) as client:
        sizes = [
            int((await client.head(f"/console/{name}")).headers["content-length"]) for name in names
        ]

    assert sum(sizes) <= MAX_BYTES
    # Much of a file is what people read: names, comments and line breaks.
    assert sum(len(each.content) for each in names.values()) <= MAX_AS_FILES


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("br, GZIP;q=0.5", "gzip"),
        ("identity", None),
        ("gzip;q=0", None),
        ("gzip; q=0.0, br", None),
        ("", None),
    ],
)
async def test_a_file_is_sent_packed_to_a_browser_that_takes_it(
    accepted: str, encoding: str | None
) -> None:
    async with http(app(make_box(), TOKENS)) as client:
        answer = await client.get("/console/main.js", headers={"Accept-Encoding": accepted})

    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.content == read_assets()["main.js"].content
