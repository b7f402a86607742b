"""Tools, servers, artifacts and runs, in a real browser."""

import pytest
from playwright.async_api import expect

from tests.server.console.conftest import OpenPage, visit
from tests.server.console.pages.page_box import PageGateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_tools_are_searched_and_the_search_is_in_the_address(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/tools")
    await expect(page.locator("main tbody th").first).to_have_text("forecast")

    await page.get_by_label("Search").fill("mail")
    await expect(page.locator("main tbody th").first).to_have_text("send_mail")
    assert page.url.endswith("/tools?search=mail")
    # What a server says of its tool is a text.
    await page.get_by_label("Search").fill("price")
    cell = page.locator("main tbody tr", has_text="price").locator("td").first
    await expect(cell).to_have_text("Say what <script>alert(3)</script> costs.")


async def test_a_tool_is_tried_out_with_a_form_that_is_checked_as_one_types(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/tools/forecast", who="cal")
    form = page.locator(".schema-form")
    city = page.get_by_label("city")
    await page.get_by_role("button", name="Add days").click()
    days = page.get_by_role("textbox", name="days")
    await days.fill("soon")
    await expect(form).to_contain_text("This must be a number.")
    # What nobody has filled in yet is no mistake until it is sent.
    async with page.expect_response("**/api/check-arguments"):
        await days.fill("3")
    await expect(form).not_to_contain_text("This must be a number.")
    await expect(form).not_to_contain_text("missing")
    await expect(city).not_to_have_attribute("aria-invalid", "true")
    before = len(pages.send("cal", "GET", "/calls?tool=forecast")["calls"])
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(form).to_contain_text("missing")
    await expect(city).to_be_focused()
    assert len(pages.send("cal", "GET", "/calls?tool=forecast")["calls"]) == before
    await city.fill("Oslo")
    await expect(form).not_to_contain_text("missing")
    await expect(page.locator(".verdict")).to_have_text("It would run nothing holds it back")

    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.locator(".answer")).to_contain_text("3 days of sun in Oslo")
    await page.get_by_role("link", name="See the call").click()
    await expect(page.locator(".timeline")).to_contain_text("by cal")


async def test_a_try_out_goes_through_the_permission(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/tools/wipe", who="cal")
    await page.get_by_label("path").fill("/tmp/tried")
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.locator(".answer .badge")).to_have_text("waiting")

    waiting = pages.send("ann", "GET", "/pending?session=cal")["pending"]
    [mine] = [each for each in waiting if each["arguments"] == {"path": "/tmp/tried"}]
    pages.send("ann", "POST", f"/pending/{mine['call_id']}/approve", {})
    # The answer comes by itself once somebody has decided.
    await expect(page.locator(".answer")).to_contain_text("wiped /tmp/tried")


async def test_who_only_approves_reads_a_tool_and_can_not_call_it(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/tools/send_mail", who="ann")
    await expect(page.get_by_role("heading", name="Tokens of the definition")).to_be_visible()
    await expect(page.get_by_role("button", name="Call", exact=True)).to_have_count(0)

    await page.goto(f"{pages.url}/tools/echo")
    losses = page.locator(
        "section", has=page.get_by_role("heading", name="What providers would lose")
    )
    lost = losses.get_by_role("row", name="gemini-openapi")
    await expect(lost).to_contain_text("type became JSON text (any value is allowed)")
    await page.goto(f"{pages.url}/tools/send_mail")
    await expect(losses).to_contain_text("Every provider takes the definition as it is.")
    await page.get_by_text("Input schema").click()
    await expect(page.locator("main .json")).to_contain_text("priority")


async def test_a_server_is_connected_again_and_its_stderr_is_read_by_administrators(
    pages: PageGateway, open_page: OpenPage
) -> None:
    page = await open_page(pages, "/servers")
    card = page.locator("article", has_text="shop")
    await expect(card.locator(".badge")).to_have_text("connected")
    await card.get_by_role("button", name="Reconnect").click()
    await expect(page.locator("#announcer")).to_have_text("shop is connected again.")
    await card.get_by_text("What it wrote to stderr").click()
    await expect(card.locator("pre")).to_contain_text("the shop is open <b>now</b>")

    page = await open_page(pages, "/servers", who="cal")
    await expect(page.locator("article .badge")).to_have_text("connected")
    await expect(page.get_by_role("button", name="Reconnect")).to_have_count(0)
    await expect(page.get_by_text("What it wrote to stderr")).to_have_count(0)


async def test_versions_of_an_artifact_are_compared_side_by_side(
    pages: PageGateway, open_page: OpenPage
) -> None:
    lines = "".join(f"line {number}\n" for number in range(40))
    pages.call("artifact_create", {"id": "plan", "title": "The plan", "content": lines})
    change = {"artifact": "plan", "old_str": "line 7\n", "new_str": "<b>seven</b>\nmore\n"}
    pages.call("artifact_update", change)

    page = await open_page(pages, "/artifacts", who="cal")
    await page.get_by_role("link", name="The plan").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("The plan")
    await page.get_by_label("Compare with").select_option("1")
    changed = page.locator("tr.diff-changed")
    await expect(changed).to_have_count(2)
    assert await changed.nth(0).locator("td").all_inner_texts() == [
        "8",
        "\u2212line 7",
        "8",
        "+<b>seven</b>",
    ]
    assert page.url.endswith("/artifacts/plan?session=cal&old=1&new=2")

    await page.reload()
    await expect(changed).to_have_count(2)


async def test_a_run_is_a_tree_with_its_answer(pages: PageGateway, open_page: OpenPage) -> None:
    page = await open_page(pages, "/runs")
    await page.get_by_role("link", name="trip").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("trip")
    await expect(page.locator(".tree .round")).to_have_text(["Round 1", "Round 2"])
    await expect(page.locator(".tree a")).to_have_text(["look", "book"])
    await expect(page.locator("main")).to_contain_text("Plan my evening.")
    await expect(page.locator("main")).to_contain_text("It is booked.")


async def test_pages_are_in_chinese_too(pages: PageGateway, open_page: OpenPage) -> None:
    page = await open_page(pages, "/inbox", locale="zh-CN")
    titles = {
        "/calls": "调用",
        "/tools": "工具",
        "/artifacts": "工件",
        "/runs": "运行",
    }
    for path, title in titles.items():
        await visit(page, path)
        await expect(page.get_by_role("heading", level=1)).to_have_text(title)
