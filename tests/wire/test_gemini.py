"""Gemini: calls whole and in pieces, answers paired by order, name and id."""

import re
from typing import Any

import pytest

from wieldy import Call, Outcome, Status, Toolbox
from wieldy.core.block import Image, Text
from wieldy.core.errors import CallTimeout, ToolNotFound
from wieldy.wire import gemini


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    box.add(lambda: None, name="3d view", input_schema={"type": "object"})
    return box


def answer(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}]}


def call(**fields: Any) -> dict[str, Any]:
    return {"functionCall": fields}


def test_a_response_a_content_and_parts_give_their_calls(box: Toolbox) -> None:
    part = call(name="add", args={"a": 1.0, "b": None}, id="x")
    whole = answer({"text": "Hm."}, part)
    content = whole["candidates"][0]["content"]
    for message in (whole, content, content["parts"]):
        [found] = gemini.parse_calls(message, box)
        assert (found.provider_id, found.tool, found.arguments) == ("x", "add", {"a": 1})


def test_a_name_that_begins_with_a_digit_is_changed_and_given_back(box: Toolbox) -> None:
    shown = box.schemas("gemini")[1]["name"]
    [found] = gemini.parse_calls([call(name=shown)], box)
    [content] = gemini.render([Outcome(found, Status.OK, 1)])

    assert shown.startswith("_3d_view_")
    assert (found.tool, found.arguments) == ("3d view", {})
    assert content["parts"][0]["functionResponse"]["name"] == shown


def test_calls_in_one_chunk_and_thoughts_beside_text(box: Toolbox) -> None:
    reader = gemini.StreamReader(box)
    events = [
        *reader.feed(answer({"text": "secret", "thought": True}, {"text": "Hm."})),
        *reader.feed(answer(call(name="add", args={"a": 1}), call(name="add", args={"a": 2}))),
        *reader.feed(answer(finish="STOP")),
    ]

    assert [event.type for event in events] == [
        "thinking", "text",
        "call_started", "call_completed", "call_started", "call_completed", "finished",
    ]  # fmt: skip
    assert [each.arguments for each in reader.calls] == [{"a": 1}, {"a": 2}]


def test_arguments_in_pieces_are_put_where_their_paths_say(box: Toolbox) -> None:
    reader = gemini.StreamReader(box)
    for part in [
        call(name="note", willContinue=True),
        call(partialArgs=[{"jsonPath": "$.text", "stringValue": "Hel"}], willContinue=True),
        call(partialArgs=[{"jsonPath": "$.text", "stringValue": "lo"}], willContinue=True),
        call(partialArgs=[{"jsonPath": "$.tags[1].n", "numberValue": 3}], willContinue=True),
        call(partialArgs=[{"jsonPath": "$['odd name']", "boolValue": False}], willContinue=True),
        call(partialArgs=[{"jsonPath": "$.tags[1].gone", "nullValue": "NULL_VALUE"}]),
    ]:
        reader.feed(answer(part))

    assert [each.arguments for each in reader.calls] == [
        {"text": "Hello", "tags": [None, {"n": 3, "gone": None}], "odd name": False}
    ]


@pytest.mark.parametrize(
    "odd",
    [None, "x", {}, {"candidates": []}, {"candidates": "x"}, {"candidates": [{"content": 3}]},
     {"candidates": [{"content": {"parts": "x"}}]}, answer({"text": 3}), answer({})],
)  # fmt: skip
def test_a_chunk_of_another_shape_says_nothing(odd: Any, box: Toolbox) -> None:
    reader = gemini.StreamReader(box)

    assert reader.feed(odd) == []
    assert gemini.parse_calls(odd, box) == []


def test_answers_carry_values_failures_and_pictures_in_order() -> None:
    blocks = (Text("Here."), Image(b"i", "image/png"))
    outcomes = [
        Outcome(Call("count", {}, provider_id="p"), Status.OK, {"n": 1}),
        Outcome(Call("say", {}), Status.OK, "3"),
        Outcome(Call("look", {}), Status.OK, None, content=blocks),
        Outcome(Call("slow", {}), Status.TIMEOUT, error=CallTimeout("slow", 5)),
        Outcome(Call("a.b", {}), Status.ERROR, error=ToolNotFound("a.b")),
    ]

    [content] = gemini.render(outcomes)

    png = {"inlineData": {"mimeType": "image/png", "data": "aQ=="}}
    assert content["role"] == "user"
    assert [part["functionResponse"] for part in content["parts"]] == [
        {"name": "count", "response": {"output": {"n": 1}}, "id": "p"},
        {"name": "say", "response": {"output": "3"}},
        {"name": "look", "response": {"output": "Here."}, "parts": [png]},
        {"name": "slow", "response": {"error": "slow did not finish within 5 s."}},
        {"name": "a.b", "response": {"error": "There is no tool named 'a.b'."}},
    ]


def test_names_that_must_change_stay_apart_short_and_are_given_back() -> None:
    box = Toolbox()
    names = ["1abc", "_1abc", "1" * 64, "1" * 63 + "2", "-x", "9 lives", "ok"]
    for name in names:
        box.add(lambda: None, name=name, input_schema={"type": "object"})

    shown = [each["name"] for each in box.schemas("gemini")]

    assert len({*shown}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", name) for name in shown)
    calls = gemini.parse_calls([call(name=name, args={}) for name in shown], box)
    assert [each.tool for each in calls] == names


@pytest.mark.parametrize("args", ["x", [1], 3, None])
@pytest.mark.parametrize(
    "path", ["$.a", "$", "", "$[0]", "$.a[" + "9" * 5000 + "]", "$.a[0].b", "$..", 7]
)
def test_odd_pieces_of_arguments_break_nothing(box: Toolbox, path: Any, args: Any) -> None:
    pieces = [{"jsonPath": path, "stringValue": "x"}, {"jsonPath": path, "numberValue": [1]}, 5]
    reader = gemini.StreamReader(box)

    reader.feed(answer(call(name="add", partialArgs=pieces, args=args)))

    assert [each.tool for each in reader.calls] == ["add"]
