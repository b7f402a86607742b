"""Every page for everybody: axe-core, the width of a phone, the keyboard, pictures of the pages."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from tests.server.console.axe_check import find_faults
from tests.server.console.conftest import WINDOW, OpenPage, visit
from tests.server.console.pages.page_box import PageGateway

pytestmark = pytest.mark.asyncio(loop_scope="session")
PHONE: Any = {"width": 360, "height": 640}
PATHS = {
    # A list of few calls has everything that one of many has.
    "calls": "/calls?caller=cal&tool=count",
    "call": "/calls/{hostile}",
    "running": "/calls/{count}",
    "plots": "/plots?span=1h",
    "tools": "/tools",
    "tool": "/tools/send_mail",
    "servers": "/servers",
    "artifacts": "/artifacts",
    "artifact": "/artifacts/notes?session=cal&old=1&new=2",
    "runs": "/runs",
    "run": "/runs/{run}",
}


@pytest.fixture(scope="module")
def shown(pages: PageGateway) -> PageGateway:
    """The console with something to see on each page."""
    pages.call("artifact_create", {"id": "notes", "title": "Notes", "content": "one\ntwo\n"})
    pages.call("artifact_rewrite", {"artifact": "notes", "content": "one\nthree\n"})
    pages.made["hostile"] = pages.call("hostile")
    body = {"tool": "count", "arguments": {"to": 3, "lane": "access"}, "wait": 1}
    pages.made["count"] = pages.send("cal", "POST", "/calls", body)["call_id"]
    pages.steps.take(1, "access")
    return pages


async def test_axe_finds_nothing_serious_and_nothing_is_too_wide(
    shown: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(shown, "/tools", reduced_motion="reduce")
    for name, path in PATHS.items():
        await visit(page, path.format(**shown.made))
        await expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert await find_faults(page) == [], name
        await page.set_viewport_size(PHONE)
        await page.emulate_media(color_scheme="dark")
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        assert await find_faults(page) == [], name
        await page.set_viewport_size(WINDOW)
        await page.emulate_media(color_scheme="light")


async def test_lists_are_used_by_keyboard(shown: PageGateway, open_page: OpenPage) -> None:
    page = await open_page(shown, "/tools")
    await page.keyboard.press("/")
    await page.keyboard.type("mail")
    await expect(page.locator("main tbody th").first).to_have_text("send_mail")
    await page.keyboard.press("Tab")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await expect(page.get_by_role("link", name="send_mail")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("send_mail")


async def test_plots_have_the_same_figures_as_tables(
    shown: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(shown, "/plots?span=6h&tool=search")
    plots = page.get_by_role("img")
    await expect(plots).to_have_count(3)
    assert "99th percentile" in (await plots.nth(1).get_attribute("aria-label") or "")
    await page.get_by_text("As a table").first.click()
    rows = page.locator("figure").first.locator("tbody tr")
    await expect(rows.nth(50)).to_be_attached()
    bars = page.locator("figure").first.locator("rect.plot-calls")
    assert await bars.count() == await rows.count()

    await page.get_by_label("Period").select_option("1h")
    await expect(page).to_have_url(f"{shown.url}/plots?span=1h&tool=search")
    by_tool = page.locator("section", has=page.get_by_role("heading", name="By tool"))
    await expect(by_tool.locator("tbody th")).to_have_text(["search"])
    figures = {
        "Failures": r"^\d+ \(\d+\.\d %\)$",
        "Median": "ms|s$",
        "99th percentile": "ms|s$",
        "Cost": r"^\d",
    }
    for label, pattern in figures.items():
        cell = by_tool.locator(f"td[data-label='{label}']")
        await expect(cell).to_have_text(re.compile(pattern))


async def test_callers_see_plots_of_their_own_calls(
    shown: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(shown, "/plots", who="bob")
    by_caller = page.locator("section", has=page.get_by_role("heading", name="By caller"))
    await expect(by_caller.locator("tbody th")).to_have_text(["bob"])
    await expect(page.get_by_label("Caller")).to_have_count(0)
