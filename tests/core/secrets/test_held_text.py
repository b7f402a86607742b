"""A secret that is split over what a reader sees piece by piece is covered all the same."""

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Context, Image, Limits, Outcome, Progress, Status, Text, Toolbox
from wieldy.core.block import Block, join_text
from wieldy.core.secrets.held_text import HeldText
from wieldy.core.secrets.secret import MASK, redact_text

PASSWORD = "hunter2-hunter2"
PICTURE = Image(b"picture")


async def _seen(box: Toolbox, tool: str = "spell", **arguments: Any) -> list[Any]:
    return [item async for item in box.stream(tool, **arguments)]


def _box(function: Callable[..., Any], secret: str = PASSWORD, **options: Any) -> Toolbox:
    box = Toolbox()
    box.add(function, "spell", presets={"api_key": secret}, **options)
    return box


async def _by_letters(api_key: str) -> AsyncIterator[str]:
    for letter in f"<{api_key}>":
        yield letter


def _blocking(api_key: str) -> Iterator[str]:
    yield from f"<{api_key}>"


async def _emitted(ctx: Context, api_key: str) -> None:
    for letter in f"<{api_key}>":
        await ctx.emit(letter)


def _emitted_on_a_thread(ctx: Context, api_key: str) -> None:
    assert threading.current_thread() is not threading.main_thread()
    for letter in f"<{api_key}>":
        ctx.emit(letter)


async def _returned(ctx: Context, api_key: str) -> str:
    await ctx.emit(f"<{api_key[:5]}")
    return f"{api_key[5:]}>"


async def _among_others(ctx: Context, api_key: str) -> None:
    await ctx.emit(f"<{api_key[:5]}")
    await ctx.progress(1, 2)
    await ctx.emit(PICTURE)
    await ctx.emit(f"{api_key[5:]}>")


@pytest.mark.parametrize(
    "function",
    [_by_letters, _blocking, _emitted, _emitted_on_a_thread, _returned, _among_others],
)
async def test_a_reader_of_a_stream_never_sees_a_secret_that_is_split(
    function: Callable[..., Any],
) -> None:
    *items, outcome = await _seen(_box(function))

    blocks = [item for item in items if isinstance(item, Block)]
    assert join_text(blocks) == f"<{MASK}>"
    assert outcome.status is Status.OK and join_text(outcome.content) == f"<{MASK}>"


@pytest.mark.parametrize("secret", ['pass"word\n', "p/ss w&rd+1", "käse-käse-käse"])
@pytest.mark.parametrize("escape", [lambda text: json.dumps(text)[1:-1], quote, lambda text: text])
async def test_so_are_the_forms_of_a_secret(secret: str, escape: Callable[[str], str]) -> None:
    async def spell(api_key: str) -> AsyncIterator[str]:
        for letter in f"<{escape(api_key)}>":
            yield letter

    *items, _ = await _seen(_box(spell, secret))
    assert join_text(items) == f"<{MASK}>"


async def test_what_only_looks_like_a_secret_comes_as_it_is_and_in_order() -> None:
    async def spell(ctx: Context, api_key: str) -> None:
        for item in ("a hunt", "er ", "hunter2", PICTURE, "-hunter", "1 hun"):
            await ctx.emit(item)

    *items, outcome = await _seen(_box(spell))

    assert items == [
        Text("a "), Text("hunt"), Text("er "), Text("hunter2"), PICTURE,
        Text("-hunter"), Text("1 "), Text("hun"),
    ]  # fmt: skip
    assert outcome.text == "a hunter hunter2-hunter1 hun"


async def test_without_secrets_every_block_comes_as_it_is() -> None:
    box = Toolbox()

    @box.tool
    async def spell() -> AsyncIterator[str]:
        for piece in ("hunt", "", "er2"):
            yield piece

    *items, _ = await _seen(box)
    assert items == [Text("hunt"), Text(""), Text("er2")]


async def test_progress_does_not_wait_for_text() -> None:
    async def spell(ctx: Context, api_key: str) -> None:
        await ctx.emit("hunter2")
        await ctx.progress(1)
        await ctx.emit(" is short")

    first, second, *_ = await _seen(_box(spell))
    assert isinstance(first, Progress) and second == Text("hunter2")


@pytest.mark.parametrize("limits", [Limits(), Limits(max_result=4), Limits(retries=1)])
async def test_what_was_held_back_is_given_out_in_the_end(limits: Limits) -> None:
    async def good(ctx: Context, api_key: str) -> None:
        await ctx.emit("a hunter2")

    async def bad(ctx: Context, api_key: str) -> None:
        await ctx.emit("a hunter2")
        raise ValueError("no")

    for function in (good, bad):
        *items, outcome = await _seen(_box(function, limits=limits))
        assert join_text(items) == "a hunter2"
        assert isinstance(outcome, Outcome)


async def test_a_live_reader_gets_the_rest_of_what_was_shown() -> None:
    box = _box(_returned)
    shown: list[Any] = [item async for item in box.stream("spell", live=True)]
    *items, outcome = shown
    assert items == [Text("<"), Text(PASSWORD[:5])]
    assert outcome.text == f"<{MASK}>"


pieces = st.lists(st.text("ab-", max_size=5), max_size=12)
secrets = st.lists(st.text("ab-", min_size=1, max_size=7), min_size=1, max_size=3).map(tuple)


@given(pieces, secrets, st.sets(st.integers(0, 11)))
def test_no_cut_lets_a_secret_through_and_no_text_is_lost(
    texts: list[str], kept: tuple[str, ...], pictures: set[int]
) -> None:
    blocks: list[Block] = []
    for number, text in enumerate(texts):
        blocks += [Text(text), *([PICTURE] if number in pictures else [])]
    held, whole = HeldText(), "".join(texts)

    given_out = [item for block in blocks for item in held.take(block, kept)]
    missing = len(whole) - len(join_text(given_out))
    given_out += held.give_all((), kept)

    seen = join_text(given_out)
    assert seen == join_text(HeldText().give_all([Text(whole)], kept))
    assert not any(secret in part for part in seen.split(MASK) for secret in kept)
    assert given_out.count(PICTURE) == blocks.count(PICTURE)
    if redact_text(whole, kept) == whole:
        assert seen == whole and missing < max(map(len, kept))
