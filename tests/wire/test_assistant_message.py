"""The assistant's message as it goes back, with usage and thinking, from every provider."""

import json
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, assert_type

import pytest

from tests.wire.test_recordings import EXPECTED, PROVIDERS, as_object, lines
from wieldy import Call, Toolbox
from wieldy.wire import anthropic, gemini, openai, openai_responses
from wieldy.wire.stream_events import Event, TextDelta, ThinkingDelta, Usage


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool(name="send mail")
    def send_mail(to: str = "") -> str:
        return to

    @box.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    @box.tool
    def get_weather(city: str, days: int = 1) -> str:
        return f"{city}: {days}"

    return box


def read(reader: Any, chunks: list[Any]) -> list[Event]:
    return [*(event for chunk in chunks for event in reader.feed(chunk)), *reader.close()]


def facts(calls: list[Call]) -> list[tuple[str, Any, str | None]]:
    return [(call.tool, call.arguments, call.provider_id) for call in calls]


@pytest.mark.parametrize("case", EXPECTED)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("convert", [lambda chunk: chunk, as_object], ids=["dicts", "objects"])
def test_the_message_of_a_stream_holds_the_same_calls_and_is_plain_json(
    provider: str, case: str, convert: Any, box: Toolbox
) -> None:
    wire = import_module(f"wieldy.wire.{provider}")
    reader = wire.StreamReader(box)
    read(reader, [convert(chunk) for chunk in lines(provider, case, "stream")])

    assert json.loads(json.dumps(reader.message)) == reader.message
    assert facts(wire.parse_calls(reader.message, box)) == facts(reader.calls)
    assert EXPECTED[case][0] in json.dumps(reader.message)


def chat(delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **choice}]}


def test_a_chat_message_keeps_fields_that_nobody_knows(box: Toolbox) -> None:
    reader = openai.StreamReader(box)
    call = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "add", "arguments": ""},
    }
    signed = {**call, "extra_content": {"google": {"thought_signature": "c2ln"}}}
    events = read(
        reader,
        [
            chat({"role": "assistant", "content": None, "reasoning_content": "Hm"}),
            chat({"reasoning_content": ", two."}),
            chat({"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "a"}]}),
            chat({"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "b"}]}),
            chat({"content": "Let me "}),
            chat({"content": "add."}),
            chat({"tool_calls": [signed]}),
            chat({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}}]}),
            chat({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
            chat({}, finish_reason="tool_calls"),
        ],
    )

    assert reader.message == {
        "role": "assistant",
        "content": "Let me add.",
        "reasoning_content": "Hm, two.",
        "reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "ab"}],
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "add", "arguments": '{"a": 1}'},
                "extra_content": {"google": {"thought_signature": "c2ln"}},
            }
        ],
    }
    thoughts = [event.text for event in events if isinstance(event, ThinkingDelta)]
    assert thoughts == ["Hm", ", two."]


def test_a_chat_message_of_a_server_that_sends_arguments_as_an_object(box: Toolbox) -> None:
    reader = openai.StreamReader(box)
    read(reader, [chat({"tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]})])

    [call] = reader.message["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": '{"a": 1}'}


def test_a_chat_message_without_calls_has_text_even_if_it_is_empty(box: Toolbox) -> None:
    assert openai.StreamReader(box).message == {"role": "assistant", "content": ""}


def block(index: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def grow(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def test_an_anthropic_message_keeps_thinking_signatures_citations_and_server_tools(
    box: Toolbox,
) -> None:
    reader = anthropic.StreamReader(box)
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}
    events = read(
        reader,
        [
            block(0, type="thinking", thinking="", signature=""),
            grow(0, type="thinking_delta", thinking="Two "),
            grow(0, type="thinking_delta", thinking="numbers."),
            grow(0, type="signature_delta", signature="c2ln"),
            {"type": "content_block_stop", "index": 0},
            block(1, type="redacted_thinking", data="b3BhcXVl"),
            block(2, type="server_tool_use", id="s", name="web_search", input={}),
            grow(2, type="input_json_delta", partial_json='{"query": "x"}'),
            block(3, **found),
            block(4, type="text", text="So"),
            grow(4, type="text_delta", text=" it is."),
            grow(4, type="citations_delta", citation={"url": "u", "cited_text": "it"}),
            block(5, type="tool_use", id="t", name="add", input={}),
            grow(5, type="input_json_delta", partial_json='{"a": 1}'),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        ],
    )

    assert reader.message == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Two numbers.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            found,
            {
                "type": "text",
                "text": "So it is.",
                "citations": [{"url": "u", "cited_text": "it"}],
            },
            {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
        ],
    }
    assert [e.text for e in events if isinstance(e, ThinkingDelta)] == ["Two ", "numbers."]
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["So", " it is."]


def test_a_responses_message_is_the_items_with_their_reasoning(box: Toolbox) -> None:
    reasoning = {"type": "reasoning", "id": "rs", "encrypted_content": "b3BhcXVl", "summary": []}
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}'}
    reader = openai_responses.StreamReader(box)
    events = read(
        reader,
        [
            {"type": "response.reasoning_summary_text.delta", "delta": "Adding."},
            {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
            {"type": "response.output_item.done", "output_index": 1, "item": call},
            {"type": "response.completed", "response": {"output": [reasoning, call]}},
        ],
    )

    assert reader.message == [reasoning, call]
    assert [e.text for e in events if isinstance(e, ThinkingDelta)] == ["Adding."]


def test_a_responses_message_of_a_cut_stream_has_an_item_for_every_call(box: Toolbox) -> None:
    item = {"type": "function_call", "call_id": "c", "name": "add"}
    reader = openai_responses.StreamReader(box)
    read(
        reader,
        [
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {
                "type": "response.function_call_arguments.delta",
                "output_index": 0,
                "delta": '{"a"',
            },
        ],
    )

    assert reader.message == [{**item, "arguments": '{"a"'}]
    assert facts(openai_responses.parse_calls(reader.message, box)) == facts(reader.calls)


def test_a_gemini_content_keeps_signatures_with_their_parts(box: Toolbox) -> None:
    def answer(*parts: dict[str, Any]) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": list(parts)}}]}

    reader = gemini.StreamReader(box)
    read(
        reader,
        [
            answer({"text": "Thin", "thought": True}),
            answer({"text": "king.", "thought": True}),
            answer({"text": "So "}),
            answer({"text": "it is."}),
            answer({"text": "", "thoughtSignature": "c2ln"}),
            answer(
                {
                    "functionCall": {"name": "add", "args": {"a": 1}},
                    "thoughtSignature": "Y2FsbA==",
                }
            ),
        ],
    )

    assert reader.message == {
        "role": "model",
        "parts": [
            {"text": "Thinking.", "thought": True},
            {"text": "So it is."},
            {"text": "", "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "Y2FsbA=="},
        ],
    }


def test_a_gemini_call_in_pieces_goes_back_whole(box: Toolbox) -> None:
    def piece(**call: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}

    reader = gemini.StreamReader(box)
    read(
        reader,
        [
            piece(name="get_weather", willContinue=True),
            piece(partialArgs=[{"jsonPath": "$.city", "stringValue": "Os"}], willContinue=True),
            piece(partialArgs=[{"jsonPath": "$.city", "stringValue": "lo"}]),
        ],
    )

    [part] = reader.message["parts"]
    assert part == {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}


USED: dict[str, tuple[dict[str, Any], Callable[[Any], list[Any]]]] = {
    "openai": (
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        lambda usage: [{"choices": [], "usage": usage}],
    ),
    "openai_responses": (
        {
            "input_tokens": 10,
            "output_tokens": 5,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
        lambda usage: [{"type": "response.completed", "response": {"usage": usage}}],
    ),
    "anthropic": (
        {
            "input_tokens": 3,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": 3,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 2},
        },
        lambda usage: [
            {"type": "message_start", "message": {"usage": {**usage, "output_tokens": 1}}},
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}},
        ],
    ),
    "gemini": (
        {
            "promptTokenCount": 10,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 2,
            "cachedContentTokenCount": 4,
        },
        lambda usage: [{"candidates": [], "usageMetadata": usage}],
    ),
}


@pytest.mark.parametrize("provider", USED)
def test_usage_is_counted_in_one_way_for_all_providers(provider: str, box: Toolbox) -> None:
    sent, chunks = USED[provider]
    reader = import_module(f"wieldy.wire.{provider}").StreamReader(box)

    told = [event for event in read(reader, chunks(sent)) if isinstance(event, Usage)][-1]

    assert told is reader.usage
    counts = (told.input_tokens, told.output_tokens, told.cached_tokens, told.thinking_tokens)
    assert counts == (10, 5, 4, 2)
    assert told.raw == sent


@pytest.mark.parametrize("provider", USED)
@pytest.mark.parametrize("odd", [None, "x", 3, [], {"prompt_tokens": "ten"}, SimpleNamespace()])
def test_usage_of_another_shape_counts_nothing(provider: str, odd: Any, box: Toolbox) -> None:
    reader = import_module(f"wieldy.wire.{provider}").StreamReader(box)
    chunks = [{"usage": odd}, {"usageMetadata": odd}, {"type": "message_start", "message": odd}]

    told = [event for event in read(reader, chunks) if isinstance(event, Usage)]

    assert all(event.input_tokens is event.output_tokens is None for event in told)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["add", "send mail", "no such tool"])
def test_names_map_both_ways(provider: str, name: str, box: Toolbox) -> None:
    wire = import_module(f"wieldy.wire.{provider}")
    sent = wire.provider_name(name)

    known = box.get(name) is not None
    assert wire.tool_name(sent, box) == (name if known else sent)


def test_a_call_begins_under_the_tools_own_name(box: Toolbox) -> None:
    reader = openai.StreamReader(box)
    sent = openai.provider_name("send mail")
    [begun] = reader.feed(chat({"tool_calls": [{"index": 0, "function": {"name": sent}}]}))

    assert begun.type == "call_started"
    assert begun.name == "send mail"
    assert reader.message["tool_calls"][0]["function"]["name"] == sent


def test_an_event_narrows_by_its_type() -> None:
    event: Event = TextDelta("x")
    if event.type == "text":
        assert_type(event, TextDelta)
        assert event.text == "x"


def test_ten_thousand_indexes_are_put_together_in_one_pass(box: Toolbox) -> None:
    reader = openai.StreamReader(box)
    details = [{"index": n, "type": "t", "text": "a"} for n in range(10_000)]
    for _ in range(2):
        reader.feed(chat({"reasoning_details": details}))

    assert len(reader.message["reasoning_details"]) == 10_000
