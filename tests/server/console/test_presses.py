"""The console in a real browser: what is pressed stays until it has had its click."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Locator, Page, expect

from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import Gateway
from tests.server.console.test_inbox_safety import held_requests

pytestmark = pytest.mark.asyncio(loop_scope="session")
# What another tab tells that reads the events.
TELL = """told => {
  const channel = new BroadcastChannel("wieldy-events");
  told.forEach(([name, data]) => channel.postMessage({ name, data }));
}"""


def detail(page: Page) -> Locator:
    """The open call."""
    return page.locator(".inbox-detail")


async def press(page: Page, element: Locator) -> None:
    """Press the mouse there, and hold it."""
    await element.hover()
    await page.mouse.down()


async def settle(page: Page) -> None:
    """Wait until what has come to the page could have been drawn."""
    await page.evaluate("fetch('/api/me').then(answer => answer.text())")


@asynccontextmanager
async def list_that_comes(page: Page, pattern: str) -> AsyncIterator[None]:
    """While this is open, a list is read anew; at its end it has come."""
    async with page.expect_response(pattern), held_requests(page, pattern):
        async with page.expect_request(pattern):
            await page.evaluate(TELL, [["reset", {}]])
        yield
    await settle(page)


@pytest.mark.parametrize("by", ["mouse", "space"])
async def test_what_is_pressed_in_the_inbox_is_not_replaced_by_a_list_that_comes(
    by: str, fresh: Gateway, open_page: OpenPage
) -> None:
    ids = [fresh.call("wipe", {"path": path}) for path in "ab"]
    page = await open_page(fresh, "/inbox")
    row = page.locator(f"[data-call='{ids[1]}']")
    async with list_that_comes(page, "**/api/pending?*"):
        if by == "mouse":
            await press(page, row.get_by_role("link"))
        else:
            await row.get_by_role("checkbox").focus()
            await page.keyboard.down(" ")
    if by == "mouse":
        await page.mouse.up()
        await expect(row.get_by_role("link")).to_have_attribute("aria-current", "true")
    else:
        await page.keyboard.up(" ")
        await expect(row.get_by_role("checkbox")).to_be_checked()


async def test_a_press_on_approve_counts_while_the_connection_comes_back(
    fresh: Gateway, open_page: OpenPage
) -> None:
    call_id = fresh.call("wipe", {"path": "a"})
    page = await open_page(fresh, "/inbox")
    approve = detail(page).get_by_role("button", name="Approve")
    await page.route("**/approve", lambda route: route.abort())
    await approve.click()
    await expect(detail(page).get_by_role("alert")).to_be_visible()
    await page.unroute("**/approve")

    await press(page, approve)
    await page.evaluate(TELL, [["connection", {"up": up}] for up in (False, True)])
    await settle(page)
    await page.mouse.up()

    await expect(detail(page)).to_contain_text("Approved by you")
    assert fresh.state_of(call_id) == "ok"


async def test_a_release_that_nobody_tells_holds_the_page_for_a_moment_only(
    fresh: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(fresh, "/inbox")
    await expect(page.locator(".dot.up")).to_be_visible()
    await page.mouse.down()
    await asyncio.to_thread(fresh.call, "wipe", {"path": "a"})
    await expect(page.locator(".inbox-row")).to_have_count(1)


async def test_buttons_for_several_calls_say_how_many_they_mean(
    fresh: Gateway, open_page: OpenPage
) -> None:
    ids = [fresh.call("wipe", {"path": path}) for path in "abc"]
    page = await open_page(fresh, "/inbox")
    bulk = page.locator(".inbox-bulk")
    for name in ("Approve", "Deny"):
        await expect(page.get_by_role("button", name=name)).to_have_count(1)
    await page.get_by_label("Select all").check()
    await bulk.get_by_role("button", name="Approve 3 calls").click()
    await page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    await expect(page.locator(".inbox-row").filter(has_text="Approved by you")).to_have_count(3)
    assert [fresh.state_of(each) for each in ids] == ["ok"] * 3
