"""003.9: values as soon as they are there."""

import asyncio
from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from wieldy.testing import Answer

STRUCTURE = {
    "title": (str, "the title"),
    "people": [{"name": (str, "a name"), "age": (int, "in years")}],
    "end": (str, "the last words"),
}
DATA = {
    "title": "Emma",
    "people": [{"name": "Emma", "age": 20}, {"name": "George", "age": 37}],
    "end": "bye",
}


def test_003_9_get_key_result_gives_one_value(make_agent: MakeAgent) -> None:
    agent, model = make_agent(DATA, DATA)

    assert agent.input("q").output(STRUCTURE).get_key_result("people[1].name") == "George"
    assert agent.input("q").output(STRUCTURE).get_key_result("title") == "Emma"
    assert len(model.requests) == 2


async def test_003_9_a_key_does_not_wait_for_the_rest(make_agent: MakeAgent) -> None:
    never = asyncio.Event()
    agent, _ = make_agent(Answer(['{"title": "Emma", ', never, '"end": "bye"}']))

    async with asyncio.timeout(120):
        waited = agent.input("q").output(STRUCTURE).async_get_key_result("title")
        assert await waited == "Emma"


def test_003_9_wait_keys_gives_them_in_stream_order(make_agent: MakeAgent) -> None:
    agent, model = make_agent(DATA)

    found = agent.input("q").output(STRUCTURE).wait_keys(["end", "people[*].name", "title"])

    assert list(found) == [
        ("title", "Emma"),
        ("people[0].name", "Emma"),
        ("people[1].name", "George"),
        ("end", "bye"),
    ]
    assert len(model.requests) == 1


async def test_003_9_async_wait_keys_gives_them_in_stream_order(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(DATA)

    waited = agent.input("q").output(STRUCTURE).async_wait_keys(["end", "title"])

    assert [each async for each in waited] == [("title", "Emma"), ("end", "bye")]


def test_003_9_handlers_run_when_their_key_is_there(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(DATA, DATA)
    seen: list[str] = []

    async def shout(value: str) -> str:
        return value.upper()

    def note(value: str) -> int:
        seen.append(value)
        return len(seen)

    def ask() -> Any:
        written = agent.input("q").output(STRUCTURE).when_key("end", note)
        return written.on_key("title", note).when_key("title", shout).start_waiter()

    assert ask() == [("title", "Emma", 1), ("title", "Emma", "EMMA"), ("end", "bye", 2)]
    assert seen == ["Emma", "bye"]
    assert len(ask()) == 3


async def test_003_9_a_handler_does_not_wait_for_the_rest(make_agent: MakeAgent) -> None:
    rest = asyncio.Event()
    agent, _ = make_agent(Answer(['{"title": "Emma", ', rest, '"end": "bye"}']))

    async def go_on(value: str) -> str:
        rest.set()
        return value

    async with asyncio.timeout(120):
        written = agent.input("q").output(STRUCTURE).when_key("title", go_on)
        assert await written.async_start_waiter() == [("title", "Emma", "Emma")]


@pytest.mark.parametrize(
    "wait",
    [
        lambda agent: agent.get_key_result("title"),
        lambda agent: list(agent.wait_keys(["title"])),
        lambda agent: agent.when_key("title", print).start_waiter(),
    ],
)
def test_003_9_without_an_output_it_is_not_implemented(make_agent: MakeAgent, wait: Any) -> None:
    agent, model = make_agent("never")

    with pytest.raises(NotImplementedError, match="output"):
        wait(agent.input("q"))

    assert model.requests == []


@pytest.mark.parametrize("key", ["name", "people[0].nickname", "people.name", "end.x"])
def test_003_9_a_key_that_must_be_in_the_output_and_is_not(make_agent: MakeAgent, key: str) -> None:
    agent, model = make_agent("never")
    agent.input("q").output(STRUCTURE)

    with pytest.raises(NotImplementedError, match="The output"):
        agent.get_key_result(key, must_in_prompt=True)
    with pytest.raises(NotImplementedError, match="The output"):
        agent.when_key(key, print).start_waiter(must_in_prompt=True)

    assert model.requests == []


@pytest.mark.parametrize("key", ["title", "people", "people[0].name", "people[*].age"])
def test_003_9_a_key_that_must_be_in_the_output_and_is(make_agent: MakeAgent, key: str) -> None:
    agent, _ = make_agent(DATA)

    found = agent.input("q").output(STRUCTURE).get_key_result(key, must_in_prompt=True)

    assert found is not None


def test_003_9_without_handlers_it_is_not_implemented(make_agent: MakeAgent) -> None:
    agent, _ = make_agent("never")

    with pytest.raises(NotImplementedError, match="when_key"):
        agent.input("q").output(STRUCTURE).start_waiter()


def test_003_9_a_key_that_never_came_is_none(make_agent: MakeAgent) -> None:
    agent, _ = make_agent({"title": "Emma"}, {"title": "Emma"})

    assert agent.input("q").output(STRUCTURE).get_key_result("end") is None
    assert list(agent.input("q").output(STRUCTURE).wait_keys(["end", "title"])) == [
        ("title", "Emma")
    ]


def test_what_a_handler_raises_is_raised(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(DATA, DATA)

    def fail(value: str) -> None:
        raise ValueError(value)

    with pytest.raises(ValueError, match="Emma"):
        agent.input("q").output(STRUCTURE).when_key("title", fail).start_waiter()
    with pytest.raises(TypeError, match="handler"):
        agent.when_key("title", 3)  # type: ignore[arg-type]
