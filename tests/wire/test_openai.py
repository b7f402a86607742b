"""OpenAI chat completions: odd streams, and answers for every kind of end."""

from typing import Any

import pytest

from wieldy import Call, Outcome, Status, Toolbox
from wieldy.core.block import Audio, Image, Resource, Text
from wieldy.core.errors import CallDenied, CallError, CallInterrupted, CallTimeout
from wieldy.wire import openai
from wieldy.wire.stream_events import (
    ArgumentsDelta,
    CallCompleted,
    CallStarted,
    Finished,
    TextDelta,
)


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    box.add(lambda path: path, name="read/file", input_schema={"type": "object"})
    return box


def chunk(*pieces: dict[str, Any], finish: str | None = None, text: str = "") -> dict[str, Any]:
    delta = {"content": text or None, "tool_calls": list(pieces)}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(
    arguments: Any = "", name: str | None = None, index: int | None = None, id: str | None = None
) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def read(box: Toolbox, *chunks: Any) -> list[tuple[str | None, str, Any]]:
    reader = openai.StreamReader(box)
    for each in chunks:
        reader.feed(each)
    reader.close()
    return [(call.provider_id, call.tool, call.arguments) for call in reader.calls]


def test_a_message_gives_its_calls_with_our_names_and_lifted_arguments(box: Toolbox) -> None:
    shown = box.schemas("openai")[1]["function"]["name"]
    message = {
        "tool_calls": [
            {"id": "1", "function": {"name": "add", "arguments": '{"a": 1, "b": null}'}},
            {"id": "2", "function": {"name": shown, "arguments": "{}"}},
            {"id": "3", "function": {"name": "gone", "arguments": ""}},
        ]
    }

    calls = openai.parse_calls(message, box)

    assert [(c.provider_id, c.tool, c.arguments) for c in calls] == [
        ("1", "add", {"a": 1}),
        ("2", "read/file", {}),
        ("3", "gone", {}),
    ]


@pytest.mark.parametrize("raw", ['{"a": 1', "[1]", '"a"', "nope", "[" * 100_000])
def test_arguments_that_are_no_object_stay_as_they_were_sent(raw: str, box: Toolbox) -> None:
    message = {"tool_calls": [{"function": {"name": "add", "arguments": raw}}]}

    [call] = openai.parse_calls(message, box)

    assert call.arguments == raw


async def test_the_engine_tells_what_is_wrong_with_unreadable_arguments(box: Toolbox) -> None:
    message = {"tool_calls": [{"id": "x", "function": {"name": "add", "arguments": '{"a": '}}]}

    [outcome] = await box.call_many(openai.parse_calls(message, box))
    [answer] = openai.render([outcome])

    assert answer["tool_call_id"] == "x"
    assert "Invalid arguments for add" in answer["content"]


def test_the_last_of_two_equal_keys_counts(box: Toolbox) -> None:
    message = {"tool_calls": [{"function": {"name": "add", "arguments": '{"a": 1, "a": 2}'}}]}

    assert openai.parse_calls(message, box)[0].arguments == {"a": 2}


def test_interleaved_calls_are_told_apart_by_their_index(box: Toolbox) -> None:
    assert read(
        box,
        chunk(piece('{"a"', "add", 0, "x"), piece("{", "add", 1, "y")),
        chunk(piece('"a": 5}', index=1)),
        chunk(piece(": 4}", index=0)),
        chunk(finish="tool_calls"),
    ) == [("x", "add", {"a": 4}), ("y", "add", {"a": 5})]


@pytest.mark.parametrize(
    "pieces",
    [
        [piece('{"a": 1}', "add", None, "x"), piece('{"a": 2}', "add", None, "y")],
        [piece('{"a": 1}', "add", 0, "x"), piece('{"a": 2}', "add", 0, "y")],
        [piece('{"a":', "add", None, "x"), piece(" 1}"), piece('{"a": 2}', "add", None, "y")],
        [piece({"a": 1}, "add", 0, "x"), piece({"a": 2}, "add", 1, "y")],
    ],
    ids=["no index", "one index for all", "no index in pieces", "arguments as an object"],
)
def test_calls_without_a_proper_index_are_told_apart(
    pieces: list[dict[str, Any]], box: Toolbox
) -> None:
    chunks = [chunk(each) for each in pieces]

    assert read(box, *chunks) == [("x", "add", {"a": 1}), ("y", "add", {"a": 2})]


def test_ids_that_repeat_or_are_missing_still_give_calls_of_their_own(box: Toolbox) -> None:
    reader = openai.StreamReader(box)
    reader.feed(chunk(piece('{"a": 1}', "add", 0, "same"), piece('{"a": 2}', "add", 1, "same")))
    reader.feed(chunk(piece('{"a": 3}', "add", 2), finish="tool_calls"))

    assert [call.provider_id for call in reader.calls] == ["same", "same", None]
    assert len({call.id for call in reader.calls}) == 3


def test_an_id_and_a_name_in_every_piece_is_one_call(box: Toolbox) -> None:
    chunks = [chunk(piece(part, "add", 0, "x")) for part in ('{"a"', ": 1", "}")]

    assert read(box, *chunks) == [("x", "add", {"a": 1})]


def test_a_name_that_comes_late_is_told_when_it_comes(box: Toolbox) -> None:
    reader = openai.StreamReader(box)

    assert reader.feed(chunk(piece("", None, 0, "x"))) == []
    [started] = reader.feed(chunk(piece("", "add", 0)))

    assert isinstance(started, CallStarted)
    assert started.name == "add"


def test_the_events_of_a_stream_come_in_order(box: Toolbox) -> None:
    reader = openai.StreamReader(box)
    chunks = [
        chunk(text="Hm."),
        chunk(piece('{"a"', "add", 0, "x")),
        chunk(piece(": 1}", index=0)),
        chunk(finish="tool_calls"),
    ]

    events = [event for each in chunks for event in reader.feed(each)]

    assert [type(event) for event in events] == [
        TextDelta, CallStarted, ArgumentsDelta, ArgumentsDelta, CallCompleted, Finished,
    ]  # fmt: skip
    assert repr(events[2]) == "ArgumentsDelta(index=0, delta='{\"a\"')"
    finished = events[-1]
    assert finished.type == "finished"
    assert finished.reason == "tool_calls"


@pytest.mark.parametrize(
    "odd",
    [
        None, "text", 3, [], {}, {"choices": None}, {"choices": "x"}, {"choices": [None]},
        {"choices": [{"delta": "x", "index": 0}]}, {"choices": [{"delta": {"content": 3}}]},
        {"choices": [{"delta": {"tool_calls": {"a": 1}}}]}, {"choices": [{"finish_reason": 3}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
    ],
)  # fmt: skip
def test_a_chunk_of_another_shape_says_nothing(odd: Any, box: Toolbox) -> None:
    reader = openai.StreamReader(box)

    assert reader.feed(odd) == []
    assert openai.parse_calls(odd, box) == []
    assert reader.close() == []


def test_megabytes_of_arguments_in_small_pieces_are_put_together_once(box: Toolbox) -> None:
    reader = openai.StreamReader(box)
    reader.feed(chunk(piece('{"a": "', "add", 0, "x")))
    part = chunk(piece("y" * 100, index=0))
    for _ in range(20_000):
        [event] = reader.feed(part)
        assert isinstance(event, ArgumentsDelta)
    reader.feed(chunk(piece('"}', index=0), finish="tool_calls"))

    [call] = reader.calls
    assert isinstance(call.arguments, dict)
    assert len(call.arguments["a"]) == 2_000_000


def ended(status: Status, error: CallError | None = None, value: Any = None) -> Outcome:
    return Outcome(Call("add", {}, id=f"c{status}"), status, value, error)


def test_every_kind_of_end_is_answered_in_words() -> None:
    outcomes = [
        ended(Status.OK, value=3),
        ended(Status.DENIED, CallDenied("add", "no")),
        ended(Status.TIMEOUT, CallTimeout("add", 5)),
        ended(Status.INTERRUPTED, CallInterrupted("add")),
        ended(Status.PENDING),
    ]

    assert [message["content"] for message in openai.render(outcomes)] == [
        "3",
        "The call of add was denied: no",
        "add did not finish within 5 s.",
        "The call of add was interrupted.",
        "The call of add waits for approval as cpending. It has not run. A person has to agree; "
        "calling again would ask for another approval.",
    ]


def test_every_call_is_answered_once_and_in_the_order_of_the_calls() -> None:
    first, second, third = (Call("add", {}, id=name) for name in "abc")
    outcomes = [
        Outcome(third, Status.OK, 3),
        Outcome(first, Status.PENDING),
        Outcome(first, Status.OK, 1),
    ]

    messages = openai.render(outcomes, [first, second, third])

    assert [(message["tool_call_id"], message["content"]) for message in messages] == [
        ("a", "1"),
        ("b", "The call of add was interrupted."),
        ("c", "3"),
    ]


def test_pictures_and_sound_follow_in_a_user_message() -> None:
    blocks = (
        Text("Here."),
        Image(b"i", "image/png"),
        Audio(b"a", "audio/wav"),
        Audio(b"o", "audio/ogg"),
        Resource("file:///x", text="words"),
        Resource("file:///y", mime_type="text/csv"),
    )
    outcome = Outcome(Call("look", {}, provider_id="p"), Status.OK, None, content=blocks)
    other = Outcome(Call("add", {}, provider_id="q"), Status.OK, None)

    assert openai.render([outcome, other]) == [
        {
            "role": "tool",
            "tool_call_id": "p",
            "content": "Here.\n[image in the next user message]\n"
            "[audio in the next user message]\n[audio, audio/ogg, 3 bytes, not shown]\n"
            "words\n[resource file:///y: file:///y, text/csv]",
        },
        {"role": "tool", "tool_call_id": "q", "content": "(no output)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "From look (p):"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aQ=="}},
                {"type": "text", "text": "From look (p):"},
                {"type": "input_audio", "input_audio": {"data": "YQ==", "format": "wav"}},
            ],
        },
    ]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("id", [None, "c"])
@pytest.mark.parametrize("index", [None, 0])
def test_whole_calls_that_share_index_and_id_stay_apart(
    box: Toolbox, index: int | None, id: str | None, apart: bool
) -> None:
    first = piece('{"a": 1}', "add", index, id)
    second = piece('{"a": 2}', "add", index, id)
    chunks = [chunk(first), chunk(second)] if apart else [chunk(first, second)]

    assert read(box, *chunks) == [(id, "add", {"a": 1}), (id, "add", {"a": 2})]


def test_a_name_and_an_id_that_are_repeated_with_every_piece_are_one_call(box: Toolbox) -> None:
    texts = ["", '{"a": {', "}", "}", ""]

    found = read(box, *(chunk(piece(each, "add", 0, "c")) for each in texts))

    assert found == [("c", "add", {"a": {}})]
