"""003.1: slots, two prompts, inheritance, mappings."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from tests.core.test_bounded_json import nested
from wieldy.agent import Agent
from wieldy.agent.nested_data import find_values, split_key_path
from wieldy.agent.prompt import SLOTS, Prompt
from wieldy.models.model import ModelRequest, Said
from wieldy.testing import ScriptedModel

METHODS = [
    "system",
    "input",
    "info",
    "instruct",
    "examples",
    "output",
    "attachment",
    "options",
    "role",
    "rule",
    "user_info",
]


def _echo(request: ModelRequest) -> Any:
    said = request.turns[-1]
    assert isinstance(said, Said)
    return said.content


def test_003_1_the_slots_are_those_of_the_document() -> None:
    named = "system developer chat_history info tools action_results instruct examples input "
    assert list(SLOTS) == (named + "attachment output output_format options").split()


@pytest.mark.parametrize("name", METHODS)
def test_003_1_each_slot_has_a_chainable_method(make_agent: MakeAgent, name: str) -> None:
    agent, _ = make_agent()
    parameters = inspect.signature(getattr(agent, name)).parameters

    assert list(parameters) == ["value", "mappings", "always"]
    assert parameters["always"].kind is inspect.Parameter.KEYWORD_ONLY
    assert getattr(agent, name)("x") is agent
    assert getattr(agent, name)("x", always=True) is agent


def test_003_1_the_agents_prompt_persists_and_the_requests_is_cleared(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent("one", "two")
    agent.system("Be brief.", always=True)

    agent.input("first").start()
    agent.input("second").start()

    assert [each.messages for each in model.requests] == [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        for text in ("first", "second")
    ]
    assert agent.request_prompt.get(inherit=False) == {}


@pytest.mark.parametrize(
    ("inherited", "own", "merged"),
    [
        ("a", "b", "b"),
        (1, 0, 0),
        ({"a": 1, "b": {"c": 1}}, {"b": {"d": 2}}, {"a": 1, "b": {"c": 1, "d": 2}}),
        (["a"], ["b"], ["a", "b"]),
        (["a"], ["a"], ["a", "a"]),
        (["a"], "b", "b"),
        ({"a": 1}, ["b"], ["b"]),
        ("a", None, None),
    ],
)
def test_003_1_scalars_override_dicts_merge_and_lists_extend(
    inherited: Any, own: Any, merged: Any
) -> None:
    parent = Prompt({"info": inherited})
    prompt = Prompt({"info": own}, parent)

    assert prompt.get("info") == merged
    assert prompt.get("info", inherit=False) == own
    assert parent.get("info") == inherited


def test_003_1_extra_slots_are_told_under_their_own_name(make_agent: MakeAgent) -> None:
    agent, model = make_agent("ok")

    agent.set_request_prompt("house rules v1.2", ["knock"]).input("May I?").start()

    assert "[house rules v1.2]" in model.requests[0].last
    assert "knock" in model.requests[0].last


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("${n}", 7),
        ("${ n }", 7),
        ("n is ${n}", "n is 7"),
        ({"${who}": ["${n}", ("${n}", "a ${who}")]}, {"cat": [7, (7, "a cat")]}),
        ("${unknown} ${n}", "${unknown} 7"),
        ("$n {n}", "$n {n}"),
    ],
)
def test_003_1_mappings_fill_keys_and_values_and_a_whole_match_keeps_its_type(
    value: Any, filled: Any
) -> None:
    assert Prompt().set("info", value, {"n": 7, "who": "cat"}).get("info") == filled


def test_003_1_mappings_also_fill_the_name_of_a_slot() -> None:
    assert Prompt().set("${slot}", 1, {"slot": "input"}).get() == {"input": 1}


def _list_in_itself() -> list[Any]:
    value: list[Any] = []
    value.append({"a": value})
    return value


@pytest.mark.parametrize("value", [nested(5000), _list_in_itself()], ids=["deep", "in itself"])
@pytest.mark.parametrize(
    "fill",
    [
        *(lambda prompt, value, slot=slot: prompt.set(slot, value) for slot in SLOTS),
        lambda prompt, value: prompt.set("system.rule", value),
        lambda prompt, value: prompt.set("info", value, {"n": 1}),
        lambda prompt, value: prompt.set("info", ["${n}"], {"n": value}),
        lambda prompt, value: prompt.set("info", "n is ${n}", {"n": value}),
        lambda prompt, value: prompt.set("${n}", 1, {"n": value}),
        lambda prompt, value: prompt.set("n is ${n}", 1, {"n": value}),
        lambda prompt, value: prompt.append("info", value),
        lambda prompt, value: prompt.update({"info": value}),
    ],
)
def test_a_value_that_is_too_deep_or_contains_itself_is_an_error(
    fill: Callable[[Prompt, Any], Any], value: Any
) -> None:
    prompt = Prompt()

    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        fill(prompt, value)

    assert prompt.get() == {}


@pytest.mark.parametrize("slot", METHODS)
def test_an_agent_refuses_a_value_that_contains_itself(make_agent: MakeAgent, slot: str) -> None:
    agent, _ = make_agent()

    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        getattr(agent, slot)(_list_in_itself())


def test_a_value_that_can_not_replace_another_leaves_it(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()
    agent.set_chat_history("Hi.")

    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        agent.set_chat_history(_list_in_itself())

    assert agent.agent_prompt.get("chat_history") == ["Hi."]


def test_a_name_of_very_many_keys_is_an_error() -> None:
    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        Prompt().set("system" + ".a" * 5000, 1)


@pytest.mark.parametrize("slot", ["input", "info", "instruct", "examples"])
def test_a_value_of_as_many_levels_as_there_may_be_is_sent(
    make_agent: MakeAgent, slot: str
) -> None:
    agent, model = make_agent("ok")
    mappings = {"n": nested(50, "the leaf")}

    getattr(agent, slot)(nested(50, "${n}"), mappings).start()

    assert "the leaf" in model.requests[0].text


def test_role_rule_and_user_info_stand_together_in_the_system_message(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent("ok")

    agent.system("Be brief.").role("a pirate").rule(["no oaths", "no rum"]).user_info("a child")
    agent.input("Hello").start()

    system = model.requests[0].messages[0]
    assert system["role"] == "system"
    for words in ("Be brief.", "a pirate", "no oaths", "no rum", "a child"):
        assert words in system["content"]


def test_a_request_that_asks_for_nothing_is_an_error_and_nothing_is_sent(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent("never")

    with pytest.raises(ValueError, match="asks for nothing"):
        agent.system("Be brief.").start()

    assert model.requests == []


@pytest.mark.parametrize("value", [0, False, ""])
def test_a_falsy_input_is_an_input(make_agent: MakeAgent, value: Any) -> None:
    agent, model = make_agent("ok")

    agent.input(value).instruct("Say it in words.").start()

    assert "[INPUT]" in model.requests[0].last


async def test_requests_that_tasks_write_at_the_same_time_do_not_mix() -> None:
    model = ScriptedModel(_echo)
    agent = Agent(model)

    async def ask(number: int) -> Any:
        agent.input(f"question {number}")
        await asyncio.sleep(0)
        return await agent.async_start()

    assert await asyncio.gather(*map(ask, range(50))) == [f"question {n}" for n in range(50)]


def test_requests_that_threads_write_at_the_same_time_do_not_mix() -> None:
    model = ScriptedModel(_echo)
    agent = Agent(model)

    with ThreadPoolExecutor(8) as pool:
        asked = [f"question {n}" for n in range(40)]
        assert list(pool.map(lambda text: agent.input(text).start(), asked)) == asked


async def test_what_is_written_here_may_be_started_in_another_thread(
    make_agent: MakeAgent,
) -> None:
    agent, _ = make_agent("hello")

    agent.input("hi")

    assert agent.request_prompt.get("input") == "hi"
    assert await asyncio.to_thread(agent.start) == "hello"


@pytest.mark.parametrize(
    ("path", "style", "found"),
    [
        ("a.b[1].c", "dot", [2]),
        ("a.b[*].c", "dot", [1, 2]),
        ("/a/b/1/c", "slash", [2]),
        ("a/b/*/c", "slash", [1, 2]),
        ('["x.y"]', "dot", [3]),
        ("a.b[2].c", "dot", None),
        ("a.z", "dot", None),
    ],
)
def test_a_value_is_found_by_its_path(path: str, style: Any, found: Any) -> None:
    data = {"a": {"b": [{"c": 1}, {"c": 2}]}, "x.y": 3}

    assert find_values(data, path, style) == found


def test_a_path_that_can_not_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="is no path"):
        split_key_path("a..b")
