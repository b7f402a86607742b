"""A SQLite file that is deleted or replaced under a running program is noticed, and named."""

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.child import eventually
from tests.store.made_store import make_file
from wieldy import NotRecorded, Outcome, Status, StoreError, StoreUnavailable, Toolbox

_CALLERS = 100


def delete_all(path: Path) -> None:
    """Remove the file with its log, as somebody does who wants to start anew."""
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def delete_file(path: Path) -> None:
    """Remove the file alone."""
    path.unlink()


def delete_log(path: Path) -> None:
    """Remove the log alone."""
    Path(f"{path}-wal").unlink()


def delete_index(path: Path) -> None:
    """Remove the index of the log, where the locks are."""
    Path(f"{path}-shm").unlink()


def replace_log(path: Path) -> None:
    """Put a copy in the place of the log, as somebody does who restores one."""
    log, copy = Path(f"{path}-wal"), path.with_name("copy")
    shutil.copy(log, copy)
    os.replace(copy, log)


def replace_file(path: Path) -> None:
    """Put another store in its place, as somebody does who restores a copy."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    os.replace(path.with_name("other.db"), path)


def move_folder(path: Path) -> None:
    """Move the folder away, and make a new one of its name."""
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.mkdir()


def make_box(path: Path) -> Toolbox:
    """A box with one tool, on a file."""
    box = Toolbox(store=f"sqlite:///{path}")

    @box.tool
    async def work(n: int) -> int:
        """Work."""
        await asyncio.sleep(0)
        return n

    return box


@pytest.mark.parametrize(
    "lose",
    [delete_all, delete_file, delete_log, delete_index, replace_log, replace_file, move_folder],
)
async def test_calls_of_a_hundred_callers_after_a_loss_are_kept_or_told(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "store.db"
    path.parent.mkdir()
    make_file(path.with_name("other.db"))
    lost = asyncio.Event()
    before: list[Outcome] = []
    after: list[Outcome] = []

    async def call_on(box: Toolbox, first: int) -> None:
        while not lost.is_set():
            before.append(await box.call("work", {"n": first}))
        after.extend([await box.call("work", {"n": n}) for n in range(20)])
        assert after[-1].status is Status.OK

    async with make_box(path) as box:
        for n in range(20):
            await box.call("work", {"n": n})
        calling = [asyncio.create_task(call_on(box, n)) for n in range(_CALLERS)]
        await asyncio.sleep(0)
        await box.call("work", {"n": 0})
        lose(path)
        lost.set()
        await asyncio.gather(*calling)

    told = [outcome for outcome in (*before, *after) if outcome.status is not Status.OK]
    assert told
    for outcome in told:
        assert isinstance(outcome.error, NotRecorded) or outcome.status is Status.UNKNOWN
        assert f"its file {path}" in str(outcome.error)
        assert "was deleted or replaced while it was used" in str(outcome.error)
    async with make_box(path) as box:
        kept = {entry.call.id for entry in await box.ledger.list(Status.OK, limit=None)}
    assert {outcome.call.id for outcome in after if outcome.status is Status.OK} <= kept


@pytest.mark.parametrize("lose", [delete_log, delete_index])
async def test_a_log_that_is_deleted_is_noticed(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "store.db"
    async with make_box(path) as box:
        assert (await box.call("work", {"n": 1})).value == 1
        lose(path)
        refused = await box.call("work", {"n": 2})
        assert isinstance(refused.error, NotRecorded)
        assert isinstance(refused.error.__cause__, StoreUnavailable)
        outcome = await box.call("work", {"n": 3})
        assert outcome.value == 3
    async with make_box(path) as box:
        assert await box.ledger.get(outcome.call.id) is not None


_OTHER = """
import asyncio, sys
from wieldy import Toolbox

async def main():
    async with Toolbox(store=sys.argv[1]) as box:
        for n in range(20):
            await box.sessions.append("other", *["hello"] * 50)

asyncio.run(main())
"""


async def test_two_processes_damage_no_file_whose_index_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    written: list[Outcome] = []
    done = asyncio.Event()

    async def call_on(box: Toolbox) -> None:
        while not done.is_set():
            written.append(await box.call("work", {"n": 1}))

    async with make_box(path) as box:
        calling = [asyncio.create_task(call_on(box)) for _ in range(_CALLERS)]
        await box.call("work", {"n": 1})
        delete_index(path)
        command = sys.executable, "-c", _OTHER, f"sqlite:///{path}"
        other = await asyncio.create_subprocess_exec(*command)
        assert await other.wait() == 0
        done.set()
        await asyncio.gather(*calling)
        kept = {entry.call.id for entry in await box.ledger.list(Status.OK, limit=None)}
        assert len(await box.sessions.read("other")) == 1000

    assert {outcome.call.id for outcome in written if outcome.status is Status.OK} <= kept
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_whoever_only_reads_is_told_too_and_reads_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_file(tmp_path / "other.db")
    async with make_box(path) as box:
        assert (await box.call("work", {"n": 1})).value == 1
        assert len(await box.ledger.list()) == 1
        replace_file(path)
        with pytest.raises(StoreUnavailable, match="was deleted or replaced"):
            await box.ledger.list()

        async def read_again() -> bool:
            try:
                return await box.ledger.list() == []
            except StoreUnavailable:
                return False

        await eventually(read_again)
        outcome = await box.call("work", {"n": 2})
        assert [entry.call.id for entry in await box.ledger.list()] == [outcome.call.id]


async def test_a_file_of_a_newer_version_in_its_place_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_file(tmp_path / "other.db")
    async with make_box(tmp_path / "other.db") as box:
        await box.ledger.list()
        await box.store.write(
            lambda c: c.exec_driver_sql("INSERT INTO wieldy_version (number) VALUES (999)")
        )
    async with make_box(path) as box:
        assert (await box.call("work", {"n": 1})).value == 1
        replace_file(path)
        for _ in range(3):
            assert isinstance((await box.call("work", {"n": 2})).error, NotRecorded)


async def test_a_file_that_is_opened_again_after_a_pause_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with make_box(path) as box:
        assert (await box.call("work", {"n": 1})).value == 1
        shutil.copy(path, tmp_path / "copy.db")
    async with make_box(path) as box:
        assert (await box.call("work", {"n": 2})).value == 2
        with pytest.raises(StoreError):
            await box.store.write(lambda c: c.exec_driver_sql("SELECT 1 FROM nowhere"))
        assert (await box.call("work", {"n": 3})).value == 3
