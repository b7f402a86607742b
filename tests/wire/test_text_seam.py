"""Characters that a stream cuts in two halves, as servers with UTF-16 text do."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Toolbox
from wieldy.wire import anthropic, gemini, openai, openai_responses
from wieldy.wire.text_seam import TextSeam

SUN = "🌞"
HALVES = [SUN.encode("utf-16-le")[:2], SUN.encode("utf-16-le")[2:]]
HIGH, LOW = (half.decode("utf-16-le", "surrogatepass") for half in HALVES)


def utf16_pieces(text: str, size: int) -> list[str]:
    """The text as JavaScript cuts it."""
    data = text.encode("utf-16-le")
    cut = [data[start : start + 2 * size] for start in range(0, len(data), 2 * size)]
    return [piece.decode("utf-16-le", "surrogatepass") for piece in cut]


@given(st.text(), st.integers(1, 4))
def test_pieces_give_the_text_again(text: str, size: int) -> None:
    seam = TextSeam()
    joined = [seam.join(piece) for piece in utf16_pieces(text, size)]
    assert "".join(joined) == text
    for piece in joined:
        piece.encode("utf-8")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [([HIGH, "x"], "�x"), ([LOW], "�"), (["a" + HIGH, HIGH, LOW], "a�" + SUN), ([HIGH], "")],
)
def test_half_a_character_alone_can_still_be_written(pieces: list[str], text: str) -> None:
    seam = TextSeam()
    assert "".join(map(seam.join, pieces)) == text


def _openai() -> list[Any]:
    def chunk(delta: Any, reason: str | None = None) -> Any:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    def call(arguments: str, **more: Any) -> Any:
        return {"tool_calls": [{"index": 0, "function": {"arguments": arguments, **more}}]}

    deltas: list[Any] = [{"reasoning_content": each} for each in (HIGH, LOW)]
    deltas += [{"content": each} for each in (HIGH, LOW)]
    deltas += [call('{"a": "' + HIGH, name="t"), call(LOW + '"}')]
    return [*map(chunk, deltas), chunk({}, "tool_calls")]


def _responses() -> list[Any]:
    item = {"type": "function_call", "call_id": "c", "name": "t", "arguments": ""}
    kind = "response.function_call_arguments.delta"
    return [
        {"type": "response.reasoning_text.delta", "delta": HIGH},
        {"type": "response.reasoning_text.delta", "delta": LOW},
        {"type": "response.output_text.delta", "delta": HIGH},
        {"type": "response.output_text.delta", "delta": LOW},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": kind, "output_index": 0, "delta": '{"a": "' + HIGH},
        {"type": kind, "output_index": 0, "delta": LOW + '"}'},
        {"type": "response.completed", "response": {"status": "completed"}},
    ]


def _anthropic() -> list[Any]:
    def block(index: int, begun: Any, *deltas: Any) -> list[Any]:
        start = {"type": "content_block_start", "index": index, "content_block": begun}
        more = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        return [start, *more, {"type": "content_block_stop", "index": index}]

    def pieces(kind: str, name: str, *texts: str) -> list[Any]:
        return [{"type": kind, name: each} for each in texts]

    return [
        *block(
            0,
            {"type": "thinking", "thinking": ""},
            *pieces("thinking_delta", "thinking", HIGH, LOW),
        ),
        *block(1, {"type": "text", "text": ""}, *pieces("text_delta", "text", HIGH, LOW)),
        *block(
            2,
            {"type": "tool_use", "id": "c", "name": "t", "input": {}},
            *pieces("input_json_delta", "partial_json", '{"a": "' + HIGH, LOW + '"}'),
        ),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]


def _gemini() -> list[Any]:
    def chunk(*parts: Any, **facts: Any) -> Any:
        return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **facts}]}

    thoughts = [chunk({"text": each, "thought": True}) for each in (HIGH, LOW)]
    words = [chunk({"text": each}) for each in (HIGH, LOW)]
    call = chunk({"functionCall": {"name": "t", "args": {"a": SUN}}}, finishReason="STOP")
    return [*thoughts, *words, call]


@pytest.mark.parametrize(
    ("reader", "chunks"),
    [
        (openai.StreamReader, _openai()),
        (openai_responses.StreamReader, _responses()),
        (anthropic.StreamReader, _anthropic()),
        (gemini.StreamReader, _gemini()),
    ],
)
def test_every_reader_joins_text_thinking_arguments_and_its_message(
    reader: Any, chunks: list[Any]
) -> None:
    reading = reader(Toolbox())
    events = [event for chunk in chunks for event in reading.feed(chunk)]

    assert [event.text for event in events if event.type == "text"] == [SUN]
    assert [event.text for event in events if event.type == "thinking"] == [SUN]
    assert [call.arguments for call in reading.calls] == [{"a": SUN}]
    json.dumps(reading.message, ensure_ascii=False).encode("utf-8")
