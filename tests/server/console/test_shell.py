"""The shell of the console in a real browser: navigation, language, colours, keys, connection."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, expect

from tests.server.console.conftest import OpenPage, visit
from tests.server.console.served_console import Gateway, make_tools, serve_console
from wieldy.server.console.console_routes import read_assets

pytestmark = pytest.mark.asyncio(loop_scope="session")
# What would make markup or code of a text.
UNSAFE = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc=|"
    r"\.style\.cssText|setAttribute\(\s*[\"']style|https?://(?!www\.w3\.org/2000/svg)"
)
PAGES = ("/inbox", "/calls", "/plots", "/tools", "/servers", "/artifacts", "/runs", "/rules")


def heading(page: Page) -> Any:
    """The heading of the page."""
    return page.get_by_role("heading", level=1)


async def test_pages_are_reached_by_links_and_by_their_address(
    gateway: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(gateway, "/")
    await expect(heading(page)).to_have_text("Inbox")

    await page.get_by_role("link", name="Rules and modes").click()
    await expect(heading(page)).to_have_text("Rules and modes")
    # Whoever can't see that the page has changed hears its heading.
    await expect(heading(page)).to_be_focused()
    await expect(page).to_have_title("(3) Rules and modes · Wieldy")
    assert page.url == f"{gateway.url}/rules"

    await page.reload()
    await expect(heading(page)).to_have_text("Rules and modes")
    await page.go_back()
    await expect(heading(page)).to_have_text("Inbox")
    await page.goto(f"{gateway.url}/calls/a/b/c")
    await expect(heading(page)).to_have_text("There is no such page.")


async def test_the_language_and_the_colours_are_chosen_and_stay(
    gateway: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(gateway, "/rules", color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert await page.evaluate(ground) == "rgb(18, 21, 26)"

    await page.get_by_role("button", name="Settings").click()
    await page.get_by_label("Colours").select_option("Light")
    assert await page.evaluate(ground) == "rgb(245, 246, 248)"
    await page.get_by_label("Language").select_option("中文")
    await expect(heading(page)).to_have_text("规则与模式")
    await page.reload()

    await expect(heading(page)).to_have_text("规则与模式")
    assert await page.evaluate("document.documentElement.lang") == "zh-Hans"
    assert await page.evaluate(ground) == "rgb(245, 246, 248)"


async def test_everything_is_reached_by_keys(gateway: Gateway, open_page: OpenPage) -> None:
    page = await open_page(gateway, "/inbox")

    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("Next call")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.type("gr")
    await expect(heading(page)).to_have_text("Rules and modes")
    # The first stop of the Tab key leads past the navigation.
    await page.reload()
    await page.wait_for_selector("main:not([aria-busy]) h1")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.keyboard.press("Tab")
    focused = "getComputedStyle(document.activeElement).outlineStyle"
    assert await page.evaluate(focused) == "solid"


async def test_at_phone_width_everything_is_reached_and_nothing_is_cut_off(
    gateway: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(gateway, "/inbox", viewport={"width": 360, "height": 740})
    await page.get_by_role("button", name="Menu").click()
    await page.get_by_role("link", name="Rules and modes").click()
    await expect(heading(page)).to_have_text("Rules and modes")
    await expect(page.get_by_role("link", name="Inbox", exact=True)).to_be_hidden()

    for path in PAGES:
        await visit(page, path)
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, path
    await visit(page, "/inbox")
    await page.locator(".inbox-open").first.click()
    await expect(page.get_by_role("button", name="Approve")).to_be_in_viewport()
    await page.get_by_role("button", name="All calls").click()
    await expect(page.locator(".inbox-open").first).to_be_visible()


async def test_somebody_without_a_role_sees_nothing(gateway: Gateway, open_page: OpenPage) -> None:
    page = await open_page(gateway, "/", who="nora")
    asked: list[str] = []
    page.on("request", lambda each: asked.append(each.url))
    await expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(0)
    await page.reload()
    for path in (*PAGES, "/tools/wipe", "/servers/shop", "/artifacts/x", "/runs/x", "/calls/x"):
        await visit(page, path)
        await expect(page.get_by_text("Your roles: none.")).to_be_visible()
    told = {url for url in asked if "/api/" in url}
    assert told == {f"{gateway.url}/api/me"}


async def test_after_a_restart_of_the_server_nothing_is_missed(
    tmp_path: Path, open_page: OpenPage
) -> None:
    with serve_console(make_tools(tmp_path)) as before:
        port = int(before.url.rpartition(":")[2])
        denied = before.call("wipe", {"path": "before"})
        page = await open_page(before, "/inbox", who="ann")
        await expect(page.locator(".inbox-row")).to_have_count(1)
    banner = page.locator(".banner")
    await expect(banner).to_contain_text("The server does not answer.")
    # Another process on the same store goes on while this page is alone.
    with serve_console(make_tools(tmp_path)) as between:
        between.send("amy", "POST", f"/pending/{denied}/deny", {"reason": "Meanwhile."})
        between.call("wipe", {"path": "between"})

    with serve_console(make_tools(tmp_path), port=port) as after:
        await expect(banner).to_contain_text("The server answers again.")
        await expect(page.locator(".inbox-row")).to_have_count(2)
        await expect(page.locator(".inbox-row").first).to_contain_text("Denied by amy")
        await expect(page.locator(".inbox-row").last).to_contain_text("between")
        await asyncio.to_thread(after.call, "wipe", {"path": "after"})
        await expect(page.locator(".inbox-row").last).to_contain_text("after")
    open_page.wrong = [each for each in open_page.wrong if "net::" not in each]


async def test_one_tab_listens_for_all_and_another_takes_over(
    fresh: Gateway, open_page: OpenPage
) -> None:
    first = await open_page(fresh, "/inbox")
    await expect(first.locator(".dot.up")).to_be_visible()
    context: BrowserContext = first.context
    streams: list[str] = []
    context.on("request", lambda each: streams.append(each.url) if "/events" in each.url else None)
    tabs = [await context.new_page() for _ in range(7)]
    for tab in tabs:
        await tab.goto(f"{fresh.url}/inbox")
    await asyncio.to_thread(fresh.call, "wipe", {"path": "one"})
    for tab in tabs:
        await expect(tab.locator(".inbox-row")).to_have_count(1)
    assert streams == []

    await first.close()
    await asyncio.to_thread(fresh.call, "wipe", {"path": "two"})
    for tab in tabs:
        await expect(tab.locator(".inbox-row")).to_have_count(2)
    assert len(streams) == 1


async def test_no_file_of_the_console_makes_markup_or_code_of_a_text() -> None:
    for name, asset in read_assets().items():
        assert re.findall(UNSAFE, asset.content.decode()) == [], name


async def test_lists_say_what_they_leave_out_and_that_there_is_nothing(
    gateway: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(gateway, "/servers")
    await expect(page.get_by_text("There are no MCP servers")).to_be_visible()

    await visit(page, f"/calls?state=<b>x&search={'x' * 999}")
    await expect(page.get_by_text("it can't be chosen: <b>x")).to_be_visible()
    await expect(page.get_by_label("State")).to_have_value("")
    await expect(page.get_by_label("Search")).to_have_value("x" * 200)
    await expect(page.get_by_text("There is nothing here.")).to_be_visible()


# Output comes in two pieces, with somebody at the end of it and then further up.
SCROLLED = """async () => {
  const { showProgress } = await import("/console/call_progress.js");
  const box = document.querySelector("main").appendChild(document.createElement("div"));
  const tell = (count) => showProgress(box, { progress: null, output: "a\\n".repeat(count) }, 200);
  const isAtEnd = () => tail.scrollHeight - tail.scrollTop - tail.clientHeight < 5;
  tell(100);
  const tail = box.querySelector("pre");
  tail.focus();
  const ends = [isAtEnd()];
  tell(120);
  ends.push(isAtEnd());
  tail.scrollTop = 40;
  tell(140);
  return [...ends, tail.scrollTop, document.activeElement === tail];
}"""


async def test_the_output_of_a_call_is_followed_unless_somebody_scrolled_up(
    gateway: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(gateway, "/tools")

    assert await page.evaluate(SCROLLED) == [True, True, 40, True]
