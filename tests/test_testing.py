"""The model that users' own tests are written with."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from wieldy import Call, ContextTooLong, Toolbox
from wieldy.models import Answers, Model, ModelEvent, ModelRequest, Reply, Said, Turn
from wieldy.testing import Answer, ScriptedModel
from wieldy.wire.stream_events import Finished, TextDelta, Usage


def _ask(*texts: str, tools: Toolbox | None = None) -> ModelRequest:
    return ModelRequest([Said("user", text) for text in texts or ("Hello",)], tools)


async def _read(model: Model, request: ModelRequest | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or _ask())]


async def _reply(model: Model, request: ModelRequest | None = None) -> Reply:
    last = (await _read(model, request))[-1]
    assert isinstance(last, Reply)
    return last


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool(name="the weather")
    def weather(city: str, days: int | None = None) -> str:
        """The weather in a city."""
        return f"{city}: sunny"

    return box


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("plain", "plain"),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        (None, "null"),
        (Answer(["Hel", "lo"]), "Hello"),
        (lambda request: request.turns[0].content.upper(), "HELLO"),
        ("", ""),
    ],
)
async def test_an_answer_is_text_or_becomes_json(answer: Any, text: str) -> None:
    reply = await _reply(ScriptedModel([answer]))
    assert (reply.text, reply.calls, reply.finish_reason) == (text, (), "stop")


async def test_answers_come_in_order_and_the_request_after_the_last_says_what_was_asked() -> None:
    model = ScriptedModel(["one", "two"])
    assert [(await _reply(model)).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(AssertionError, match=r"asked 3 times and has no answer left.*: And now\?"):
        await _read(model, _ask("And now?"))


async def test_one_function_answers_every_request() -> None:
    async def answer(request: ModelRequest) -> str:
        return f"{len(request.turns)} turns"

    model = ScriptedModel(answer)
    assert (await _reply(model, _ask("a"))).text == "1 turns"
    assert (await _reply(model, _ask("a", "b"))).text == "2 turns"


@pytest.mark.parametrize(
    ("chunks", "pieces"), [(3, ["abc", "def", "g"]), (1, list("abcdefg")), (None, ["abcdefg"])]
)
async def test_text_comes_in_the_chosen_chunks(chunks: int | None, pieces: list[str]) -> None:
    events = await _read(ScriptedModel(["abcdefg"], chunks=chunks))
    assert [event.text for event in events if isinstance(event, TextDelta)] == pieces


@pytest.mark.parametrize("chunks", [1, 7, None])
async def test_calls_are_streamed_under_the_names_that_a_provider_sees(
    box: Toolbox, chunks: int | None
) -> None:
    asked = [Call("the weather", {"city": "Tromsø"}), Call("gone", {"x": 1}, provider_id="mine")]
    model = ScriptedModel([["Let me look.", *asked]], chunks=chunks)

    reply = await _reply(model, _ask(tools=box))

    assert reply.text == "Let me look."
    assert [(call.tool, call.arguments, call.provider_id) for call in reply.calls] == [
        ("the weather", {"city": "Tromsø"}, "call_1_1"),
        ("gone", {"x": 1}, "mine"),
    ]
    assert reply.finish_reason == "tool_calls"
    assert reply.raw["tool_calls"][0]["function"]["name"] == model.requests[0].tool_names[0]


async def test_thinking_usage_and_the_reason_are_part_of_an_answer() -> None:
    answer = Answer("Yes.", thinking="Hmm, well.", usage=(10, 2), finish_reason="length")
    reply = await _reply(ScriptedModel([answer]))
    assert (reply.thinking, reply.finish_reason) == ("Hmm, well.", "length")
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 2)


async def test_an_exception_is_raised_at_once_or_after_a_part_of_the_answer() -> None:
    model = ScriptedModel([OSError("gone"), Answer("half of", error=OSError("later"))], chunks=4)
    with pytest.raises(OSError, match="gone"):
        await _read(model)
    seen: list[str] = []
    with pytest.raises(OSError, match="later"):
        async for event in model.stream(_ask()):
            assert isinstance(event, TextDelta)
            seen.append(event.text)
    assert seen == ["half", " of"]


async def test_events_are_given_as_they_are_with_the_reply_that_they_amount_to() -> None:
    usage = Usage(1, 2, None, None, {})
    given = [TextDelta("a"), TextDelta("b"), usage, Finished("stop")]
    events = await _read(ScriptedModel([given]))
    assert events[:-1] == given
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.usage, reply.finish_reason) == ("ab", usage, "stop")


@pytest.mark.parametrize(
    "gated", [lambda gate: Answer("late", gate=gate), lambda gate: Answer(["la", gate, "te"])]
)
async def test_an_answer_waits_for_its_gate(gated: Callable[[asyncio.Event], Answer]) -> None:
    gate = asyncio.Event()
    model = ScriptedModel([gated(gate)])
    reading = asyncio.create_task(_reply(model))
    await asyncio.wait_for(model.asked(), 120)
    assert not reading.done()

    gate.set()

    assert (await asyncio.wait_for(reading, 120)).text == "late"


async def test_what_was_asked_is_recorded_as_it_was(box: Toolbox) -> None:
    call = Call("the weather", {"city": "Oslo"}, provider_id="c1")
    model = ScriptedModel([call, "Sunny."])
    first = await _reply(model, _ask("How is it?", tools=box))
    outcomes = await box.call_many(list(first.calls))
    turns: list[Turn] = [Said("user", "How is it?"), first, Answers(outcomes, first.calls)]

    await _reply(model, ModelRequest(turns, box, {"temperature": 0}))

    second = model.requests[1]
    assert [message["role"] for message in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[1] == first.raw
    assert second.last == "Oslo: sunny"
    assert "How is it?" in second.text
    assert second.body["temperature"] == 0
    assert model.render(second.request) == second.body


async def test_what_another_provider_s_model_said_is_translated() -> None:
    reply = Reply("anthropic", {"content": []}, "Wait.", [Call("a b", {"x": 1}, provider_id="t1")])
    request = ModelRequest([Said("user", "Go"), reply])
    [_, message] = ScriptedModel().render(request)["messages"]
    assert message["content"] == "Wait."
    [call] = message["tool_calls"]
    assert (call["id"], call["function"]["arguments"]) == ("t1", '{"x": 1}')


async def test_messages_that_outgrow_the_context_are_refused_with_figures() -> None:
    model = ScriptedModel(["never"], context_window=100)
    with pytest.raises(ContextTooLong, match="an estimate") as caught:
        await _read(model, _ask("word " * 1000))
    assert caught.value.excess is not None and caught.value.excess > 1000
    assert model.requests == []


def test_a_blocking_program_and_a_second_loop_use_the_same_model() -> None:
    model = ScriptedModel(["one", "two"])
    assert [asyncio.run(_reply(model)).text for _ in range(2)] == ["one", "two"]
