"""Pictures of every page, for the documentation; and axe-core on the inbox, rules and sign-in."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from tests.server.console.axe_check import find_faults
from tests.server.console.conftest import OpenPage, visit
from tests.server.console.pages.page_box import PageGateway

pytestmark = pytest.mark.asyncio(loop_scope="session")
# `WIELDY_IMAGES=docs/images` puts the pictures where the documentation shows them.
IMAGES = os.environ.get("WIELDY_IMAGES")
DOCS = Path(__file__).parents[4] / "docs"
STILL: Any = {"reduced_motion": "reduce"}
RULES: list[Any] = [
    {"verdict": "deny", "pattern": "wipe", "where": {"path": "/etc/**"}, "reason": "In use."},
    {"verdict": "allow", "pattern": "send_mail", "where": {"to": "*@example.com"}, "caller": "bob"},
    {"verdict": "ask", "pattern": "artifact_*", "session": "night", "expires_in": 86400},
]


def make_paths(gateway: PageGateway) -> dict[str, str]:
    """The address of each page by the name of its picture."""
    [call] = gateway.send("adam", "GET", "/calls?tool=report&limit=1")["calls"]
    report = call["call_id"]
    return {
        "inbox": "/inbox",
        "calls": "/calls",
        "call": f"/calls/{report}",
        "plots": "/plots?span=6h",
        "tools": "/tools",
        "tool": "/tools/send_mail",
        "servers": "/servers",
        "artifacts": "/artifacts/menu?session=cal&old=1&new=2",
        "runs": "/runs",
        "run": f"/runs/{gateway.made['run']}",
        "rules": "/rules?tool=wipe",
    }


def _make_changes(pages: PageGateway) -> None:
    """An artifact with two versions."""
    dishes = "# Menu\n\n- soup\n- fish\n- bread\n"
    pages.call("artifact_create", {"id": "menu", "title": "The menu", "content": dishes})
    changed = dishes.replace("- fish\n", "- mushrooms\n- potatoes\n")
    pages.call("artifact_rewrite", {"artifact": "menu", "content": changed})


async def wait_for_rest(page: Page) -> None:
    """Wait until everything of a page is there."""
    await page.wait_for_selector("main:not([aria-busy]) h1")
    await page.wait_for_selector(".dot.up")
    await page.wait_for_load_state("load")


async def test_every_page_has_a_picture_in_the_documentation(
    pages: PageGateway, open_page: OpenPage, tmp_path: Path
) -> None:
    folder = Path(IMAGES) if IMAGES else tmp_path
    rules = [pages.send("adam", "POST", "/rules", rule)["id"] for rule in RULES]
    _make_changes(pages)
    page = await open_page(pages, "/inbox", **STILL)
    for name, path in make_paths(pages).items():
        await visit(page, path)
        await wait_for_rest(page)
        if name == "calls":
            body = {"tool": "count", "arguments": {"to": 4, "lane": "picture"}, "wait": 1}
            pages.send("cal", "POST", "/calls", body)
            pages.steps.take(2, "picture")
            await page.get_by_text("50 %").wait_for()
        if name == "rules":
            await page.locator(".tryout textarea").fill("/etc/hosts")
            await page.get_by_text("It would be denied").wait_for()
        await page.screenshot(path=folder / f"console-{name}.png")
    options: Any = {"color_scheme": "dark", "viewport": {"width": 390, "height": 780}}
    phone = await open_page(pages, "/inbox", **STILL, **options)
    await phone.locator(".inbox-open", has_text="send_mail").first.click()
    await phone.screenshot(path=folder / "console-phone.png")

    pages.steps.take(2, "picture")
    for rule in rules:
        pages.send("adam", "DELETE", f"/rules/{rule}", {})
    made = {each.name for each in folder.glob("console-*.png")}
    assert len(made) == 12
    assert made == {each.name for each in (DOCS / "images").glob("console-*.png")}
    assert all(f"images/{name}" in (DOCS / "console.md").read_text() for name in made)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_in_the_inbox_the_rules_and_their_dialogs(
    pages: PageGateway, open_page: OpenPage, scheme: str
) -> None:
    page = await open_page(pages, "/inbox", color_scheme=scheme, **STILL)
    found = [await find_faults(page)]
    await page.locator(".inbox-open", has_text="send_mail").first.click()
    # The dialogs have the same colours as the pages, so that one of the two schemes is enough.
    for key in ("r", "d", "?") if scheme == "dark" else ():
        await page.keyboard.press(key)
        await page.get_by_role("dialog").wait_for()
        found.append(await find_faults(page))
        await page.keyboard.press("Escape")
    await page.keyboard.press("e")
    await page.get_by_role("button", name="Approve with these arguments").wait_for()
    found.append(await find_faults(page))
    await visit(page, "/rules?tool=wipe")
    await wait_for_rest(page)
    found.append(await find_faults(page))
    await page.get_by_role("button", name="Add a rule").click()
    found.append(await find_faults(page))
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Settings").click()
    found.append(await find_faults(page))

    assert [faults for faults in found if faults] == []


async def test_axe_finds_nothing_serious_where_nobody_is_signed_in(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/inbox", who=None, **STILL)
    await page.get_by_text("wieldy token link NAME").wait_for()

    assert await find_faults(page) == []
