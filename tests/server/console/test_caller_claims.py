"""The claims of an OAuth caller, as the inbox shows them to whoever decides on the call."""

from pathlib import Path

import httpx2
import pytest
from playwright.async_api import expect

from tests.server.api.api_client import People
from tests.server.console.conftest import OpenPage
from tests.server.console.served_console import serve_console
from tests.server.oauth.test_issuer import AUDIENCE, Issuer, issuer
from wieldy.cli.live_gateway import LiveGateway
from wieldy.server.named_callers import NamedCallers
from wieldy.server.oauth.issuer import ClaimGrant, OAuthIssuer

__all__ = ["issuer"]
pytestmark = pytest.mark.asyncio(loop_scope="session")
FILE = """
store = "sqlite:///calls.db"
[[sources]]
path = "tools.py"
[views.staff]
"""
TOOLS = """
from wieldy import Toolbox

box = Toolbox()


@box.tool(permission="confirm")
def wipe() -> str:
    return "wiped"
"""


async def test_the_claims_that_a_call_depends_on_are_shown_as_digests(
    issuer: Issuer, tmp_path: Path, open_page: OpenPage
) -> None:
    (tmp_path / "gateway.toml").write_text(FILE)
    (tmp_path / "tools.py").write_text(TOOLS)
    gateway = await LiveGateway.open(tmp_path / "gateway.toml")
    grants = [ClaimGrant("groups", "the-red-team", frozenset(("call",)), "staff")]
    known = OAuthIssuer(issuer.name, AUDIENCE, grants)
    callers = NamedCallers(known, gateway.callers, gateway.people.known)
    token = issuer.sign(groups=["the-red-team"], email="ann@example.com")
    box, offer, identifiers = gateway.found.toolbox, gateway.found.offer, [callers, People()]
    with serve_console(box, identifiers=identifiers, view=offer, views=gateway.views) as served:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{served.url}/api/calls"
        made = httpx2.post(url, json={"tool": "wipe"}, headers=headers, timeout=120).json()
        call_id = made["call_id"]
        [(name, digest)] = served.send("adam", "GET", f"/pending/{call_id}")["claims"].items()
        page = await open_page(served, "/inbox")

        shown = page.locator(".inbox-detail")
        await expect(shown).to_contain_text("Claims of the caller, as digests")
        await expect(shown).to_contain_text(f"{name} {digest[:12]}")
        assert await shown.locator(f"code[title='{digest}']").count() == 1
        assert (name, made["state"]) == ("groups", "pending")
        for text in ("the-red-team", "ann@example.com"):
            await expect(page.locator("body")).not_to_contain_text(text)
    await known.close()
