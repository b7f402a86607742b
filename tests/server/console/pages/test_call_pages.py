"""The list of calls and one call, in a real browser."""

import hashlib

import pytest
from playwright.async_api import Page, expect

from tests.server.console.conftest import OpenPage, visit
from tests.server.console.pages.page_box import EVIL, EVIL_NAME, PageGateway
from tests.server.console.served_console import make_png

pytestmark = pytest.mark.asyncio(loop_scope="session")
# Texts with the place of their end, and what they make together.
PIECES: list[tuple[list[tuple[str, int]], str]] = [
    ([("ab", 2), ("cd", 4)], "abcd"),
    # An answer that was on its way while events came has some of them, or is older.
    ([("cd", 4), ("abcd", 4), ("e", 5)], "abcde"),
    ([("cd", 4), ("abc", 3), ("de", 5)], "abcde"),
    ([("ab", 2), ("ab", 2), ("", 0)], "ab"),
    ([("🙂b", 2), ("🙂bc", 3)], "🙂bc"),
    # What a slow reader was not sent is a gap.
    ([("ab", 2), ("yz", 26), ("z", 26)], "ab\n⋯\nyz"),
]


async def test_filters_of_calls_are_in_the_address(pages: PageGateway, open_page: OpenPage) -> None:
    page = await open_page(pages, "/calls?tool=fail")
    await expect(page.locator("main tbody th")).to_have_text(["fail"])

    await page.get_by_label("Tool").fill("wipe")
    await expect(page.locator("main tbody th")).to_have_text(["wipe", "wipe"])
    await page.get_by_label("State").focus()
    await page.get_by_label("State").select_option("denied")
    await expect(page.locator("main tbody th")).to_have_text(["wipe"])
    assert page.url.endswith("/calls?tool=wipe&state=denied")
    # The field that was used keeps the focus.
    await expect(page.get_by_label("State")).to_be_focused()

    await page.reload()
    await expect(page.get_by_label("Tool")).to_have_value("wipe")
    await expect(page.locator("main tbody th")).to_have_text(["wipe"])


async def test_calls_are_found_by_words_in_them(pages: PageGateway, open_page: OpenPage) -> None:
    pages.call("forecast", {"city": "Longyearbyen"})

    page = await open_page(pages, "/calls")
    await page.get_by_label("Search").fill("longyear")
    await expect(page.locator("main tbody th")).to_have_text(["forecast"])
    assert page.url.endswith("/calls?search=longyear")
    pages.call("echo", {"value": "LONGYEAR"})
    await expect(page.locator("main tbody th")).to_have_text(["echo", "forecast"])


async def test_calls_come_page_by_page_and_the_page_is_in_the_address(
    pages: PageGateway, open_page: OpenPage
) -> None:
    pages.call("spread", {"times": 55}, who="bob")

    page = await open_page(pages, "/calls?caller=bob&tool=echo")
    await expect(page.locator("main tbody tr")).to_have_count(50)
    await page.get_by_role("button", name="Show more").click()
    await expect(page.locator("main tbody tr")).to_have_count(5)
    assert "cursor=" in page.url

    await page.get_by_role("link", name="First page").click()
    await expect(page.locator("main tbody tr")).to_have_count(50)
    # However many calls come while somebody looks, the list stays short.
    pages.call("spread", {"times": 150}, who="bob")
    newest = pages.send("adam", "GET", "/calls?caller=bob&tool=echo&limit=1")["calls"][0]["call_id"]
    first = page.locator("main tbody tr").first.locator("th a")
    await expect(first).to_have_attribute("href", f"/calls/{newest}")
    await expect(page.locator("main tbody tr")).to_have_count(50)


@pytest.mark.parametrize("query", ["cursor=bad", "since=2026-01-01T00:00&tool=no"])
async def test_an_address_that_fits_nothing_says_so(
    pages: PageGateway, open_page: OpenPage, query: str
) -> None:
    page = await open_page(pages, f"/calls?{query}")
    await expect(page.locator("main .list").locator(".problem, .empty")).to_be_visible()
    open_page.wrong.clear()


async def test_callers_see_their_own_calls_only(pages: PageGateway, open_page: OpenPage) -> None:
    theirs = pages.call("forecast", {"city": "Turku"}, who="bob")

    page = await open_page(pages, "/calls", who="cal")
    await expect(page.locator("main tbody tr").first).to_be_visible()
    callers = await page.locator("main tbody td[data-label=Caller]").all_inner_texts()
    assert set(callers) == {"cal"}

    page = await open_page(pages, f"/calls/{theirs}", who="cal")
    await expect(page.get_by_role("alert")).to_contain_text("no such call")
    open_page.wrong.clear()


async def test_a_call_appears_by_itself_and_ends_before_ones_eyes(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/calls?tool=count&caller=bob")
    await expect(page.get_by_text("There is nothing here.")).to_be_visible()

    body = {"tool": "count", "arguments": {"to": 4, "lane": "bob"}, "wait": 1}
    call_id = pages.send("bob", "POST", "/calls", body)["call_id"]
    row = page.locator("main tbody tr")
    await expect(row.locator(".badge")).to_have_text("running")
    pages.steps.take(2, "bob")
    await expect(row).to_contain_text("50 %")
    await expect(row).to_contain_text("step 2")
    await expect(row).to_contain_text("line 2")

    # Whoever looks at the call later sees how far it is, and what it wrote.
    other = await open_page(pages, f"/calls/{call_id}", who="bob")
    await expect(other.get_by_role("progressbar")).to_have_js_property("value", 0.5)
    await expect(other.locator("main .live pre")).to_have_text("line 1\nline 2")
    # The rest follows, each piece once.
    pages.steps.take(1, "bob")
    await expect(other.locator("main .live pre")).to_have_text("line 1\nline 2\nline 3")

    pages.steps.take(1, "bob")
    await expect(row.locator(".badge")).to_have_text("ok")
    assert pages.state_of(call_id) == "ok"


async def test_pieces_of_output_are_put_together_once(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/tools")
    script = """async (cases) => {
        const { RunningCalls } = await import("/console/call_progress.js");
        return cases.map((pieces, id) => {
            const running = new RunningCalls();
            for (const [output, output_end] of pieces) running.begin(id, { output, output_end });
            return running.find(id).output;
        });
    }"""
    assert await page.evaluate(script, [pieces for pieces, _ in PIECES]) == [
        text for _, text in PIECES
    ]


async def test_a_running_call_is_interrupted_by_its_caller(
    pages: PageGateway, open_page: OpenPage
) -> None:
    body = {"tool": "count", "arguments": {}, "wait": 1}
    call_id = pages.send("cal", "POST", "/calls", body)["call_id"]

    page = await open_page(pages, f"/calls/{call_id}", who="ann")
    await expect(page.locator(".badge").first).to_have_text("running")
    await expect(page.get_by_role("button", name="Interrupt")).to_have_count(0)

    page = await open_page(pages, f"/calls/{call_id}", who="cal")
    await page.get_by_role("button", name="Interrupt").click()
    await expect(page.locator(".page-head .badge")).to_have_text("stopped")


async def test_a_call_tells_its_story_its_result_and_its_children(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/calls?tool=report")
    await page.locator("main tbody th a").first.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("report")
    kinds = page.locator(".timeline .story-kind")
    await expect(kinds).to_have_text(["proposed", "judged", "started", "ended"])
    await expect(page.locator(".timeline .badge")).to_have_text("ok")
    await expect(page.locator(".json").last).to_contain_text("3 days of sun in Rome")

    await page.locator("main").get_by_role("link", name="forecast").first.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("forecast")
    await expect(page.get_by_text("Made by the call")).to_be_visible()


async def test_attempts_and_repairs_are_part_of_the_story(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, f"/calls/{pages.call('falter', {'times': '2'})}")
    kinds = page.locator(".timeline .story-kind")
    told = ["proposed", "arguments repaired", "judged", "started", "attempts", "ended"]
    await expect(kinds).to_have_text(told)
    await expect(page.locator(".timeline li", has_text="attempts")).to_contain_text("3 times")
    await expect(page.locator(".facts")).to_contain_text("Attempts3")
    await expect(page.locator(".repairs li")).to_contain_text("times: 2 → 2")


async def digest_saved(page: Page) -> bytes:
    """The digest of what the link saves. The tests' header is not sent with a real download."""
    link = page.get_by_role("link", name="Save as a file")
    assert await link.get_attribute("download") == ""
    script = """async (link) => {
        const bytes = await (await fetch(link.href)).arrayBuffer();
        return [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))];
    }"""
    return bytes(await link.evaluate(script))


async def test_large_results_artifacts_and_pictures_are_saved_as_files(
    pages: PageGateway, open_page: OpenPage
) -> None:
    log = "\n".join(f"{number:05} all is well" for number in range(400)).encode()
    page = await open_page(pages, "/calls")
    for tool, arguments, content in (
        ("large", {"size": 1_000_000}, b"x" * 1_000_000),
        ("draw", {}, make_png(64)),
        ("log", {}, log),
    ):
        await visit(page, f"/calls/{pages.call(tool, arguments)}")
        assert await digest_saved(page) == hashlib.sha256(content).digest()
    # A result that was too large is in an artifact, whose page has it as well.
    await page.locator("main section").last.get_by_role("link").first.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Result of log")
    assert await digest_saved(page) == hashlib.sha256(log).digest()


async def test_who_has_decided_and_why_is_told(pages: PageGateway, open_page: OpenPage) -> None:
    page = await open_page(pages, "/calls?state=denied")
    await page.locator("main tbody th a").click()

    story = page.locator(".timeline")
    await expect(story).to_contain_text("by ann")
    await expect(story).to_contain_text("It is needed.")


async def test_pictures_are_shown_and_what_lies_about_itself_is_not(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, f"/calls/{pages.call('draw')}")
    picture = page.locator("main figure img")
    await expect(picture).to_have_js_property("naturalWidth", 64)
    assert (await picture.get_attribute("src") or "").startswith("blob:")

    page = await open_page(pages, f"/calls/{pages.call('hostile')}")
    result = page.locator("section", has=page.get_by_role("heading", name="Result"))
    await expect(result.locator("img")).to_have_count(1)
    await expect(result).to_contain_text("image/png, 4 \u00d7 4")
    await expect(result).to_contain_text("too large to show: 100000 \u00d7 100000")
    await expect(result.get_by_text("This is no picture that can be shown.")).to_have_count(2)
    # Texts from outside are texts: no elements, no links, and nothing that turns the direction.
    await expect(result.locator("a:not([download]), script")).to_have_count(0)
    shown = await result.inner_text()
    assert "<script>alert(2)</script>⟨U+202E⟩gnp.exe⟨U+0007⟩" in shown
    assert EVIL not in shown
    assert "javascript:alert(5)" in shown


async def test_a_large_result_is_read_from_its_artifact(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, f"/calls/{pages.call('log')}")
    await expect(page.locator("main")).not_to_contain_text("00399 all is well")
    await page.get_by_text("Show all of it").click()
    await expect(page.locator("main")).to_contain_text("00399 all is well")


@pytest.mark.parametrize("arguments", [{"size": 10_000_000}, {"rows": 200_000}, {"depth": 90}])
async def test_large_values_are_cut_and_read_whole_when_asked_for(
    pages: PageGateway, open_page: OpenPage, arguments: dict[str, int]
) -> None:
    page = await open_page(pages, f"/calls/{pages.call('large', arguments)}")
    result = page.locator("section", has=page.get_by_role("heading", name="Result"))
    await expect(result).to_be_visible()
    whole = result.locator("details", has_text="Show all of it")
    if "depth" not in arguments:
        await whole.locator("summary").first.click()
        await expect(whole.locator(".folded > *")).to_be_visible()
    # However much there is, the page holds little of it.
    assert await page.evaluate("document.querySelectorAll('*').length") < 3000
    assert await page.evaluate("document.body.innerText.length") < 60_000


async def test_names_that_look_like_code_or_addresses_are_names(
    pages: PageGateway, open_page: OpenPage
) -> None:
    pages.call(EVIL_NAME, {"size": 3})
    pages.call("artifact_create", {"id": "a/b?c#d", "title": EVIL, "content": EVIL})
    shown = EVIL_NAME.replace("\u202e", "⟨U+202E⟩")

    page = await open_page(pages, "/calls")
    await page.get_by_role("link", name=shown).first.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(shown)
    await page.locator(".facts").get_by_role("link", name=shown).click()
    await expect(page.get_by_role("button", name="Call", exact=True)).to_be_visible()
    await expect(page.get_by_role("heading", level=1)).to_have_text(shown)

    await page.get_by_role("link", name="Artifacts").click()
    await page.get_by_role("link", name="<script>alert(2)</script>").click()
    await expect(page.locator("main .code")).to_contain_text("<script>alert(2)</script>⟨U+202E⟩")
    assert page.url.endswith("/artifacts/a~2Fb~3Fc~23d?session=cal")
