"""A gateway: several servers in, one server out, with rules and a ledger in between.

Put it at tests/mcp/test_gateway.py once `box.add_mcp` is there.
"""

from pathlib import Path

import pytest
from mcp import Client

from tests.mcp.clients import MODES, Mode, text_of
from wieldy import Toolbox
from wieldy.mcp import server


@pytest.mark.parametrize("mode", MODES)
async def test_several_servers_are_one_with_rules_and_a_ledger(mode: Mode, tmp_path: Path) -> None:
    files, maths = Toolbox(), Toolbox()
    files.add(lambda path: f"wiped {path}", name="wipe")
    files.add(lambda path: f"read {path}", name="read")
    maths.add(lambda a, b: a + b, name="add")
    async with Toolbox(store=f"sqlite:///{tmp_path / 'gateway.db'}") as gateway:
        await gateway.add_mcp(server(files), name="files")
        await gateway.add_mcp(server(maths), name="maths")
        gateway.rules.deny("wipe", reason="not through here")
        gateway.rules.allow("read")
        gateway.rules.allow("add")
        async with Client(server(gateway), mode=mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            read = await client.call_tool("read", {"path": "a"})
            wipe = await client.call_tool("wipe", {"path": "a"})
            total = await client.call_tool("add", {"a": 1, "b": 2})
        rows = {(entry.call.tool, entry.state) for entry in await gateway.ledger.list()}

    assert names == {"wipe", "read", "add"}
    assert (text_of(read), text_of(total)) == ("read a", "3")
    assert wipe.is_error and "not through here" in text_of(wipe)
    assert rows == {("read", "ok"), ("wipe", "denied"), ("add", "ok")}
