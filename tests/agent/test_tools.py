"""003.5: tools of an agent, and who sees them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from wieldy import Toolbox
from wieldy.agent import Agent, BaseAgent, ToolExtension
from wieldy.core.errors import NameTaken, ToolNotFound
from wieldy.core.tool import Tool
from wieldy.testing import ScriptedModel

SHOP = Path(__file__).parents[1] / "mcp" / "servers" / "shop.py"


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def test_003_5_every_way_to_a_tool_tags_it_with_the_agents_name() -> None:
    box = Toolbox()
    box.add(add, name="named")
    agent = Agent(ScriptedModel(), name="ada", toolbox=box)

    def double(n: int) -> int:
        return 2 * n

    agent.register_tool("by_hand", "Described by hand.", {"n": (int, "a number")}, abs)
    assert agent.tool_func(double) is double
    assert agent.use_tools("named").use_tool([add]).use_tools([len]) is agent

    assert agent.tools.names == ["named", "by_hand", "double", "len"]
    assert all("agent-ada" in tool.tags for tool in agent.tools)


def test_003_5_agents_do_not_see_each_others_tools() -> None:
    box = Toolbox()
    one, other = (Agent(ScriptedModel(), name=name, toolbox=box) for name in ("one", "other"))

    one.use_tools(add)
    other.use_tools(len)

    assert one.tools.names == ["add"]
    assert other.tools.names == ["len"]
    other.use_tools("add")
    assert one.tools.names == ["add"]
    assert sorted(other.tools.names) == ["add", "len"]


def test_003_5_one_agents_tool_does_not_replace_anothers_in_a_shared_toolbox() -> None:
    box = Toolbox()
    one, other = (Agent(ScriptedModel(), name=name, toolbox=box) for name in ("one", "other"))

    def search(query: str) -> str:
        return "mine"

    one.tool_func(search)
    with pytest.raises(NameTaken):
        other.use_tools(Tool(add, name="search"))

    one.tool_func(search)
    assert box.call_sync("search", {"query": "x"}).value == "mine"


async def test_003_5_use_mcp_brings_a_servers_tools_for_this_agent_alone() -> None:
    box = Toolbox()
    async with box:
        agent = Agent(ScriptedModel(), name="ada", toolbox=box)
        assert await agent.async_use_mcp([sys.executable, str(SHOP)]) is agent

        assert agent.tools.names
        assert all(tool.source.startswith("mcp") for tool in agent.tools)
        assert Agent(ScriptedModel(), toolbox=box).tools.names == []


def test_a_tool_that_is_not_there_is_an_error_with_near_names(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()
    agent.use_tools(add)

    with pytest.raises(ToolNotFound, match="'add'"):
        agent.use_tools("ad")
    with pytest.raises(TypeError, match="a name, a function or an agent"):
        agent.use_tools([3])  # type: ignore[list-item]


def test_a_store_beside_a_toolbox_with_another_is_an_error(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"

    with pytest.raises(ValueError, match="another store"):
        Agent(ScriptedModel(), toolbox=Toolbox(), store=url)
    with pytest.raises(ValueError, match="another store"):
        Agent(ScriptedModel(), toolbox=Toolbox(store=url), store=f"sqlite:///{tmp_path}/b.db")

    assert Agent(ScriptedModel(), toolbox=Toolbox(store=url), store=url).toolbox.recorded
    assert Agent(ScriptedModel(), store=url).toolbox.recorded


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tool_strategy": "magic"}, "tool_strategy"),
        ({"max_rounds": -1}, "max_rounds"),
        ({"max_rounds": True}, "max_rounds"),
    ],
)
def test_an_agent_refuses_what_it_can_not_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Agent(ScriptedModel(), **options)


def test_an_agent_without_a_model_says_so_when_it_is_asked() -> None:
    with pytest.raises(ValueError, match="no model"):
        Agent().input("hi").start()


def test_a_base_agent_asks_without_tools() -> None:
    class Small(ToolExtension):
        pass

    assert BaseAgent(ScriptedModel(["hello"])).input("hi").start() == "hello"
    assert Small(ScriptedModel(["hello"])).input("hi").start() == "hello"
