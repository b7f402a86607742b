"""OpenAI responses: odd event streams, and answers as input items."""

from typing import Any

import pytest

from wieldy import Call, Outcome, Status, Toolbox
from wieldy.core.block import Audio, Image, Resource, Text
from wieldy.wire import openai_responses as responses


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    return box


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def item(arguments: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "name": "add", "arguments": arguments, **fields}


def test_output_items_give_their_calls(box: Toolbox) -> None:
    output = [
        {"type": "reasoning", "summary": []},
        item('{"a": 1, "b": null}', call_id="x", id="fc_1"),
        {"type": "message", "content": []},
    ]
    for message in ({"output": output}, output):
        [call] = responses.parse_calls(message, box)
        assert (call.provider_id, call.tool, call.arguments) == ("x", "add", {"a": 1})
    assert len(responses.parse_calls(output[1], box)) == 1


def test_interleaved_items_are_told_apart(box: Toolbox) -> None:
    reader = responses.StreamReader(box)
    arguments = "function_call_arguments.delta"
    for each in [
        event("output_item.added", output_index=0, item=item(call_id="x")),
        event("output_item.added", output_index=1, item=item(call_id="y")),
        event(arguments, output_index=1, delta='{"a": 2}'),
        event(arguments, output_index=0, delta='{"a": 1}'),
        event("output_item.done", output_index=1, item=item('{"a": 2}', call_id="y")),
        event("completed", response={"status": "completed"}),
    ]:
        reader.feed(each)

    assert [(call.provider_id, call.arguments) for call in reader.calls] == [
        ("x", {"a": 1}),
        ("y", {"a": 2}),
    ]


def test_arguments_in_one_piece_and_without_an_index_are_read(box: Toolbox) -> None:
    reader = responses.StreamReader(box)
    events = [
        *reader.feed(event("output_item.added", item=item())),
        *reader.feed(event("function_call_arguments.done", arguments='{"a": 1}')),
        *reader.feed(event("output_item.done", item=item('{"a": 1}', call_id="x"))),
    ]

    assert [each.type for each in events] == ["call_started", "arguments", "call_completed"]
    assert [(call.provider_id, call.arguments) for call in reader.calls] == [("x", {"a": 1})]


def test_an_item_that_was_never_announced_is_a_call(box: Toolbox) -> None:
    reader = responses.StreamReader(box)
    reader.feed(event("output_item.done", output_index=4, item=item('{"a": 1}', call_id="x")))

    assert [call.arguments for call in reader.calls] == [{"a": 1}]


def test_a_response_that_was_cut_says_why(box: Toolbox) -> None:
    reader = responses.StreamReader(box)
    response = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}

    [finished] = reader.feed(event("incomplete", response=response))

    assert finished.type == "finished"
    assert finished.reason == "max_output_tokens"


@pytest.mark.parametrize(
    "odd",
    [None, "x", {}, {"type": 3}, event("output_item.added"), event("output_item.done", item="x"),
     event("function_call_arguments.delta", delta="x"), event("output_text.delta", delta=None)],
)  # fmt: skip
def test_an_event_of_another_shape_says_nothing(odd: Any, box: Toolbox) -> None:
    reader = responses.StreamReader(box)

    assert reader.feed(odd) == []
    assert responses.parse_calls(odd, box) == []


def test_pictures_and_files_are_part_of_the_output_and_sound_is_named() -> None:
    blocks = (
        Text("Here."),
        Image(b"i", "image/png"),
        Resource("file:///d.pdf", data=b"p", mime_type="application/pdf", name="d.pdf"),
        Audio(b"a", "audio/wav"),
    )
    outcomes = [
        Outcome(Call("look", {}, provider_id="p"), Status.OK, None, content=blocks),
        Outcome(Call("add", {}, id="ours"), Status.OK, 3),
    ]

    assert responses.render(outcomes) == [
        {
            "type": "function_call_output",
            "call_id": "p",
            "output": [
                {"type": "input_text", "text": "Here."},
                {"type": "input_image", "image_url": "data:image/png;base64,aQ=="},
                {
                    "type": "input_file",
                    "filename": "d.pdf",
                    "file_data": "data:application/pdf;base64,cA==",
                },
                {"type": "input_text", "text": "[audio, audio/wav, 3 bytes, not shown]"},
            ],
        },
        {"type": "function_call_output", "call_id": "ours", "output": "3"},
    ]


@pytest.mark.parametrize("index", [None, 0])
@pytest.mark.parametrize("ids", [("c", "d"), ("", "")])
def test_whole_items_that_share_an_index_stay_apart(
    box: Toolbox, ids: tuple[str, str], index: int | None
) -> None:
    reader = responses.StreamReader(box)
    for n, call_id in enumerate(ids):
        done = item(f'{{"a": {n}}}', call_id=call_id)
        reader.feed(event("output_item.done", output_index=index, item=done))

    assert [call.arguments for call in reader.calls] == [{"a": 0}, {"a": 1}]
