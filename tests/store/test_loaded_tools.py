"""The lists of tools that sessions have loaded, in a store."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.store.conftest import Execute
from wieldy import Retention, StoreError, Toolbox


@pytest.fixture
async def box(url: str) -> AsyncIterator[Toolbox]:
    async with Toolbox(store=url) as box:
        yield box


async def append(box: Toolbox, session: str, name: str) -> None:
    def change(names: Sequence[str]) -> tuple[Sequence[str], None]:
        return [*names, name], None

    await box.store.loaded_tools.change_list(session, change)


async def test_lists_that_change_at_once_lose_nothing(url: str, box: Toolbox) -> None:
    async with Toolbox(store=url) as other:
        boxes = (box, other) * 8
        await asyncio.gather(*(append(each, "s", str(n)) for n, each in enumerate(boxes)))

        names = await other.store.loaded_tools.read_list("s")

    assert sorted(names or (), key=int) == [str(number) for number in range(16)]
    assert await box.store.loaded_tools.read_list("t") is None


async def test_a_change_that_fails_leaves_the_list_as_it_was(box: Toolbox) -> None:
    await append(box, "s", "a")

    def fail(names: Sequence[str]) -> tuple[Sequence[str], None]:
        raise KeyError("no")

    with pytest.raises(StoreError):
        await box.store.loaded_tools.change_list("s", fail)
    assert await box.store.loaded_tools.read_list("s") == ["a"]


async def test_hostile_names_and_sessions_come_back_as_they_were(box: Toolbox) -> None:
    for session in ("\x00", "\ud800", "'; DROP TABLE x"):
        await append(box, session, f"{session} tool")
        assert await box.store.loaded_tools.read_list(session) == [f"{session} tool"]


async def test_a_list_goes_with_its_session(box: Toolbox) -> None:
    await append(box, "s", "a")
    await append(box, "t", "a")

    assert (await box.store.delete_session("s"))["loaded_tools"] == 1
    assert await box.store.loaded_tools.read_list("s") is None
    assert await box.store.loaded_tools.read_list("t") == ["a"]


async def test_retention_removes_lists_that_nobody_changes(url: str, execute: Execute) -> None:
    async with Toolbox(store=url, retention=Retention(days=1)) as box:
        await append(box, "old", "a")
        await append(box, "new", "a")
        execute("UPDATE wieldy_loaded_tools SET changed_at = 1 WHERE session = 'old'")

        assert (await box.store.prune())["loaded_tools"] == 1
        assert await box.store.loaded_tools.read_list("new") == ["a"]


async def test_a_store_from_before_gets_the_table(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        await box.sessions.append("s", "hello")
    execute("DROP TABLE wieldy_loaded_tools")
    execute("DELETE FROM wieldy_version WHERE number > 9")

    async with Toolbox(store=url) as box:
        await append(box, "s", "a")
        assert await box.sessions.read("s") == ["hello"]


@pytest.mark.parametrize("text", ["no json", "{}", "[1]", "null"])
async def test_a_row_that_can_not_be_read_starts_again(
    box: Toolbox, execute: Execute, text: str
) -> None:
    await append(box, "s", "a")
    execute(f"UPDATE wieldy_loaded_tools SET names = '{text}'")

    assert await box.store.loaded_tools.read_list("s") == []
    await append(box, "s", "b")
    assert await box.store.loaded_tools.read_list("s") == ["b"]
