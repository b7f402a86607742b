"""Content blocks, and how any value becomes one."""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from wieldy import Audio, Block, Image, Outcome, Progress, Resource, Status, Text, Toolbox
from wieldy.core.block import Showable, join_text, to_blocks, to_text

DATA = base64.b64encode(b"\x00\x01").decode()


class Point(BaseModel):
    x: int


@dataclass
class Pair:
    a: int


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("block", "shape"),
    [
        (Text("hi"), {"type": "text", "text": "hi"}),
        (Image(b"\x00\x01"), {"type": "image", "data": DATA, "mimeType": "image/png"}),
        (Image(DATA, "image/gif"), {"type": "image", "data": DATA, "mimeType": "image/gif"}),
        (Audio(b"\x00\x01"), {"type": "audio", "data": DATA, "mimeType": "audio/wav"}),
        (
            Resource("file:///a", text="hi", mime_type="text/plain"),
            {
                "type": "resource",
                "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "hi"},
            },
        ),
        (
            Resource("file:///a", data=b"\x00\x01"),
            {"type": "resource", "resource": {"uri": "file:///a", "blob": DATA}},
        ),
        (
            Resource("file:///a"),
            {"type": "resource_link", "name": "file:///a", "uri": "file:///a"},
        ),
        (
            Resource("file:///a", name="A", mime_type="text/plain"),
            {
                "type": "resource_link",
                "name": "A",
                "uri": "file:///a",
                "mimeType": "text/plain",
            },
        ),
    ],
)
def test_block_has_the_shape_of_mcp(block: Block, shape: dict[str, Any]) -> None:
    assert block.to_dict() == shape


def test_blocks_are_equal_when_they_say_the_same() -> None:
    assert Text("a") == Text("a") != Text("b")
    assert Image(b"a", "x/y") != Audio(b"a", "x/y")
    assert {Text("a"), Text("a"), Text("\ud800")} == {Text("\ud800"), Text("a")}


def test_repr_of_a_large_block_is_short() -> None:
    shown = repr(Image(b"\0" * 1_000_000))

    assert len(shown) < 200
    assert "characters" in shown


def test_progress_is_a_plain_record() -> None:
    progress = Progress(1, 2, "half")

    assert progress.to_dict() == {"type": "progress", "done": 1, "total": 2, "message": "half"}
    assert repr(progress) == "Progress(done=1, total=2, message='half')"


@pytest.mark.parametrize(
    ("value", "blocks"),
    [
        (None, ()),
        ("text", (Text("text"),)),
        ("", (Text(""),)),
        (Text("a"), (Text("a"),)),
        ([Text("a"), Image(b"b")], (Text("a"), Image(b"b"))),
        ((Text("a"),), (Text("a"),)),
        ([], (Text("[]"),)),
        ([Text("a"), 1], (Text('[{"type":"text","text":"a"},1]'),)),
        (False, (Text("false"),)),
        (Point(x=1), (Text('{"x":1}'),)),
        ([Pair(1)], (Text('[{"a":1}]'),)),
        (b"\x00\x01", (Text('"AAE="'),)),
        (float("nan"), (Text('"NaN"'),)),
    ],
)
def test_any_value_becomes_blocks(value: Any, blocks: tuple[Block, ...]) -> None:
    assert to_blocks(value) == blocks


def _loop() -> Any:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


def _deep() -> Any:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (_loop, "<dict nested more than 100 levels deep>"),
        (_deep, "<list nested more than 100 levels deep>"),
        (Rude, '"<Rude that can\'t be shown>"'),
        (lambda: {"a": Rude()}, '{"a":"<Rude that can\'t be shown>"}'),
        (lambda: {"a": "\ud800"}, "{'a': '\\ud800'}"),
    ],
)
async def test_tool_may_return_what_json_can_not_hold(make: Callable[[], Any], text: str) -> None:
    box = Toolbox()

    async def give() -> Any:
        return make()

    box.add(give)
    outcome = await box.call("give")

    assert (outcome.status, outcome.text) == ("ok", text)


def test_text_of_blocks_is_joined_and_the_rest_left_out() -> None:
    blocks = [Text("a"), Image(b"x"), Resource("u", text="b"), Resource("u"), Text("")]

    assert join_text(blocks) == "ab"
    assert to_text("as it is") == "as it is"


class Trap(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("not today")


async def test_a_value_that_can_not_be_iterated_is_still_an_outcome() -> None:
    box = Toolbox()
    box.add(lambda: Trap([1]), name="trap")
    items = [item async for item in box.stream("trap")]
    assert isinstance(items[-1], Outcome)
    assert items[-1].status is Status.OK
    assert items[-1].text != ""


async def test_a_value_that_repeats_what_came_before_shows_only_what_is_new() -> None:
    class Repeating(Showable):
        def __init__(self, text: str) -> None:
            self.text = text

        def to_blocks(self, shown: Sequence[Block] = ()) -> tuple[Block, ...]:
            return (Text(self.text.removeprefix(join_text(shown))),)

    def count() -> Iterator[Repeating]:
        yield from (Repeating("1"), Repeating("12"), Repeating("123"))

    box = Toolbox()
    box.add(count)

    assert [getattr(item, "text", None) async for item in box.stream("count")] == [
        "1", "2", "3", "123",
    ]  # fmt: skip
