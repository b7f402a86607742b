"""Results too large to show."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from wieldy import Call, Context, Image, Outcome, Resource, Secret, Text, Toolbox


class Shelf:
    """A spill function that keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str]] = []

    async def __call__(self, call: Call, whole: str) -> str:
        self.kept.append((call.id, whole))
        return f"shelf:{len(self.kept)}"


async def test_a_large_result_is_cut_with_a_marker() -> None:
    box = Toolbox()

    @box.tool(max_result=10)
    async def long() -> str:
        return "x" * 1234

    outcome = await box.call("long")

    marker = "\n[cut: 10 of 1,234 characters shown, the rest was not kept]"
    assert outcome.value == outcome.text == "x" * 10 + marker
    assert outcome.metadata["cut"] == {"shown": 10, "total": 1234}
    assert "spilled" not in outcome.metadata


async def test_the_whole_is_handed_to_the_spill_function() -> None:
    shelf = Shelf()
    box = Toolbox(spill=shelf)

    @box.tool(max_result=5)
    def rows() -> list[int]:
        return list(range(10))

    outcome = await box.call("rows")

    whole = "[0,1,2,3,4,5,6,7,8,9]"
    assert shelf.kept == [(outcome.call.id, whole)]
    assert outcome.metadata["spilled"] == "shelf:1"
    assert outcome.text == "[0,1,\n[cut: 5 of 21 characters shown, the whole is at shelf:1]"


@pytest.mark.parametrize("length", [0, 9, 10])
async def test_a_result_within_the_limit_is_untouched(length: int) -> None:
    shelf = Shelf()
    box = Toolbox(spill=shelf)

    @box.tool(max_result=10)
    async def short() -> str:
        return "x" * length

    outcome = await box.call("short")

    assert outcome.value == "x" * length
    assert shelf.kept == []
    assert "cut" not in outcome.metadata


async def test_when_spilling_fails_the_whole_value_stays() -> None:
    async def fails(call: Call, whole: str) -> str:
        raise OSError("disk full")

    box = Toolbox(spill=fails)

    @box.tool(max_result=5)
    async def long() -> str:
        return "x" * 100

    outcome = await box.call("long")

    assert outcome.value == "x" * 100
    assert outcome.metadata["spill_error"] == "OSError: disk full"
    assert "cut" not in outcome.metadata


async def test_the_text_of_an_error_is_cut_and_the_error_itself_is_not() -> None:
    box = Toolbox()

    @box.tool(max_result=12)
    async def fail() -> None:
        raise ValueError("a long message, longer than that")

    @box.tool
    async def fail_at_length() -> None:
        raise ValueError("z" * 1_000_000)

    outcome = await box.call("fail")
    assert outcome.text == "ValueError: \n[cut: 12 of 44 characters shown]"
    with pytest.raises(ValueError, match="longer than that"):
        outcome.unwrap()
    endless = await box.call("fail_at_length")
    assert endless.text.endswith("\n[cut: 20,000 of 1,000,012 characters shown]")
    assert len(endless.text) < 20_100


async def test_what_a_failed_call_has_shown_is_cut() -> None:
    box = Toolbox()

    @box.tool(max_result=15)
    async def fail() -> AsyncIterator[str]:
        for _ in range(100):
            yield "0123456789"
        raise ValueError("no")

    outcome = await box.call("fail")
    preview = "012345678901234\n[cut: 15 of 1,000 characters shown]\n"
    assert outcome.content == (Text(preview), Text("ValueError: no"))


async def test_the_text_of_a_resource_counts_and_its_address_stays() -> None:
    box = Toolbox()

    @box.tool(max_result=5)
    async def read() -> Resource:
        return Resource("file:///log", text="0123456789")

    outcome = await box.call("read")
    preview = "01234\n[cut: 5 of 10 characters shown, the rest was not kept]"
    assert outcome.content == (Text(preview), Resource("file:///log"))
    assert outcome.text == preview


async def test_streamed_content_is_cut_in_the_outcome_and_shown_once() -> None:
    shelf = Shelf()
    box = Toolbox(spill=shelf)

    @box.tool(max_result=4)
    async def chunks() -> AsyncIterator[str]:
        for piece in ("abc", "def", "ghi"):
            yield piece

    *shown, outcome = [item async for item in box.stream("chunks")]

    assert shown == [Text("abc"), Text("def"), Text("ghi")]
    assert isinstance(outcome, Outcome)
    assert shelf.kept == [(outcome.call.id, "abcdefghi")]
    assert outcome.text == "abcd\n[cut: 4 of 9 characters shown, the whole is at shelf:1]"
    assert outcome.value == outcome.text
    assert len(outcome.content) == 1


async def test_what_a_tool_emits_counts_and_its_own_short_value_stays() -> None:
    shelf = Shelf()
    box = Toolbox(spill=shelf)

    @box.tool(max_result=6)
    async def log(context: Context) -> int:
        for line in ("one ", "two ", "three "):
            await context.emit(line)
        return 3

    @box.tool(max_result=6)
    def counted() -> Any:
        yield "one two three"
        return 3

    outcome = await box.call("log")
    assert outcome.value == 3
    assert shelf.kept[0][1] == "one two three 3"
    assert outcome.text.startswith("one tw\n[cut: 6 of 15 characters shown")

    outcome = await box.call("counted")
    assert outcome.value == 3
    assert outcome.text.startswith("one tw\n[cut: 6 of 13 characters shown")


async def test_pictures_are_kept_beside_the_cut_text() -> None:
    box = Toolbox()

    @box.tool(max_result=2)
    def mixed() -> Iterator[Any]:
        yield "abcdef"
        yield Image(b"x")

    outcome = await box.call("mixed")

    assert [block.type for block in outcome.content] == ["text", "image"]


async def test_no_secret_is_spilled_or_shown() -> None:
    shelf = Shelf()
    box = Toolbox(spill=shelf)

    async def leak(key: str) -> str:
        return f"key={key} " * 10

    box.add(leak, presets={"key": Secret("hush-hush-1")}, max_result=20)
    outcome = await box.call("leak")

    assert "hush" not in shelf.kept[0][1]
    assert "hush" not in outcome.text


async def test_the_whole_is_kept_in_the_cache_and_cut_each_time() -> None:
    box = Toolbox()
    runs: list[int] = []

    @box.tool(max_result=3, cache=1000.0, read_only=True)
    async def long() -> str:
        runs.append(1)
        return "abcdef"

    first, second = await box.call("long"), await box.call("long")

    assert first.value == second.value
    assert second.metadata["cut"] == {"shown": 3, "total": 6}
    assert len(runs) == 1
