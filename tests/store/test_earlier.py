"""A store and a lock that an earlier version wrote still hold."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.earlier.program import make_box
from wieldy import Status, Toolbox
from wieldy.mcp.lock import Lock

EARLIER = Path(__file__).parent / "earlier"
NAMES = ["wipe", "count", "erase", "note"]


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Toolbox]:
    """The program of the earlier version over its store and its lock, with this version."""
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript((EARLIER / "store.sql").read_text())
    async with await make_box(f"sqlite:///{file}", str(EARLIER / "tools.lock")) as box:
        yield box


async def test_the_lock_of_an_earlier_version_holds(box: Toolbox) -> None:
    assert not Lock.read(EARLIER / "tools.lock").compare(box)
    assert [tool.name for tool in box.all_tools() if tool.hold is not None] == []


async def test_locking_again_writes_the_same_file(box: Toolbox) -> None:
    assert Lock.of(box).text() == (EARLIER / "tools.lock").read_text()


@pytest.mark.parametrize("name", NAMES)
async def test_a_standing_rule_of_an_earlier_version_holds(box: Toolbox, name: str) -> None:
    arguments = {"path": "a"} if name in ("wipe", "note") else {}

    assert {rule.dead for rule in await box.standing.list()} == {None}
    assert (await box.call(name, arguments, session="known")).status is Status.OK
    assert (await box.call(name, arguments, session="other")).status is Status.PENDING


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_that_an_earlier_version_parked_runs(box: Toolbox, name: str) -> None:
    [parked] = [each for each in await box.pending() if each.call.tool == name]

    assert (await box.approve(parked.id, by="ann")).status is Status.OK
