"""Anthropic messages: odd event streams, and answers as one user message."""

from typing import Any

import pytest

from wieldy import Call, Outcome, Status, Toolbox
from wieldy.core.block import Audio, Image, Resource, Text
from wieldy.core.errors import CallDenied
from wieldy.wire import anthropic


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    return box


def start(index: int | None, sent: Any = None, id: str | None = "x") -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": "add", "input": sent or {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int | None, text: str) -> dict[str, Any]:
    piece = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": piece}


def stop(index: int | None) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def read(box: Toolbox, *events: Any) -> list[tuple[str | None, Any]]:
    reader = anthropic.StreamReader(box)
    for each in events:
        reader.feed(each)
    reader.close()
    return [(call.provider_id, call.arguments) for call in reader.calls]


def test_content_blocks_give_their_calls_and_server_tools_none(box: Toolbox) -> None:
    content = [
        {"type": "text", "text": "Hm."},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "x", "name": "add", "input": {"a": 1, "b": None}},
    ]
    for message in ({"content": content}, content):
        [call] = anthropic.parse_calls(message, box)
        assert (call.provider_id, call.tool, call.arguments) == ("x", "add", {"a": 1})


def test_interleaved_blocks_are_told_apart(box: Toolbox) -> None:
    assert read(
        box,
        start(0, id="x"),
        start(1, id="y"),
        delta(1, '{"a": 2}'),
        delta(0, '{"a": 1}'),
        stop(0),
        stop(1),
    ) == [("x", {"a": 1}), ("y", {"a": 2})]


def test_a_stream_without_indexes_is_read_in_order(box: Toolbox) -> None:
    assert read(
        box,
        start(None, id=None),
        delta(None, '{"a": 1}'),
        stop(None),
        start(None, id="y"),
        delta(None, '{"a": 2}'),
    ) == [(None, {"a": 1}), ("y", {"a": 2})]


def test_arguments_may_come_whole_with_the_block_or_not_at_all(box: Toolbox) -> None:
    assert read(box, start(0, {"a": 1}), stop(0), start(1), stop(1)) == [("x", {"a": 1}), ("x", {})]


def test_events_of_the_sdks_helper_beside_the_raw_ones_add_nothing(box: Toolbox) -> None:
    helper = {"type": "input_json", "partial_json": '{"a"', "snapshot": {}}

    assert read(box, start(0), delta(0, '{"a": 1}'), helper, stop(0)) == [("x", {"a": 1})]


def test_the_end_of_the_message_completes_open_calls_and_says_why(box: Toolbox) -> None:
    reader = anthropic.StreamReader(box)
    reader.feed(start(0))
    reader.feed(delta(0, '{"a": 1'))

    completed, finished = reader.feed(
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
    )

    assert completed.type == "call_completed"
    assert completed.call.arguments == '{"a": 1'
    assert finished.type == "finished"
    assert finished.reason == "max_tokens"


@pytest.mark.parametrize(
    "odd",
    [None, "x", 1, {}, {"type": None}, {"type": "ping"}, {"type": "content_block_start"},
     delta(3, "{}"), stop(7), {"type": "content_block_delta", "index": "0", "delta": "x"},
     {"type": "message_delta", "delta": None}],
)  # fmt: skip
def test_an_event_of_another_shape_says_nothing(odd: Any, box: Toolbox) -> None:
    reader = anthropic.StreamReader(box)

    assert reader.feed(odd) == []
    assert anthropic.parse_calls(odd, box) == []


def test_results_come_in_one_message_with_pictures_and_failures_marked() -> None:
    blocks = (
        Text("Here."),
        Image(b"i", "image/png"),
        Image(b"i", "image/tiff"),
        Resource("file:///d.pdf", data=b"p", mime_type="application/pdf"),
        Audio(b"a", "audio/wav"),
    )
    outcomes = [
        Outcome(Call("look", {}, provider_id="p"), Status.OK, None, content=blocks),
        Outcome(Call("add", {}, provider_id="q"), Status.DENIED, error=CallDenied("add", "no")),
        Outcome(Call("add", {}, id="ours"), Status.PENDING),
    ]

    png = {"type": "base64", "media_type": "image/png", "data": "aQ=="}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "cA=="}
    assert anthropic.render(outcomes) == [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "p",
                    "content": [
                        {"type": "text", "text": "Here."},
                        {"type": "image", "source": png},
                        {"type": "text", "text": "[image, image/tiff, 3 bytes, not shown]"},
                        {"type": "document", "source": pdf},
                        {"type": "text", "text": "[audio, audio/wav, 3 bytes, not shown]"},
                    ],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "q",
                    "content": "The call of add was denied: no",
                    "is_error": True,
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "ours",
                    "content": "The call of add waits for approval as ours. It has not run. "
                    "A person has to agree; calling again would ask for another approval.",
                },
            ],
        }
    ]
    assert anthropic.render([]) == []
