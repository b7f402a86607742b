"""Signing in with a real browser, and what a page of another origin gets from it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from playwright.async_api import Locator, Page, expect

from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import Gateway, make_png, make_tools, serve_console
from wieldy import Toolbox

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Everything that a page can make a browser send, with its cookies.
ATTACK = """<!doctype html><title>attack</title><iframe name="inside"></iframe>
<form method="post" enctype="text/plain" target="inside" action="TARGET/api/calls">
<input name='{"tool": "wipe", "arguments": {"path": "form"}, "x": "' value='"}'></form>
<script>
const send = (path, options) => fetch("TARGET" + path, {credentials: "include", ...options})
  .then((answer) => answer.status, () => "blocked");
const body = JSON.stringify({tool: "forecast", arguments: {city: "there"}});
const json = {"Content-Type": "application/json"};
(async () => {
  document.forms[0].submit();
  const got = [
    await send("/api/calls", {method: "POST", headers: json, body}),
    await send("/api/calls", {method: "POST", mode: "no-cors", body}),
    await send("/api/rules/x", {method: "DELETE"}),
    await send("/sign-out", {method: "POST", mode: "no-cors", body: "{}"}),
    await send("/api/me", {}),
    await send("/api/calls", {mode: "no-cors"}),
  ];
  document.title = "done " + got.join(" ");
})();
</script>"""


@contextmanager
def serve_page(text: str) -> Iterator[int]:
    """The port of a server with one page, of somebody else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def heading(page: Page) -> Locator:
    """The heading of a page."""
    return page.get_by_role("heading", level=1)


@contextmanager
def guarded_console(folder: Path) -> Iterator[tuple[Gateway, str]]:
    """A console whose people have tokens in its store, and the store."""
    with serve_console(make_tools(folder), stored_tokens=True, identifiers=[]) as gateway:
        yield gateway, f"sqlite:///{folder}/calls.db"


async def test_a_link_signs_in_once_and_the_page_lets_go_of_its_key(
    open_page: OpenPage, tmp_path: Path
) -> None:
    with guarded_console(tmp_path) as (gateway, store):
        async with Toolbox(store=store) as box:
            await box.store.tokens.make("ann", ["approve", "call"])
            key = await box.store.sign_ins.make_link("ann")
            stranger = await open_page(gateway, "/inbox", who=None)
            await expect(stranger.get_by_text("wieldy token link NAME")).to_be_visible()
            await expect(stranger.get_by_role("navigation")).to_have_count(0)

            page = await open_page(gateway, f"/sign-in#{key}", who=None)
            await expect(heading(page)).to_have_text("Inbox")
            await expect(page.locator(".who")).to_have_text("ann")
            # The key is not in the history, and no script can read the cookie.
            assert key not in await page.evaluate("location.href + document.cookie")
            [cookie] = await page.context.cookies()
            known = cookie["name"], cookie["httpOnly"], cookie["sameSite"]
            assert known == (f"wieldy_session_{urlsplit(gateway.url).port}", True, "Strict")
            await stranger.goto(f"{gateway.url}/sign-in#{key}")
            await expect(stranger.get_by_role("alert")).to_contain_text("The link was used")
            assert await stranger.context.cookies() == []

            await _draw_and_save(page, gateway)
            await page.get_by_role("button", name="Sign out").click()
            await expect(heading(page)).to_have_text("Sign in")


async def _draw_and_save(page: Page, gateway: Gateway) -> None:
    """Try a tool that draws a picture, and save what it gave."""
    await page.goto(f"{gateway.url}/tools/draw")
    await page.get_by_role("button", name="Call", exact=True).click()
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Save as a file").click()
    saved = await waiting.value
    assert saved.suggested_filename == "block-0.png"
    assert await anyio.Path(await saved.path()).read_bytes() == make_png(64)


async def test_all_tabs_are_signed_out_together_and_when_the_token_is_revoked(
    open_page: OpenPage, tmp_path: Path
) -> None:
    with guarded_console(tmp_path) as (gateway, store):
        async with Toolbox(store=store) as box:
            await box.store.tokens.make("ann", ["approve"])
            keys = [await box.store.sign_ins.make_link("ann") for _ in range(2)]
            page = await open_page(gateway, f"/sign-in#{keys[0]}", who=None)
            await expect(heading(page)).to_have_text("Inbox")
            other = await page.context.new_page()
            await other.goto(f"{gateway.url}/rules")
            await expect(heading(other)).to_have_text("Rules and modes")
            await page.get_by_role("button", name="Sign out").click()
            for each in (page, other):
                await expect(heading(each)).to_have_text("Sign in")

            await page.goto(f"{gateway.url}/sign-in#{keys[1]}")
            await expect(heading(page)).to_have_text("Inbox")
            await box.store.tokens.revoke("ann")
            await page.goto(f"{gateway.url}/calls")
            await expect(page.get_by_text("wieldy token link NAME")).to_be_visible()


async def test_a_page_of_another_origin_does_nothing_with_a_persons_browser(
    open_page: OpenPage, tmp_path: Path
) -> None:
    titles = []
    with guarded_console(tmp_path) as (gateway, store):
        async with Toolbox(store=store) as box:
            await box.store.tokens.make("adam", ["call", "approve", "administer"])
            key = await box.store.sign_ins.make_link("adam")
            page = await open_page(gateway, f"/sign-in#{key}", who=None)
            await page.wait_for_url("**/inbox")
            with serve_page(ATTACK.replace("TARGET", gateway.url)) as port:
                # A browser sends its cookies to the first along with what the page asks for.
                for site in ("127.0.0.1", "localhost"):
                    attack = await page.context.new_page()
                    await attack.goto(f"http://{site}:{port}/")
                    await attack.wait_for_function("document.title.startsWith('done')")
                    titles.append(await attack.title())
                    await attack.close()
            # Whoever is signed in still is, and nothing was called.
            await page.goto(f"{gateway.url}/calls")
            await page.wait_for_selector("main:not([aria-busy]) h1")
            assert "adam" in await page.inner_text("body")
            assert await box.ledger.list() == []
    # No answer can be read: each is kept from the page, or has no status for it.
    assert titles == ["done blocked 0 blocked blocked blocked 0"] * 2
    open_page.wrong.clear()


async def test_a_link_asks_before_it_replaces_whoever_is_signed_in(
    open_page: OpenPage, tmp_path: Path
) -> None:
    with guarded_console(tmp_path) as (gateway, store):
        async with Toolbox(store=store) as box:
            keys = {}
            for name in ("ann", "eve"):
                await box.store.tokens.make(name, ["approve"])
                keys[name] = await box.store.sign_ins.make_link(name)
            page = await open_page(gateway, f"/sign-in#{keys['ann']}", who=None)
            await expect(heading(page)).to_have_text("Inbox")

            await page.goto(f"{gateway.url}/sign-in#{keys['eve']}")
            await expect(page.get_by_text("You are signed in as ann.")).to_be_visible()
            await page.get_by_role("button", name="Go to the inbox").click()
            await expect(page.locator(".who")).to_have_text("ann")

            await page.goto(f"{gateway.url}/sign-in#{keys['ann']}")
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.get_by_role("alert")).to_contain_text("The link was used")
            await expect(page.get_by_role("button", name="Go to the inbox")).to_be_visible()

            # The link of somebody else was not used, and is if the person wants that.
            await page.goto(f"{gateway.url}/inbox")
            await page.goto(f"{gateway.url}/sign-in#{keys['eve']}")
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.locator(".who")).to_have_text("eve")
