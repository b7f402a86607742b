"""Dialects that have no approvals import tools that run by themselves, whatever is said of them."""

import sys

from tests.mcp.conftest import SHOP
from wieldy.core.tool import Permission
from wieldy.dialects.agently import Agently, AgentlyToolManager
from wieldy.dialects.agentscope import StdIOStatefulClient, Toolkit
from wieldy.testing import ScriptedModel


async def test_agently_runs_what_its_server_says_is_destructive() -> None:
    manager = AgentlyToolManager()
    await manager.async_use_mcp(SHOP)

    assert await manager.async_call_tool("wipe", {}) == {"result": "wiped"}
    await manager.toolbox.close()


async def test_an_agent_of_agently_asks_only_if_it_is_told_to() -> None:
    agent = Agently.create_agent("cleaner", model=ScriptedModel([]))
    await agent.async_use_mcp(SHOP, allow="wipe", prefix="a_")
    await agent.async_use_mcp(SHOP, allow="wipe", prefix="b_", permission="confirm")

    found = {tool.name: tool.permission for tool in agent.toolbox if tool.name.endswith("_wipe")}
    assert found == {"a_wipe": Permission.AUTO, "b_wipe": Permission.CONFIRM}
    await agent.toolbox.mcp.remove("shop")


async def test_agentscope_runs_what_its_server_says_is_destructive() -> None:
    client = StdIOStatefulClient("shop", sys.executable, [SHOP])
    toolkit = Toolkit()
    await client.connect()
    await toolkit.register_mcp_client(client, enable_funcs=["wipe"])

    tool = toolkit.toolbox.get("wipe")
    assert tool is not None and tool.permission is Permission.AUTO
    await client.close()
