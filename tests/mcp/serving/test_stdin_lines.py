"""Standard input as lines."""

import asyncio
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from wieldy.mcp.serving.stdin_lines import Lines


async def lines_of(*chunks: bytes) -> list[str]:
    """The lines of what is written in these pieces."""
    reading, writing = os.pipe()
    lines = Lines(reading)

    def write() -> None:
        for chunk in chunks:
            os.write(writing, chunk)
        os.close(writing)

    try:
        async with asyncio.timeout(120):
            _, found = await asyncio.gather(asyncio.to_thread(write), _all(lines))
        return found
    finally:
        os.close(reading)


async def _all(lines: Lines) -> list[str]:
    return [line async for line in lines]


@given(st.lists(st.text(alphabet="ab\n ü", max_size=20), max_size=20))
@settings(max_examples=50, deadline=None)
def test_lines_do_not_depend_on_how_they_are_cut(pieces: list[str]) -> None:
    whole = "".join(pieces).encode()
    found = asyncio.run(lines_of(*(piece.encode() for piece in pieces)))
    *lines, rest = whole.decode().split("\n")

    assert found == [*lines, *([rest] if rest.strip() else [])]


async def test_many_lines_come_in_order() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))

    assert await lines_of(text.encode()) == [f"line {number}" for number in range(10_000)]


async def test_the_end_of_a_line_that_is_too_long_is_no_message() -> None:
    found = await lines_of(b"x" * 5_000_000, b'{"a": 1}\n', b'{"b": 2}\n')

    assert found[-1] == '{"b": 2}'
    assert all(line.startswith("!") for line in found[:-1])


async def test_whoever_writes_large_lines_waits_for_the_reader() -> None:
    reading, writing = os.pipe()
    written: list[int] = []

    def write() -> None:
        for _ in range(40):
            os.write(writing, b"x" * 1_000_000 + b"\n")
            written.append(1_000_000)
        os.close(writing)

    lines = Lines(reading)
    writer = asyncio.create_task(asyncio.to_thread(write))
    async with asyncio.timeout(120):
        # It takes this long to write the rest, if nobody stops it.
        await asyncio.wait([writer], timeout=1)
        assert sum(written) < 15_000_000
        assert len(await _all(lines)) == 40
        await writer
    os.close(reading)


async def test_it_can_end_while_nothing_comes() -> None:
    reading, writing = os.pipe()
    lines = Lines(reading)
    lines.close()
    async with asyncio.timeout(120):
        assert await _all(lines) == []
    os.close(writing)
