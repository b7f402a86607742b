"""Hostile values in the inbox: nothing runs, nothing breaks, nothing hangs."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.server.api.test_path_parts import AWKWARD
from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import Gateway, make_tools, serve_console
from wieldy import Toolbox
from wieldy.server.api.path_parts import write_part

pytestmark = pytest.mark.asyncio(loop_scope="session")
MARKUP = (
    "<script>window.ran=1</script><img src=x onerror='window.ran=2'>"
    "<svg onload=window.ran=3>{{7*7}}${window.ran=4}</bdi></template>javascript:window.ran=5"
)
TURNED = "invoice\u202efdp.exe\u2066\u0000\u200b\u2028\x1b[31m\U000e0041"
NAMES = (
    "<img src=x onerror=window.ran=6>",
    "a/../b?c#d%2F",
    "__proto__",
    "x" * 300,
    "\u202eepiw",
    "..",
    ".",
    "\u200b",
    "x/interrupt",
    "~2E",
)


def deep(levels: int) -> Any:
    """A value of many levels."""
    value: Any = "the bottom"
    for _ in range(levels):
        value = {"inner": value}
    return value


async def check_calm(page: Page) -> None:
    """Fail if something of a value was run, or stands in the page as markup."""
    assert await page.evaluate("window.ran ?? null") is None
    assert await page.locator("main script, main img[src=x], main svg[onload]").count() == 0
    # Nothing is wider than the window, however long a word is.
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A console whose tools and calls are hostile."""
    box = make_tools(tmp_path_factory.mktemp("hostile"))
    for name in NAMES:
        _add_hostile(box, name)
    with serve_console(box) as gateway:
        yield gateway


def _add_hostile(box: Toolbox, name: str) -> None:
    def run(value: Any = None) -> Any:
        return value

    run.__doc__ = f"{MARKUP} {TURNED}"
    box.add(run, name=name, permission="confirm")


async def test_markup_and_hidden_characters_are_shown_as_text(
    hostile: Gateway, open_page: OpenPage
) -> None:
    arguments = {MARKUP: MARKUP, "__proto__": {"polluted": 1}, "turned": TURNED, "": None}
    for name in NAMES:
        hostile.call(name, {"value": arguments})
    page = await open_page(hostile, "/inbox", who="ann")
    await expect(page.locator(".inbox-row")).to_have_count(len(NAMES))

    detail = page.locator(".inbox-detail")
    for _ in NAMES:
        await expect(detail).to_contain_text("<script>window.ran=1</script>")
        await expect(detail).to_contain_text("⟨U+202E⟩fdp.exe⟨U+2066⟩⟨U+0000⟩⟨U+200B⟩")
        await expect(detail).to_contain_text("polluted")
        await page.keyboard.press("j")
    await check_calm(page)
    assert await page.evaluate("({}).polluted ?? null") is None
    # A form of them keeps every key, also those that mean something to JavaScript.
    await page.keyboard.press("e")
    await page.get_by_role("button", name="Approve with these arguments").click()
    await expect(detail).to_contain_text("Approved by you")
    last = hostile.send("adam", "GET", "/calls?state=ok")["calls"][0]
    told = hostile.send("adam", "GET", f"/calls/{last['call_id']}")
    assert told["value"] == {**arguments, "turned": TURNED}
    await check_calm(page)


async def test_a_tool_of_any_name_has_a_page(hostile: Gateway, open_page: OpenPage) -> None:
    page = await open_page(hostile, "/tools")
    # The browser and the server write a name in the same way.
    script = "async names => names.map((await import('/console/api.js')).part)"
    assert await page.evaluate(script, AWKWARD) == [write_part(name) for name in AWKWARD]
    for name in NAMES:
        await page.locator(f'main a[href="/tools/{write_part(name)}"]').click()
        await expect(page.get_by_role("heading", name="Try it")).to_be_visible()
        shown = re.sub("[\u200b\u202e]", lambda each: f"⟨U+{ord(each[0]):04X}⟩", name)
        await expect(page.locator("h1")).to_have_text(shown)
        await page.go_back()
    # A reload asks the server for the address.
    for name in ("..", ".", "x/interrupt"):
        await page.goto(f"{hostile.url}/tools/{write_part(name)}")
        await expect(page.locator("h1")).to_have_text(name)


async def test_hostile_people_rules_and_reasons_are_shown_as_text(
    hostile: Gateway, open_page: OpenPage
) -> None:
    rule = {"verdict": "ask", "pattern": "w*", "where": {"path": f"{MARKUP[:200]}*"}}
    hostile.send("adam", "POST", "/rules", {**rule, "reason": MARKUP + TURNED})
    page = await open_page(hostile, f"/rules?tool={'%3Cimg%20src=x%20onerror=window.ran=6%3E'}")

    await expect(page.get_by_role("row").last).to_contain_text("<script>window.ran=1</script>")
    await expect(page.locator(".tryout")).to_contain_text("A person would be asked")
    await check_calm(page)


async def test_very_large_and_deep_values_do_not_stop_the_page(
    tmp_path: Path, open_page: OpenPage
) -> None:
    large = {"text": "x" * 10_000_000}
    wide = {"rows": [{"id": number} for number in range(30_000)]}
    with serve_console(make_tools(tmp_path), max_body=32_000_000, max_values=100_000) as gateway:
        gateway.send("adam", "POST", "/rules", {"verdict": "ask", "pattern": "echo"})
        for value in (large, deep(90), wide):
            gateway.call("echo", {"value": value})
        page = await open_page(gateway, "/inbox", who="ann")
        detail = page.locator(".inbox-detail")

        for place, text in enumerate(("characters left", "inner", "30,000 items")):
            if place != 1:
                await detail.get_by_role("button", name="Show all of it").click()
            await expect(detail).to_contain_text(text)
            assert await page.evaluate("document.querySelectorAll('*').length") < 5000
            await page.keyboard.press("j")
        # The page still answers.
        await page.keyboard.press("a")
        await expect(detail).to_contain_text("Approved by you")


async def test_json_of_any_depth_and_size_is_folded(gateway: Gateway, open_page: OpenPage) -> None:
    page = await open_page(gateway, "/rules")
    shown = await page.evaluate(
        """async () => {
            const { jsonView, jsonLine } = await import("/console/json_view.js");
            const { schemaForm } = await import("/console/schema_form.js");
            let deep = 1;
            for (let level = 0; level < 10000; level += 1) deep = level % 2 ? [deep] : { deep };
            const many = Array.from({ length: 1000000 }, (_, row) => ({ row }));
            const loop = { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } };
            const views = [deep, many, "x".repeat(1e7)].map((value) => {
                const element = jsonView(value);
                return element.querySelectorAll("*").length;
            });
            const form = schemaForm(loop, { x: 1 });
            return [...views, jsonLine(many).textContent.length, form.read()];
        }"""
    )
    assert all(count < 2000 for count in shown[:3])
    assert shown[3] <= 130
    assert shown[4] == {"x": 1}


async def test_a_form_follows_a_reference_whose_name_has_percent_signs(
    gateway: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(gateway, "/rules")
    read = await page.evaluate(
        """async () => {
            const { schemaForm } = await import("/console/schema_form.js");
            const inner = { type: "object", properties: { n: { $ref: "#/$defs/a%20b~1%25" } } };
            const $defs = { "a b/%": { type: "boolean" } };
            const form = schemaForm({ ...inner, $defs }, { n: true });
            return [form.element.querySelector("input").type, form.read()];
        }"""
    )
    assert read == ["checkbox", {"n": True}]
