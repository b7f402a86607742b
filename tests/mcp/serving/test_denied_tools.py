"""A tool that a rule denies to a caller does not exist for it, whatever it asks."""

from pathlib import Path
from typing import Any

import pytest

from tests.server.api.api_client import People, make_box
from tests.server.api.test_lost_rights import modern
from tests.server.test_app import http
from wieldy.server import app


async def ask(client: Any, who: str, tool: str, arguments: dict[str, Any]) -> list[tuple[int, str]]:
    """What somebody is told about a tool by MCP and by the API, without the tool's name."""
    sent = modern("tools/call", name=tool, arguments=arguments)
    sent["headers"] = {**sent["headers"], "Authorization": f"Bearer {who}-secret"}
    called = await client.post("/mcp", **sent)
    body = {"tool": tool, "arguments": arguments}
    answers = [called, await client.post("/api/calls", json=body, headers=sent["headers"])]
    return [(each.status_code, each.text.replace(tool, "NAME")) for each in answers]


@pytest.mark.parametrize("arguments", [{}, {"path": "x"}, {"path": 1, "more": 2}])
async def test_a_denied_tool_is_answered_like_one_that_nobody_has(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    box = make_box(tmp_path)
    box.rules.deny("wipe", caller="cal")
    async with http(app(box, identifiers=[People()])) as client:
        denied = await ask(client, "cal", "wipe", arguments)
        nearly = await ask(client, "cal", "wipf", arguments)
        nothing = await ask(client, "cal", "none", arguments)
        others = await ask(client, "bob", "wipf", arguments)
    assert denied == nearly == nothing
    assert all("wipe" in text for _, text in others)
    states = {entry.state for entry in await box.ledger.list()}
    await box.close()
    assert states and "ok" not in states, "what was tried is recorded as it was"
