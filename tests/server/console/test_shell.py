"""The shell of the console in a real browser: navigation, language, colours, keys, connection."""

import pytest
from playwright.async_api import expect

from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_pages_are_reached_by_links_and_by_their_address(
    gateway: Gateway, open_page: OpenPage
) -> None:
    page = await open_page(gateway, "/")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")

    await page.get_by_role("link", name="Rules and modes").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Rules and modes")
    await expect(page).to_have_title("(3) Rules and modes · Wieldy")
    assert page.url == f"{gateway.url}/rules"

    await page.reload()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Rules and modes")
    await page.go_back()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
