"""The whole ledger is read page by page, in an order that does not change on the way."""

import tracemalloc

import pytest

from tests.store.conftest import Execute
from wieldy import Toolbox
from wieldy.store.ledger_pages import CallFilter, read_brief_page

LARGE = 200_000


def fill(url: str, count: int, size: int, same: bool = False) -> str:
    """A statement that inserts calls, the last the newest, or all of one moment."""
    moment = "1" if same else "i"
    text = f"repeat('x', {size})"
    if url.startswith("sqlite"):
        text = f"substr(replace(hex(zeroblob({size})), '0', 'x'), 1, {size})"
    return f"""
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
        INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at, ended_at, value)
        SELECT 'c' || i, 'work', 'ok', 0, {moment}, 2, '"' || {text} || '"' FROM n
    """


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("count", [0, 1, 500, 501, 1300])
async def test_a_walk_gives_what_a_list_gives(
    url: str, execute: Execute, count: int, same: bool
) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        if count:
            execute(fill(url, count, 10, same))
        listed = [entry.call.id for entry in await box.ledger.list(limit=None)]
        walked = [entry.call.id async for entry in box.ledger.walk()]
        assert len(set(listed)) == count
        assert walked == listed
        assert [entry.call.id async for entry in box.ledger.walk(state="error")] == []


async def test_what_a_walk_holds_does_not_grow(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        execute(fill(url, 400, LARGE))
        seen = 0
        tracemalloc.start()
        try:
            async for entry in box.ledger.walk():
                assert len(entry.value) == LARGE
                seen += 1
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert seen == 400
        assert most < 400 * LARGE / 3


async def test_calls_made_on_the_way_are_not_given(url: str) -> None:
    async with Toolbox(store=url) as box:
        box.add(lambda a: a, name="give")
        made = [(await box.call("give", {"a": number})).call.id for number in range(3)]
        walked = []
        async for entry in box.ledger.walk():
            walked.append(entry.call.id)
            await box.call("give", {"a": 7})
        assert walked == made[::-1]


async def test_a_state_that_there_is_not_is_refused(url: str) -> None:
    async with Toolbox(store=url) as box:
        with pytest.raises(ValueError, match="state must be one of"):
            await anext(box.ledger.walk(state="done"))  # type: ignore[arg-type]


async def test_words_are_found_whatever_their_case_and_special_characters(url: str) -> None:
    async with Toolbox(store=url) as box:
        box.add(lambda path: path, name="wipe")
        await box.call("wipe", {"path": "/Grüße/100%_Sure!"})
        found = {
            text: len((await read_brief_page(box.store, CallFilter(text=text), None, 5)).rows)
            for text in ("WIPE", "100%_sure!", "100__sure!", "Grüße wipe", "%x", "", "wipe none")
        }
    assert found == {
        "WIPE": 1,
        "100%_sure!": 1,
        "100__sure!": 0,
        "Grüße wipe": 1,
        "%x": 0,
        "": 1,
        "wipe none": 0,
    }
