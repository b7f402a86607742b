"""Signing in and out in a real browser."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import expect

from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import make_tools, run_beside, serve_console
from wieldy import Toolbox

pytestmark = pytest.mark.asyncio(loop_scope="session")


def make_links(folder: Path, *names: str) -> list[str]:
    """Keys of links for people with the role approve, made beside the server."""
    keys: list[str] = []

    async def make() -> None:
        async with Toolbox(store=f"sqlite:///{folder}/calls.db") as box:
            for name in names:
                await box.store.tokens.make(name, ["approve"])
                keys.append(await box.store.sign_ins.make_link(name))

    # The thread of the test has a loop that runs.
    run_beside(lambda: anyio.run(make)).join()
    return keys


async def test_a_link_signs_in_once_and_signing_out_shows_nothing_any_more(
    tmp_path: Path, open_page: OpenPage
) -> None:
    [key] = make_links(tmp_path, "ann")
    options: dict[str, Any] = {"identifiers": [], "stored_tokens": True}
    with serve_console(make_tools(tmp_path), **options) as gateway:
        stranger = await open_page(gateway, "/inbox", who=None)
        await expect(stranger.get_by_text("wieldy token link NAME")).to_be_visible()
        await expect(stranger.get_by_role("navigation")).to_have_count(0)

        page = await open_page(gateway, f"/sign-in#{key}", who=None)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
        await expect(page.locator(".who")).to_have_text("ann")
        # The key is not in the history, and no script can read the cookie.
        assert key not in await page.evaluate("location.href + document.cookie")
        other = await page.context.new_page()
        await other.goto(f"{gateway.url}/rules")
        await expect(other.get_by_role("heading", level=1)).to_have_text("Rules and modes")

        again = await open_page(gateway, f"/sign-in#{key}", who=None)
        await expect(again.get_by_role("alert")).to_contain_text("The link was used")

        await page.get_by_role("button", name="Sign out").click()
        for each in (page, other):
            await expect(each.get_by_role("heading", level=1)).to_have_text("Sign in")
