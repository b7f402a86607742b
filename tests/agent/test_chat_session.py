"""003.12: conversations that go on."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from wieldy import Call
from wieldy.agent import Agent, ChatSessionExtension
from wieldy.models.model_errors import ModelUnavailable
from wieldy.testing import ScriptedModel


class Talker(ChatSessionExtension, Agent):
    """An agent with chat sessions."""


def make_talker(*answers: Any, **options: Any) -> tuple[Talker, ScriptedModel]:
    model = ScriptedModel(answers)
    return Talker(model, **options), model


def roles(model: ScriptedModel, number: int) -> list[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in model.requests[number].messages]


def test_003_12_each_finished_request_records_two_turns() -> None:
    agent, model = make_talker("Hello.", "Again.", "Third.")

    session = agent.activate_chat_session()
    agent.input("hi").start()
    agent.input("hi").start()
    agent.input("bye").start()

    assert isinstance(session, str)
    assert roles(model, 2) == [
        ("user", "hi"),
        ("assistant", "Hello."),
        ("user", "hi"),
        ("assistant", "Again."),
        ("user", "bye"),
    ]


def test_003_12_identical_turns_twice_are_two_turns() -> None:
    agent, model = make_talker("Hello.", "Hello.", "Hello.")

    agent.activate_chat_session("s")
    for _ in range(3):
        agent.input("hi").start()

    assert len(model.requests[2].messages) == 5


def test_003_12_histories_persist_in_the_store_and_only_that_session_is_loaded(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    agent, _ = make_talker("one", "two", store=url)
    assert agent.activate_chat_session("first") == "first"
    agent.input("a").start()
    agent.activate_chat_session("second")
    agent.input("b").start()
    agent.close()

    other, model = make_talker("three", store=url)
    other.activate_chat_session("first")
    other.input("c").start()
    other.close()

    assert roles(model, 0) == [("user", "a"), ("assistant", "one"), ("user", "c")]


def test_003_12_nothing_is_recorded_without_an_active_session() -> None:
    agent, model = make_talker("1", "2", "3", "4")

    agent.input("a").start()
    agent.activate_chat_session("s")
    agent.input("b").start()
    assert agent.stop_chat_session() is agent
    agent.input("c").start()
    agent.activate_chat_session("s")
    agent.input("d").start()

    assert [len(each.messages) for each in model.requests] == [1, 1, 1, 3]
    assert roles(model, 3)[0] == ("user", "b")


def test_003_12_input_paths_choose_what_is_recorded() -> None:
    agent, _ = make_talker("ok", "ok", "ok", "ok", "ok")
    agent.activate_chat_session("s")

    def recorded() -> Any:
        agent.instruct("Be brief.").input({"core": {"inner": 0}, "x": 1}).start()
        return agent.agent_prompt.get("chat_history")[-2]["content"]

    assert recorded() == {"core": {"inner": 0}, "x": 1}
    agent.set_record_input_paths("instruct", ("input", "core.inner"))
    assert json.loads(recorded()) == {"instruct": "Be brief.", "input.core.inner": 0}
    agent.set_record_input_paths(("input", "core/inner"), mode="first")
    assert recorded() == 0
    agent.set_record_input_mode("all")
    assert json.loads(recorded()) == {"input.core/inner": 0}
    agent.clean_record_input_paths()
    assert recorded() == {"core": {"inner": 0}, "x": 1}


def test_003_12_output_paths_are_paths_in_the_parsed_answer() -> None:
    data = {"said": "", "count": 0, "people": [{"name": "Ada"}]}
    agent, _ = make_talker(*[data] * 5)
    agent.activate_chat_session("s")

    def recorded() -> Any:
        agent.input("q").output({"said": (str, ""), "count": (int, "")}).start()
        return agent.agent_prompt.get("chat_history")[-1]["content"]

    assert json.loads(recorded()) == data
    agent.set_record_output_paths("count", "people[0].name")
    assert json.loads(recorded()) == {"count": 0, "people[0].name": "Ada"}
    agent.set_record_output_mode("first")
    assert recorded() == 0
    agent.settings.set("record_output_mode", "all")
    assert json.loads(recorded()) == {"count": 0, "people[0].name": "Ada"}
    agent.clean_record_output_paths()
    assert json.loads(recorded()) == data


def test_a_mode_that_is_none_is_refused() -> None:
    agent, _ = make_talker()

    with pytest.raises(ValueError, match="first"):
        agent.set_record_input_mode("last")  # type: ignore[arg-type]


def test_a_request_that_failed_is_not_recorded_and_the_session_goes_on() -> None:
    agent, model = make_talker(ModelUnavailable("m", "gone"), "Hello.", "Bye.")
    agent.activate_chat_session("s")

    with pytest.raises(ModelUnavailable):
        agent.input("lost").start()
    agent.input("hi").start()
    agent.input("bye").start()

    assert [text for _, text in roles(model, 2)] == ["hi", "Hello.", "bye"]


async def test_requests_of_two_sessions_at_the_same_time_stay_apart() -> None:
    agent, _ = make_talker("1", "2")

    first = agent.async_activate_chat_session("first")
    await first
    one = agent.input("a").get_response()
    await agent.async_activate_chat_session("second")
    two = agent.input("b").get_response()
    await asyncio.gather(one.async_get_text(), two.async_get_text())

    await agent.async_activate_chat_session("first")
    assert agent.agent_prompt.get("chat_history")[0]["content"] == "a"
    await agent.async_activate_chat_session("second")
    assert agent.agent_prompt.get("chat_history")[0]["content"] == "b"


async def test_calls_are_made_in_the_active_session(tmp_path: Path) -> None:
    agent, _ = make_talker(
        [Call("add", {"a": 1})], "3", store=f"sqlite:///{tmp_path}/x.db", tool_strategy="native"
    )

    @agent.tool_func
    def add(a: int, b: int = 2) -> int:
        return a + b

    async with agent:
        await agent.async_activate_chat_session("here")
        await agent.input("1+2?").async_start()

        (entry,) = await agent.toolbox.ledger.list()
        assert (entry.call.scope.session, entry.call.scope.agent) == ("here", agent.name)
