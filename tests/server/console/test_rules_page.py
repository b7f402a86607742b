"""The page of rules and modes in a real browser."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_rule_is_made_tried_out_and_removed(fresh: Gateway, open_page: OpenPage) -> None:
    page = await open_page(fresh, "/rules?tool=wipe")
    tryout = page.locator(".tryout")
    await expect(tryout).to_contain_text("The arguments don't fit yet.")
    await tryout.get_by_role("textbox", name="path").fill("/srv/x")
    await expect(tryout).to_contain_text("A person would be asked")

    await page.get_by_role("button", name="Add a rule").click()
    new = page.get_by_role("dialog")
    await new.get_by_label("Verdict").select_option("deny")
    await new.get_by_label("Tool").fill("wi*")
    await new.get_by_role("button", name="Add an argument").click()
    await new.get_by_label("Argument").fill("path")
    await new.get_by_label("Pattern").fill("/srv/**")
    await new.get_by_label("Reason").fill("It is in use.")
    await new.get_by_role("button", name="Make the rule").click()

    await expect(page.get_by_role("row").last).to_contain_text("path = /srv/**")
    await expect(page.get_by_role("row").last).to_contain_text("adam")
    # The try-out answers anew, and names the rule.
    await expect(tryout).to_contain_text("It would be denied")
    await expect(tryout.locator(".matched")).to_contain_text("It is in use.")
    await tryout.get_by_role("textbox", name="path").fill("/tmp/x")
    await expect(tryout).to_contain_text("A person would be asked")
    await expect(tryout).to_contain_text("None. The tool's own permission")
    assert fresh.send("adam", "GET", "/calls")["calls"] == []

    await page.get_by_role("button", name="Remove the rule on wi*").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_text("There are no rules.")).to_be_visible()
    assert fresh.send("adam", "GET", "/rules")["rules"] == []


def modes_of(gateway: Gateway) -> Any:
    """The modes that are set."""
    return gateway.send("adam", "GET", "/modes")["modes"]


async def test_a_mode_is_set_for_a_session_and_taken_back(
    fresh: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(fresh, "/rules")
    await page.get_by_role("button", name="Set a mode").click()
    await page.get_by_label("Mode", exact=True).select_option("read-only")
    await page.get_by_label("Session").fill("cal")
    await page.get_by_role("button", name="Save").click()

    await expect(page.locator(".mode-row").last).to_contain_text("read-only")
    assert {"mode": "read-only", "agent": None, "session": "cal"} in modes_of(fresh)
    await page.get_by_role("button", name="Remove the mode read-only").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator(".mode-row", has_text="read-only")).to_have_count(0)
    assert [each["mode"] for each in modes_of(fresh)] == ["ask"]


async def test_whoever_approves_sees_the_rules_and_changes_none(
    fresh: Gateway, open_page: OpenPage
) -> None:
    fresh.send("adam", "POST", "/rules", {"verdict": "ask", "pattern": "echo"})
    page = await open_page(fresh, "/rules", who="ann")

    await expect(page.get_by_role("row").last).to_contain_text("echo")
    for name in ("Add a rule", "Set a mode", "Remove"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)


async def test_a_rule_that_cannot_be_made_says_why(fresh: Gateway, open_page: OpenPage) -> None:
    page = await open_page(fresh, "/rules")
    await page.get_by_role("button", name="Add a rule").click()
    new = page.get_by_role("dialog")
    await new.get_by_label("Tool").fill(" ")
    await new.get_by_role("button", name="Make the rule").click()

    await expect(new.get_by_role("alert")).to_be_visible()
