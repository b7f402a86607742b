"""The inbox in a real browser: nothing is allowed that the person has not seen or meant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")
LONG = "/srv/" + "x" * 30_000
MAIL = {"to": "ann@example.com", "text": "Shall we?"}


def detail(page: Page) -> Any:
    """The open call."""
    return page.locator(".inbox-detail")


def approve_button(page: Page) -> Any:
    """The button that approves the open call."""
    return detail(page).get_by_role("button", name="Approve", exact=True)


@asynccontextmanager
async def held_requests(page: Page, pattern: str) -> AsyncIterator[None]:
    """Let requests for an address wait as long as this is open."""
    done = asyncio.Event()

    async def hold(route: Route) -> None:
        await done.wait()
        await route.continue_()

    await page.route(pattern, hold)
    yield
    done.set()


async def test_a_rule_from_a_long_call_is_bound_to_all_of_its_arguments(
    fresh: Gateway, open_page: OpenPage
) -> None:
    fresh.call("wipe", {"path": LONG})
    page = await open_page(fresh, "/inbox")
    # What was cut is JSON already, and is not written as JSON once more.
    await expect(page.locator(".inbox-preview")).to_contain_text('{"path": "/srv/')

    # Without all of the arguments there is no rule.
    await page.route("**whole=true", lambda route: route.fulfill(status=404, json={}))
    await page.keyboard.press("r")
    await expect(detail(page).get_by_role("alert")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.unroute("**whole=true")
    await page.keyboard.press("r")
    await expect(page.get_by_label("Pattern for path")).to_have_value(LONG)
    await page.get_by_role("button", name="Make the rule").click()
    await expect(detail(page)).to_contain_text("Approved by you")

    paths = (LONG, LONG + "y", "/etc")
    states = [fresh.state_of(fresh.call("wipe", {"path": path})) for path in paths]
    assert states == ["ok", "pending", "pending"]


async def test_nobody_approves_from_the_beginning_of_the_arguments(
    fresh: Gateway, open_page: OpenPage
) -> None:
    call_id = fresh.call("wipe", {"path": LONG + "/../../etc"})
    page = await open_page(fresh, "/inbox")
    await expect(detail(page)).to_contain_text("Show all of it to approve")
    await expect(approve_button(page)).to_be_disabled()
    await page.keyboard.press("a")
    assert fresh.state_of(call_id) == "pending"

    await detail(page).get_by_role("button", name="Show all of it").click()
    await approve_button(page).click()
    await expect(detail(page)).to_contain_text("Approved by you")


async def test_no_button_moves_to_where_the_person_aims_at_another(
    fresh: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(fresh, "/rules")
    fresh.call("wipe", {"path": LONG})
    names = ("Approve", "Edit", "Deny")
    buttons = [detail(page).get_by_role("button", name=each) for each in names]

    async def places() -> list[float]:
        boxes = [await each.bounding_box() for each in buttons]
        return [box["x"] for box in boxes if box is not None]

    async with held_requests(page, "**/api/pending/*"):
        await page.get_by_role("link", name="Inbox").click()
        await expect(detail(page)).to_contain_text("Reading all of it")
        while_reading = await places()
    await expect(buttons[1]).to_be_enabled()
    of_the_beginning = await places()
    await detail(page).get_by_role("button", name="Show all of it").click()
    await expect(buttons[0]).to_be_enabled()

    assert while_reading == of_the_beginning == await places()
    assert len(while_reading) == len(names)


async def test_what_a_rule_cannot_be_bound_to_has_to_be_ticked(
    fresh: Gateway, open_page: OpenPage
) -> None:
    fresh.call("send_mail", {**MAIL, "copies": ["bob@example.com"]})
    page = await open_page(fresh, "/inbox")
    await page.keyboard.press("r")
    make = page.get_by_role("button", name="Make the rule")
    await make.click()
    assert fresh.send("adam", "GET", "/rules")["rules"] == []

    await page.get_by_label("Allow any value of: copies").check()
    await make.click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    # An argument that the call left out is bound to its default.
    given = ({"copies": ["eve@example.com"]}, {"urgent": True}, {"priority": "high"})
    states = [fresh.state_of(fresh.call("send_mail", {**MAIL, **each})) for each in given]
    assert states == ["ok", "pending", "pending"]


async def test_a_key_after_g_never_decides(gateway: Gateway, open_page: OpenPage) -> None:
    page = await open_page(gateway, "/inbox")
    await expect(detail(page).get_by_role("button", name="Deny")).to_be_visible()
    for key in "xdre":
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page.get_by_role("dialog")).to_have_count(0)
        if key == "r":
            await expect(page.get_by_role("heading", level=1)).to_have_text("Rules and modes")
            await page.keyboard.press("g")
            await page.keyboard.press("i")
            await expect(detail(page).get_by_role("button", name="Deny")).to_be_visible()
    await expect(page.locator(".inbox-row input:checked")).to_have_count(0)
    for key, title in (("a", "Artifacts"), ("p", "Plots")):
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page.get_by_role("heading", level=1)).to_have_text(title)
    assert len(gateway.send("adam", "GET", "/pending")["pending"]) == 3


async def test_nothing_is_approved_before_all_of_the_call_is_there(
    fresh: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(fresh, "/rules")
    ids = [fresh.call("wipe", {"path": path}) for path in ("a" * 300, LONG)]
    async with held_requests(page, "**/api/pending/*"):
        await page.get_by_role("link", name="Inbox").click()
        await expect(detail(page)).to_contain_text("Reading all of it")
        await page.keyboard.press("a")
        await expect(approve_button(page)).to_be_disabled()
        await page.keyboard.press("x")
        await page.keyboard.press("a")
        bulk = page.locator(".inbox-bulk").get_by_role("button", name="Approve")
        await expect(bulk).to_be_disabled()
        await expect(page.get_by_role("dialog")).to_have_count(0)
    # Several calls are approved after a look at all of their arguments.
    await expect(page.get_by_role("dialog")).to_contain_text("a" * 300)
    await page.keyboard.press("Escape")
    await page.keyboard.press("x")

    await page.keyboard.press("j")
    await expect(detail(page).get_by_role("button", name="Show all of it")).to_be_visible()
    async with held_requests(page, "**/api/pending/*whole=true"):
        await page.keyboard.press("e")
        await expect(approve_button(page)).to_have_count(0)
        await page.keyboard.type("adrxj")
    await expect(page.get_by_role("button", name="Approve with these arguments")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.locator(".inbox-row input:checked")).to_have_count(0)
    assert [fresh.state_of(each) for each in ids] == ["pending", "pending"]


async def test_a_denial_that_comes_second_is_told_while_it_is_written(
    fresh: Gateway, open_page: OpenPage
) -> None:
    call_id = fresh.call("wipe", {"path": "a"})
    page = await open_page(fresh, "/inbox")
    await page.keyboard.press("d")
    await asyncio.to_thread(fresh.send, "ann", "POST", f"/pending/{call_id}/approve", {})

    asked = page.get_by_role("dialog")
    await expect(asked).to_contain_text("Approved by ann")
    await expect(asked.get_by_role("button", name="Deny")).to_be_disabled()


async def test_a_problem_of_an_outage_goes_with_it(fresh: Gateway, open_page: OpenPage) -> None:
    fresh.call("wipe", {"path": "a"})
    page = await open_page(fresh, "/inbox")
    await page.route("**/api/events", lambda route: route.fulfill(status=429, json={}))
    await page.route("**/approve", lambda route: route.abort())
    await page.reload()
    await expect(page.get_by_text("Too many connections are open")).to_be_visible()
    await expect(approve_button(page)).to_be_enabled()
    await page.keyboard.press("a")
    await expect(detail(page).get_by_role("alert")).to_contain_text("can't be reached")

    await page.unroute("**/api/events")
    await expect(page.get_by_text("The server answers again")).to_be_visible()
    await expect(detail(page).get_by_role("alert")).to_have_count(0)
    await expect(approve_button(page)).to_be_enabled()
