"""A model that answers nonsense, breaks off, or never ends: a clear outcome, within limits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from wieldy.agent import Agent, answer_watch
from wieldy.core.call import Call
from wieldy.models.model import ModelEvent, ModelRequest, Reply
from wieldy.models.model_errors import ModelAnswerTooLarge, ModelError, ModelUnavailable
from wieldy.testing import Answer, ScriptedModel
from wieldy.wire.stream_events import CallCompleted, CallStarted, TextDelta
from wieldy.wire.structured import StructuredError

STRUCTURE = {"n": (int, "a number")}


class OwnModel:
    """A model as somebody may write one."""

    name = "own:model"
    context_window = None

    def __init__(self, *events: Any, endless: bool = False, hangs: bool = False) -> None:
        self._events = events
        self._endless = endless
        self._hangs = hangs
        self.closed = 0

    def render(self, request: ModelRequest) -> dict[str, Any]:
        return {"messages": len(request.turns)}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            for event in self._events:
                yield event
            while self._endless:
                yield self._events[-1]
            if self._hangs:
                await asyncio.Event().wait()
        finally:
            self.closed += 1


@pytest.mark.parametrize(
    "text", ["I like trains.", "", "[[[[", "null", "```json\n```", "{{{{", "true"]
)
def test_nonsense_is_an_error_for_data_and_text_all_the_same(
    make_agent: MakeAgent, text: str
) -> None:
    agent, _ = make_agent(text, {"n": 1})
    response = agent.input("q").output({"n": {"m": (int, "")}}).get_response()

    assert response.get_text() == text
    try:
        assert response.get_data() in ({}, [], None) or isinstance(response.get_data(), dict | list)
    except StructuredError as error:
        assert str(error)
    assert agent.input("q").output(STRUCTURE).start() == {"n": 1}


def test_an_answer_without_json_names_what_it_starts_with(make_agent: MakeAgent) -> None:
    agent, _ = make_agent("I like trains.", "")

    with pytest.raises(StructuredError, match="I like trains"):
        agent.input("q").output(STRUCTURE).start()
    with pytest.raises(StructuredError, match="empty"):
        agent.input("q").output(STRUCTURE).start()


def test_half_json_gives_what_came(make_agent: MakeAgent) -> None:
    agent, _ = make_agent('{"n": 1, "more": "hal')

    assert agent.input("q").output(STRUCTURE).start()["n"] == 1


def test_of_two_jsons_one_is_read(make_agent: MakeAgent) -> None:
    agent, _ = make_agent('{"n": 1}\n{"n": 2}')

    assert agent.input("q").output(STRUCTURE).start() in ({"n": 1}, {"n": 2})


def test_nothing_at_all_is_an_empty_text() -> None:
    model = OwnModel()
    agent = Agent(model)

    assert agent.input("q").start() == ""
    assert model.closed == 1


def test_a_model_that_does_not_stream_says_all_in_its_reply() -> None:
    agent = Agent(OwnModel(Reply("own", None, "All at once.")))

    response = agent.input("q").get_response()

    assert list(response.get_generator()) == ["All at once."]
    assert response.get_text() == "All at once."


def test_an_error_in_mid_stream_reaches_every_view_and_the_next_request_works(
    make_agent: MakeAgent,
) -> None:
    agent, _ = make_agent(Answer("Hel", error=ModelUnavailable("m", "it broke off")), "Hello")
    response = agent.input("hi").get_response()

    heard: list[str] = []
    with pytest.raises(ModelUnavailable):
        heard.extend(response.get_generator())
    for view in (response.get_text, response.get_data, response.get_meta):
        with pytest.raises(ModelUnavailable, match="broke off"):
            view()
    assert agent.input("hi").start() == "Hello"


@pytest.mark.parametrize("event", [TextDelta("x" * 10_000), TextDelta(""), CallStarted(0, "add")])
def test_an_endless_stream_ends_at_the_limit(event: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(answer_watch, "MAX_ANSWER", 50_000)
    model = OwnModel(event, endless=True)

    with pytest.raises(ModelAnswerTooLarge, match="50,000"):
        Agent(model).input("q").start()

    assert model.closed == 1


def test_a_silent_model_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_watch, "MAX_SILENCE", 0.01)
    model = OwnModel(TextDelta("Hel"), hangs=True)

    with pytest.raises(ModelUnavailable, match="said nothing"):
        Agent(model).input("q").start()

    assert model.closed == 1


def test_the_limits_are_those_that_are_promised() -> None:
    assert (answer_watch.MAX_ANSWER, answer_watch.MAX_SILENCE) == (4_000_000, 120.0)


def test_a_model_that_keeps_its_own_limits_is_left_to_them(monkeypatch: Any) -> None:
    monkeypatch.setattr(answer_watch, "MAX_ANSWER", 10)
    model = OwnModel(TextDelta("a long answer"))
    model.keeps_limits = True  # type: ignore[attr-defined]

    assert Agent(model).input("q").start() == "a long answer"


async def test_a_thousand_requests_of_one_agent_work() -> None:
    def answer(request: ModelRequest) -> str:
        return str(getattr(request.turns[-1], "content", "")).upper()

    agent = Agent(ScriptedModel(answer))
    asked = [f"question {n}" for n in range(1000)]

    answers = await asyncio.gather(*(agent.input(text).async_start() for text in asked))

    assert answers == [text.upper() for text in asked]


async def test_a_view_may_be_read_on_another_loop(make_agent: MakeAgent) -> None:
    agent, model = make_agent("Hello")
    response = agent.input("hi").get_response()

    texts = await asyncio.gather(
        response.async_get_text(), asyncio.to_thread(response.get_text), response.async_get_text()
    )

    assert list(texts) == ["Hello"] * 3
    assert len(model.requests) == 1


async def test_blocking_code_on_a_running_loop_works(make_agent: MakeAgent) -> None:
    agent, _ = make_agent("Hello", "Again")

    assert agent.input("hi").start() == "Hello"
    assert "".join(agent.input("hi").get_generator()) == "Again"


def test_a_tool_that_asks_the_same_agent_works() -> None:
    model = ScriptedModel(
        [
            {
                "use_tool": True,
                "tool_command": {"purpose": "p", "tool_name": "ask", "tool_kwargs": {"q": "x"}},
            },
            {"use_tool": False},
            "inner",
            "outer",
        ]
    )
    agent = Agent(model)

    @agent.tool_func
    async def ask(q: str) -> str:
        return str(agent.input(q).start())

    assert agent.input("hi").start() == "outer"
    assert '"p": "inner"' in model.requests[3].last


@pytest.mark.parametrize("strategy", ["native", "xml", "judge"])
@pytest.mark.parametrize("tool", [None, 7, b"note", ["note"]])
@pytest.mark.parametrize("last", [True, False])
def test_a_call_that_names_no_tool_is_a_clear_error(strategy: str, tool: Any, last: bool) -> None:
    call = Call(tool, {})
    event: Any = Reply("own", None, "", [call]) if last else CallCompleted(0, call)
    agent = Agent(OwnModel(event), tool_strategy=strategy)

    with pytest.raises(ModelError, match=r"own:model: it gave a call whose tool is .*Call\("):
        agent.input("q").start()


def test_something_else_than_a_call_is_a_clear_error() -> None:
    agent = Agent(OwnModel(Reply("own", None, "", [{"name": "note"}])), tool_strategy="native")  # type: ignore[list-item]

    with pytest.raises(ModelError, match="which is no `Call`"):
        agent.input("q").start()
