"""What a model was shown and sent comes back as the same calls, in every native format."""

import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Call, CallDenied, CallTimeout, Outcome, Status, Toolbox
from wieldy.core.choices import ProviderFormat
from wieldy.wire import anthropic, gemini, mcp, openai, openai_responses

NAMES = ["find", "send mail", "1st", "größe", "x" * 80, "_1st"]
BOX = Toolbox()
for each in NAMES:
    BOX.add(lambda **arguments: arguments, name=each, input_schema={"type": "object"})

plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | plain


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    # The one name that has a meaning of its own on the way back.
    return st.dictionaries(plain.filter(lambda name: name != "json_text"), inner, max_size=3)


values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | objects(inner), max_leaves=6
)
sent = st.lists(st.tuples(st.sampled_from(NAMES), objects(values)), min_size=1, max_size=4)
cuts = st.lists(st.integers(1, 7), min_size=1, max_size=5)
Sent = list[tuple[str, dict[str, Any]]]


def shown(provider: ProviderFormat, name: str) -> str:
    (definition,) = BOX.view(names=name).schemas(provider)
    found: str = definition.get("function", definition)["name"]
    return found


def pieces(text: str, cut: list[int]) -> Iterator[str]:
    at = turn = 0
    while at < len(text):
        step = cut[turn % len(cut)]
        yield text[at : at + step]
        at, turn = at + step, turn + 1


def openai_message(calls: Sent) -> Any:
    return {
        "role": "assistant",
        "tool_calls": [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": shown("openai", name), "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(calls)
        ],
    }


def openai_stream(calls: Sent, cut: list[int]) -> Iterator[Any]:
    for number, call in enumerate(openai_message(calls)["tool_calls"]):
        start = {**call, "index": number, "function": {**call["function"], "arguments": ""}}
        yield {"choices": [{"delta": {"tool_calls": [start]}}]}
        for piece in pieces(call["function"]["arguments"], cut):
            more = {"index": number, "function": {"arguments": piece}}
            yield {"choices": [{"delta": {"tool_calls": [more]}}]}
    yield {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


def responses_message(calls: Sent) -> Any:
    return {
        "output": [
            {
                "type": "function_call",
                "call_id": f"c{number}",
                "name": shown("openai-responses", name),
                "arguments": json.dumps(arguments),
            }
            for number, (name, arguments) in enumerate(calls)
        ]
    }


def responses_stream(calls: Sent, cut: list[int]) -> Iterator[Any]:
    for number, item in enumerate(responses_message(calls)["output"]):
        place = {"output_index": number, "item_id": f"i{number}"}
        begun = {**item, "id": f"i{number}", "arguments": ""}
        yield {"type": "response.output_item.added", "item": begun, **place}
        for piece in pieces(item["arguments"], cut):
            yield {"type": "response.function_call_arguments.delta", "delta": piece, **place}
        yield {"type": "response.output_item.done", "item": {**item, "id": f"i{number}"}, **place}
    yield {"type": "response.completed", "response": {"status": "completed"}}


def anthropic_message(calls: Sent) -> Any:
    return {
        "role": "assistant",
        "content": [
            {
                "type": "tool_use",
                "id": f"c{number}",
                "name": shown("anthropic", name),
                "input": arguments,
            }
            for number, (name, arguments) in enumerate(calls)
        ],
    }


def anthropic_stream(calls: Sent, cut: list[int]) -> Iterator[Any]:
    for number, block in enumerate(anthropic_message(calls)["content"]):
        begun = {**block, "input": {}}
        yield {"type": "content_block_start", "index": number, "content_block": begun}
        for piece in pieces(json.dumps(block["input"]), cut):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": number, "delta": delta}
        yield {"type": "content_block_stop", "index": number}
    yield {"type": "message_stop"}


def gemini_message(calls: Sent) -> Any:
    parts = [
        {"functionCall": {"id": f"c{n}", "name": shown("gemini", name), "args": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def gemini_stream(calls: Sent, cut: list[int]) -> Iterator[Any]:
    for part in gemini_message(calls)["candidates"][0]["content"]["parts"]:
        yield {"candidates": [{"content": {"role": "model", "parts": [part]}}]}


FORMATS: dict[str, tuple[ModuleType, Callable[[Sent], Any], Callable[..., Iterator[Any]]]] = {
    "openai": (openai, openai_message, openai_stream),
    "openai-responses": (openai_responses, responses_message, responses_stream),
    "anthropic": (anthropic, anthropic_message, anthropic_stream),
    "gemini": (gemini, gemini_message, gemini_stream),
}


def told(calls: list[Call]) -> list[tuple[str, Any, str | None]]:
    return [(call.tool, call.arguments, call.provider_id) for call in calls]


def expected(calls: Sent) -> list[tuple[str, Any, str | None]]:
    return [(name, arguments, f"c{number}") for number, (name, arguments) in enumerate(calls)]


@pytest.mark.parametrize("provider", FORMATS)
@given(calls=sent)
def test_a_message_gives_the_calls_that_were_put_in(provider: ProviderFormat, calls: Sent) -> None:
    module, message, _ = FORMATS[provider]
    assert told(module.parse_calls(message(calls), BOX)) == expected(calls)


@pytest.mark.parametrize("provider", FORMATS)
@given(calls=sent, cut=cuts)
def test_a_stream_gives_the_same_calls_however_it_is_cut(
    provider: ProviderFormat, calls: Sent, cut: list[int]
) -> None:
    module, _, stream = FORMATS[provider]
    reader = module.StreamReader(BOX)
    for chunk in stream(calls, cut):
        reader.feed(chunk)
    reader.close()
    assert told(reader.calls) == expected(calls)


@given(calls=sent)
def test_a_request_of_mcp_gives_the_call_that_was_put_in(calls: Sent) -> None:
    for name, arguments in calls:
        params = {"name": shown("mcp", name), "arguments": arguments}
        (call,) = mcp.parse_calls({"method": "tools/call", "params": params}, BOX)
        assert (call.tool, call.arguments) == (name, arguments)


def ended(call: Call, status: Status, value: Any) -> Outcome:
    if status is Status.OK:
        return Outcome(call, status, value)
    if status is Status.PENDING:
        return Outcome(call, status)
    denied = CallDenied(call.tool, "no")
    return Outcome(call, status, error=denied if status is Status.DENIED else CallTimeout("t", 1))


def answered(provider: ProviderFormat, messages: list[Any]) -> list[str]:
    match provider:
        case "openai":
            return [each["tool_call_id"] for each in messages if each["role"] == "tool"]
        case "openai-responses":
            return [each["call_id"] for each in messages]
        case "anthropic":
            return [block["tool_use_id"] for each in messages for block in each["content"]]
    return [part["functionResponse"]["id"] for each in messages for part in each["parts"]]


@pytest.mark.parametrize("provider", FORMATS)
@given(calls=sent, statuses=st.lists(st.sampled_from(list(Status)), min_size=4), value=values)
def test_every_call_is_answered_once_and_in_order_whatever_became_of_it(
    provider: ProviderFormat, calls: Sent, statuses: list[Status], value: Any
) -> None:
    module, message, _ = FORMATS[provider]
    parsed = module.parse_calls(message(calls), BOX)
    outcomes = [ended(call, status, value) for call, status in zip(parsed, statuses, strict=False)]
    messages = module.render(outcomes)
    json.dumps(messages, allow_nan=False).encode()
    assert answered(provider, messages) == [call.provider_id for call in parsed]
