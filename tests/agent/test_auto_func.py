"""003.10: functions whose body is the model."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tests.agent.conftest import MakeAgent
from wieldy.wire.structured import StructuredError


class Verdict(BaseModel):
    good: bool
    why: str


def test_003_10_the_signature_the_docstring_and_the_annotation_make_the_request(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent({"words": ["un", "deux"]})

    def translate(text: str, to: str = "French") -> Any:
        """Translate the text word by word."""

    translate.__annotations__["return"] = {"words": [(str, "one word")]}
    asked = agent.auto_func(translate)

    assert asked("one two") == {"words": ["un", "deux"]}
    told = model.requests[0].last
    for words in ('"text": "one two"', '"to": "French"', "Translate the text", "one word"):
        assert words in told
    assert asked.__name__ == "translate"


async def test_003_10_coroutine_functions_are_awaited(make_agent: MakeAgent) -> None:
    agent, _ = make_agent('{"value": 3}', "4")

    @agent.auto_func
    async def count(text: str) -> int:
        """Count the words."""
        return 0

    assert await count("a b c") == 3
    assert await count("a b c d") == 4


@pytest.mark.parametrize(
    ("annotation", "answer", "value"),
    [
        (int, {"value": 3, "reply": "three"}, 3),
        (float, "2.5", 2.5),
        (bool, {"value": True}, True),
        (list[int], {"value": [1, 2]}, [1, 2]),
        (Literal["a", "b"], {"value": "b"}, "b"),
        (str, "just text", "just text"),
        (Verdict, {"good": True, "why": "x"}, Verdict(good=True, why="x")),
    ],
)
def test_003_10_plain_types_give_that_type(
    make_agent: MakeAgent, annotation: Any, answer: Any, value: Any
) -> None:
    agent, _ = make_agent(answer)

    def judge(text: str) -> Any:
        """Judge the text."""

    judge.__annotations__["return"] = annotation

    found = agent.auto_func(judge)("x")

    assert found == value
    assert type(found) is type(value)


def test_003_10_a_value_of_another_type_is_an_error(make_agent: MakeAgent) -> None:
    agent, _ = make_agent({"value": "many"})

    @agent.auto_func
    def count(text: str) -> int:
        """Count the words."""
        return 0

    with pytest.raises(StructuredError, match="type asked for"):
        count("x")


def test_003_10_without_a_return_annotation_it_gives_text(make_agent: MakeAgent) -> None:
    agent, _ = make_agent('{"a": 1}')

    def poem(about: str) -> Any:
        """Write a poem."""

    del poem.__annotations__["return"]

    assert agent.auto_func(poem)("rain") == '{"a": 1}'


def test_003_10_generators_are_refused_at_decoration(make_agent: MakeAgent) -> None:
    agent, _ = make_agent()

    def numbers() -> Iterator[int]:
        yield 1

    async def more() -> AsyncIterator[int]:
        yield 1

    for func in (numbers, more):
        with pytest.raises(TypeError, match="generator"):
            agent.auto_func(func)
    with pytest.raises(TypeError, match="function"):
        agent.auto_func(3)  # type: ignore[type-var]


def test_wrong_arguments_are_a_type_error_and_nothing_is_asked(make_agent: MakeAgent) -> None:
    agent, model = make_agent("never")

    @agent.auto_func
    def count(text: str) -> int:
        """Count the words."""
        return 0

    with pytest.raises(TypeError, match="text"):
        count()  # type: ignore[call-arg]

    assert model.requests == []


async def test_functions_called_at_the_same_time_leave_each_other_and_the_draft_alone(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent(*[{"value": n} for n in range(10)], "drafted")

    @agent.auto_func
    async def count(text: str) -> int:
        """Count the words."""
        return 0

    agent.input("a draft")
    found = await asyncio.gather(*(count(str(n)) for n in range(10)))

    assert sorted(found) == list(range(10))
    assert all("a draft" not in each.text for each in model.requests)
    assert await agent.async_start() == "drafted"
