"""Whole programs of Agently: `from wieldy.dialects.agently import Agently`."""

from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

import wieldy.dialects.agently as agently
from wieldy.agent import ChatSessionExtension
from wieldy.dialects.agently import Agently, AgentlyToolManager
from wieldy.dialects.agently.agently_agent import AgentlyAgent
from wieldy.dialects.agently.main import AgentlyMain
from wieldy.testing import Answer, ScriptedModel

JUDGED = {
    "use_tool": True,
    "tool_command": {"purpose": "sum", "tool_name": "add", "tool_kwargs": {"a": 1, "b": 2}},
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def main() -> AgentlyMain:
    """An entrance of this test's own."""
    return AgentlyMain()


def test_the_entrance_is_made_once() -> None:
    assert isinstance(Agently, AgentlyMain)
    assert agently.Agently is Agently
    assert isinstance(Agently.tool, AgentlyToolManager)
    with pytest.raises(AttributeError, match="Agentic"):
        _ = agently.Agentic  # type: ignore[attr-defined]


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

    main.tool.tool_func(add)
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
    assert found == {"api_key": "k", "list": ["${ENV.NONE_SUCH}", 1]}
    with pytest.raises(KeyError, match="NONE_SUCH"):
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
        ("reasoning_done", "Hm."),
    ]
    assert list(response.get_generator(content="specific", specific="done")) == [("done", "Hello")]
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


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", '{"OpenAI": {"model": "b"}, "shop": {"size": 3}}'),
        ("yaml", "OpenAI: {model: b}\nshop: {size: 3}\n"),
        ("toml", '[OpenAI]\nmodel = "b"\n[shop]\nsize = 3\n'),
    ],
)
def test_settings_are_loaded_from_text_and_from_a_file(
    main: AgentlyMain, tmp_path: Path, kind: str, text: str
) -> None:
    path = tmp_path / "settings"
    path.write_text(text)
    agent: Any = main.create_agent()

    assert agent.load_settings(kind, text) is agent
    loaded: Any = main
    assert loaded.load_settings(f"{kind}_file", str(path)) is main

    for settings in (agent.settings, main.settings):
        assert settings.get("shop.size") == 3
        assert settings.get("plugins.ModelRequester.OpenAICompatible.model") == "b"


@pytest.mark.parametrize(
    ("kind", "text", "error", "told"),
    [
        ("ini", "a=1", TypeError, "json_file"),
        ("json", "[1]", TypeError, "mapping"),
        ("yaml", "", TypeError, "mapping"),
        ("yaml", "a: [b", ValueError, "YAML"),
        ("json", "{", ValueError, "property name"),
        ("toml", "=", ValueError, "line 1"),
        ("yaml_file", "none-such.yaml", FileNotFoundError, "none-such"),
    ],
)
def test_settings_that_can_t_be_loaded_are_an_error(
    main: AgentlyMain, kind: Any, text: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        main.load_settings(kind, text)


def test_a_request_is_written_beside_the_agent_and_has_its_tools(main: AgentlyMain) -> None:
    model = ScriptedModel([JUDGED, "It is 3.", "Hello."])
    agent = main.create_agent("calculator", model=model).info("shelf A", always=True)
    agent.tool_func(add)
    agent.input("left alone")

    assert agent.create_request().input("1 + 2?").start() == "It is 3."
    assert agent.create_temp_request().set_prompt("input", "hi").start() == "Hello."

    assert len(model.requests) == 3
    assert "shelf A" in model.requests[1].last
    assert model.requests[2].last == "hi"
    assert agent.request_prompt.get("input") == "left alone"


def test_a_request_without_an_agent_sees_no_tools(main: AgentlyMain) -> None:
    model = ScriptedModel(["Hello."])
    main.tool.tool_func(add)

    assert main.create_request(model=model).input("hi").get_result().get_text() == "Hello."
    assert len(model.requests) == 1


def test_a_tool_of_an_agent_gets_what_was_sent_and_is_known_as_it_was_described(
    main: AgentlyMain,
) -> None:
    command = {"purpose": "sum", "tool_name": "add", "tool_kwargs": {"a": "1", "b": "2"}}
    model = ScriptedModel([{"use_tool": True, "tool_command": command}, "It is 12."])
    agent = main.create_agent("calculator", model=model)

    agent.use_tools(add)

    assert main.tool.tool_info["add"]["kwargs"] == {"a": (int, ""), "b": (int, "")}
    [(_, log)] = agent.input("1 + 2?").get_generator("specific", events="tool")
    assert log["result"] == "12"


def test_agents_may_be_of_a_class_of_the_program(main: AgentlyMain) -> None:
    class Chatting(ChatSessionExtension, AgentlyAgent):
        pass

    chatting = AgentlyMain(Chatting)
    model = ScriptedModel(["Jane Austen.", "In 1815."])
    agent: Any = chatting.create_agent(model=model)

    agent.activate_chat_session("one")
    agent.input("Who wrote Emma?").start()
    agent.input("When?").start()

    assert model.requests[1].messages[1]["content"] == "Jane Austen."
    assert main.AgentType is AgentlyAgent


def test_a_session_of_the_last_versions_tells_the_conversation(main: AgentlyMain) -> None:
    model = ScriptedModel(["Jane Austen.", "In 1815.", "x", "In 1815."])
    agent = main.create_agent(model=model)

    agent.activate_session(session_id="one").input("Who wrote Emma?").start()
    agent.input("When?").start()
    agent.deactivate_session().input("When?").start()
    agent.activate_session(session_id="one").input("When?").start()

    assert [len(request.messages) for request in model.requests] == [1, 3, 1, 5]
    assert agent.activated_session is agent.sessions["one"]
    assert len(agent.sessions["one"].full_context) == 6
    assert agent.clean_context_window().agent_prompt.get("chat_history") is None


def test_a_request_belongs_to_the_session_that_was_active_when_it_was_made(
    main: AgentlyMain,
) -> None:
    agent = main.create_agent(model=ScriptedModel(["One.", "Two."]))

    agent.activate_session(session_id="one")
    first = agent.input("1?").get_response()
    agent.activate_session(session_id="two")
    agent.input("2?").start()
    assert first.get_text() == "Two."

    assert [each["content"] for each in agent.sessions["one"].full_context] == ["1?", "Two."]
    assert [each["content"] for each in agent.sessions["two"].full_context] == ["2?", "One."]
    assert len(agent.agent_prompt.get("chat_history")) == 2


def test_a_session_keeps_chosen_values_and_tells_so_much(main: AgentlyMain) -> None:
    model = ScriptedModel([{"title": "Emma", "year": 1815}] * 2)
    agent = main.create_agent(model=model).activate_session()
    agent.set_settings("session.input_keys", ["input.core", "nothing"])
    agent.set_settings("session.reply_keys", "title").set_settings("session.max_length", 120)

    for _ in range(2):
        agent.input({"core": "Which?"}).output({"title": (str,), "year": (int,)}).start()

    assert agent.agent_prompt.get("chat_history") == [
        {"role": "user", "content": "[input.core]:\nWhich?"},
        {"role": "assistant", "content": "[title]:\nEmma"},
    ]
    session = agent.activated_session
    assert session is not None
    assert len(session.full_context) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model_type": "embeddings"}, "model_type"),
        ({"proxy": "http://127.0.0.1:9"}, "proxy"),
        ({"full_url": "http://127.0.0.1:9/elsewhere"}, "full_url"),
    ],
)
def test_a_setting_of_the_model_that_can_t_be_honoured_is_an_error(
    main: AgentlyMain, given: dict[str, Any], told: str
) -> None:
    agent = main.create_agent().set_settings("OpenAI", {"api_key": "k", **given})

    with pytest.raises(ValueError, match=told):
        agent.input("hi").start()


def test_settings_of_the_model_are_what_is_sent(main: AgentlyMain) -> None:
    agent = main.create_agent().set_settings(
        "OpenAI",
        {
            "full_url": "http://127.0.0.1:9/v1/chat/completions",
            "model": "m",
            "options": {"temperature": 0.1, "top_p": 1},
            "request_options": {"temperature": 0.2},
            "auth": {"api_key": "k", "body": {"user": "ann"}},
            "timeout": {"connect": 5.0, "read": 60.0},
        },
    )

    [body] = agent.input("hi").explain().requests

    assert {each: body[each] for each in ("model", "temperature", "top_p", "user")} == {
        "model": "m",
        "temperature": 0.2,
        "top_p": 1,
        "user": "ann",
    }


def test_tokens_have_the_names_of_openai(main: AgentlyMain) -> None:
    agent = main.create_agent(model=ScriptedModel([Answer("Hello", usage=(7, 5))]))
    response = agent.input("hi").get_response()

    counted = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    assert response.get_meta()["usage"] == counted
    [(_, meta)] = response.get_generator("specific", events="meta")
    assert meta["usage"] == counted


async def test_an_answer_is_printed_while_it_comes(
    main: AgentlyMain, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = main.create_agent(model=ScriptedModel(["Hello", "Hello"]))

    agent.input("hi").streaming_print()
    await agent.input("hi").async_streaming_print()

    assert capsys.readouterr().out == "\nHello\n" * 2
