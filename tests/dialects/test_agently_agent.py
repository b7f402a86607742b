"""Whole programs of Agently: `from wieldy.dialects.agently import Agently`."""

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

import wieldy.dialects.agently as agently
from wieldy.dialects.agently import Agently, AgentlyToolManager
from wieldy.dialects.agently.main import AgentlyAgent, AgentlyMain
from wieldy.testing import Answer, ScriptedModel

JUDGED = {
    "use_tool": True,
    "tool_command": {"purpose": "sum", "tool_name": "add", "tool_kwargs": {"a": 1, "b": 2}},
}


@pytest.fixture
def main() -> AgentlyMain:
    """An entrance of this test's own."""
    return AgentlyMain()


def test_the_entrance_is_made_once() -> None:
    assert isinstance(Agently, AgentlyMain)
    assert agently.Agently is Agently
    assert isinstance(Agently.tool, AgentlyToolManager)
    with pytest.raises(AttributeError, match="Agentic"):
        _ = agently.Agentic


def test_a_program_runs(main: AgentlyMain) -> None:
    model = ScriptedModel([{"title": "Emma", "year": 1815}])
    agent = main.create_agent("librarian", model=model)

    result = (
        agent.role("a librarian", always=True)
        .info({"shelf": "A"})
        .input("Which book?")
        .output({"title": (str, "the title"), "year": (int, "of its first print")})
        .start(ensure_keys=["title"])
    )

    assert agent.name == "librarian"
    assert result == {"title": "Emma", "year": 1815}


async def test_agents_that_register_one_name_or_use_one_server_both_have_it(
    main: AgentlyMain,
) -> None:
    server = MCPServer("shop")

    @server.tool()
    def price(item: str) -> int:
        """What an item costs."""
        return len(item)

    for name in ("one", "other"):
        agent = main.create_agent(name)
        agent.register_tool("search", f"of {name}", {}, lambda: None)
        await agent.async_use_mcp(server, tags="remote")

    for tag in ("agent-one", "agent-other"):
        assert sorted(main.tool.get_tool_info(tag)) == ["price", "search"]
    assert list(main.tool.get_tool_info("remote")) == ["price"]
    assert main.tool.tool_info["search"]["desc"] == "of other"
    await main.tool.toolbox.close()


def test_agents_share_the_tools_toolbox_and_see_only_their_own(main: AgentlyMain) -> None:
    one = main.create_agent("one", model=ScriptedModel([JUDGED, "It is 3."]))
    other = main.create_agent("other", model=ScriptedModel(["Hello."]))

    @main.tool.tool_func
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    one.use_tools("add")

    assert main.tool.get_tool_info(tags="agent-one").keys() == {"add"}
    assert one.input("1 + 2?").start() == "It is 3."
    assert other.input("hi").start() == "Hello."
    assert one.tool is main.tool


def test_a_tool_of_a_taken_name_replaces_the_other(main: AgentlyMain) -> None:
    one, other = (main.create_agent(name, model=ScriptedModel()) for name in ("one", "other"))

    one.register_tool("search", "", {}, lambda: "one")
    other.register_tool("search", "", {}, lambda: "other")

    assert main.tool.call_tool("search") == "other"


def test_settings_are_inherited_and_have_short_names(main: AgentlyMain) -> None:
    agent = main.create_agent()

    assert main.set_settings("OpenAICompatible", {"base_url": "http://x/v1", "model": "a"}) is main
    assert agent.set_settings("OpenAI", {"model": "b"}) is agent
    main.set_settings("debug", True)

    path = "plugins.ModelRequester.OpenAICompatible"
    assert agent.settings.get(path) == {"base_url": "http://x/v1", "model": "b"}
    assert main.settings[f"{path}.model"] == "a"
    assert agent.settings["runtime.show_tool_logs"] is True


def test_settings_may_come_from_the_environment(
    main: AgentlyMain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "k")
    given = {"api_key": "${ENV.SOME_KEY}", "list": ["${ENV.NONE_SUCH}", 1]}

    main.set_settings("OpenAI", given, auto_load_env=True)

    found = main.settings.get("plugins.ModelRequester.OpenAICompatible")
    assert found == {"api_key": "k", "list": ["", 1]}
    with pytest.raises(ValueError, match="NONE_SUCH"):
        main.set_settings("OpenAI", given, auto_load_env=True, raise_empty=True)


def test_a_key_is_not_shown_in_the_repr_of_settings(main: AgentlyMain) -> None:
    main.set_settings("OpenAI", {"api_key": "sk-very-secret"})

    assert "sk-very-secret" not in repr(main.settings)


def test_prompts_are_read_set_and_written(main: AgentlyMain) -> None:
    agent = main.create_agent(model=ScriptedModel())

    agent.agent_prompt.set("info", {"a": 1})
    agent.request_prompt.set("info", {"b": "${x}"}, {"x": 2})
    agent.request_prompt.set("output", {"n": (int, "a number")})

    assert agent.request_prompt.get("info") == {"a": 1, "b": 2}
    assert agent.request_prompt.get("info", inherit=False) == {"b": 2}
    assert agent.request_prompt.get("nothing", "default") == "default"
    assert agent.request_prompt.get("system.rule") is None
    assert agent.request_prompt.to_yaml_prompt() == (
        "info:\n  b: 2\noutput:\n  n:\n    $type: int\n    $desc: a number\n"
    )
    assert '"a": 1' in agent.request_prompt.to_json_prompt(inherit=True)


def test_streams_have_the_names_that_users_know(main: AgentlyMain) -> None:
    agent = main.create_agent(model=ScriptedModel([Answer("Hello", thinking="Hm.")], chunks=None))
    response: Any = agent.input("hi").get_response()

    assert list(response.get_generator("specific", specific=["done"])) == [("done", "Hello")]
    assert list(response.result.get_generator("specific")) == [
        ("reasoning_delta", "Hm."),
        ("delta", "Hello"),
        ("done", "Hello"),
    ]
    assert isinstance(agent, AgentlyAgent)
    assert "".join(response.get_generator()) == "Hello"


def test_action_results_are_told(main: AgentlyMain) -> None:
    model = ScriptedModel(["ok", "ok"])
    agent = main.create_agent(model=model)

    agent.set_action_results([{"looked": "it rains"}]).add_action_results("asked", "it is cold")
    agent.input("Weather?").start()
    agent.reset_action_results().input("Weather?").start()

    assert "it rains" in model.requests[0].last
    assert "it is cold" in model.requests[0].last
    assert "it rains" not in model.requests[1].last
