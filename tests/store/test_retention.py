"""A store forgets what is old, never what is open, and gives its space back."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.child import Children, eventually
from tests.store.server import Server
from wieldy import Retention, Status, StoreUnavailable, Toolbox

Execute = Callable[[str], str]
DAY = 86_400


def make_box(url: str, retention: Retention | None = None) -> Toolbox:
    box = Toolbox(store=url, retention=retention)

    @box.tool
    async def work(n: int = 0) -> int:
        """Work."""
        return n

    @box.tool(permission="confirm")
    async def risk(n: int = 0) -> int:
        """Work if a person agrees."""
        return n

    return box


def age(execute: Execute, call_id: str, days: float) -> None:
    """Make a call look old."""
    seconds = days * DAY
    execute(
        f"UPDATE wieldy_calls SET proposed_at = proposed_at - {seconds}, "
        f"ended_at = ended_at - {seconds} WHERE id = '{call_id}'"
    )


def size_in(folder: Path) -> int:
    """How large a SQLite store is, with its journal."""
    return sum(path.stat().st_size for path in folder.glob("store.db*"))


async def kept(box: Toolbox) -> list[Any]:
    return [entry.value for entry in await box.ledger.list(limit=None)]


async def test_calls_are_kept_for_their_days(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        for n in range(3):
            outcome = await box.call("work", {"n": n})
            age(execute, outcome.call.id, (91, 89, 0)[n])
        long_parked = await box.call("risk", {"n": 3})
        age(execute, long_parked.call.id, 91)
        await box.approve(long_parked.call.id)
        assert (await box.store.prune())["calls"] == 1
        assert await kept(box) == [2, 1, 3]
        assert (await box.store.prune())["calls"] == 0


@pytest.mark.parametrize("state", ["pending", "approved", "started", "unknown"])
async def test_what_is_open_stays_however_old_it_is(url: str, execute: Execute, state: str) -> None:
    async with make_box(url, Retention(days=1, calls=1)) as box:
        for n in range(5):
            outcome = await box.call("work", {"n": n})
            age(execute, outcome.call.id, 1000)
        execute(f"UPDATE wieldy_calls SET state = '{state}'")
        ended = await box.call("work", {"n": 5})
        age(execute, ended.call.id, 2)
        assert (await box.store.prune())["calls"] == 1
        assert execute("SELECT count(*) FROM wieldy_calls") == "5"


async def test_the_newest_calls_are_kept_by_count(url: str) -> None:
    async with make_box(url, Retention(days=None, calls=3)) as box:
        for n in range(10):
            await box.call("work", {"n": n})
        parked = await box.call("risk")
        assert (await box.store.prune())["calls"] == 8
        assert await kept(box) == [None, 9, 8]
        assert [each.id for each in await box.pending()] == [parked.call.id]


async def test_thousands_go_in_small_steps(url: str, execute: Execute) -> None:
    async with make_box(url, Retention(calls=10)) as box:
        for start in range(0, 1500, 500):
            await asyncio.gather(*(box.call("work", {"n": start + n}) for n in range(500)))
        assert (await box.store.prune())["calls"] == 1490
        assert execute("SELECT count(*) FROM wieldy_calls") == "10"


async def test_sessions_are_kept_by_idle_days_and_messages_by_count(
    url: str, execute: Execute
) -> None:
    async with make_box(url, Retention(days=30, messages=5)) as box:
        sessions = box.sessions
        for name in ("idle", "long", "short"):
            await sessions.append(name, *range(3 if name == "short" else 1203))
        old = time.time() - 31 * DAY
        execute(f"UPDATE wieldy_sessions SET updated_at = {old} WHERE id = 'idle'")
        counts = await box.store.prune()
        assert (counts["sessions"], counts["messages"]) == (1, 1198)
        assert {each.id: each.messages for each in await sessions.list()} == {
            "long": 5,
            "short": 3,
        }
        assert await sessions.read("idle") == []
        assert await sessions.read("long") == [*range(1198, 1203)]
        assert await sessions.append("long", "more") == 1204
        assert await sessions.fork("long", "fork", upto=1200) == 1200
        assert await sessions.read("fork") == [1198, 1199]
        assert await sessions.fork("long", "early", upto=7) == 7
        assert await sessions.read("early") == []
        lengths = {each.id: each.messages for each in await sessions.list()}
        assert (lengths["long"], lengths["fork"], lengths["early"]) == (6, 2, 0)


async def test_none_keeps_everything(url: str, execute: Execute) -> None:
    unbounded = Retention(days=None, calls=None, messages=None, versions=None)
    async with make_box(url, unbounded) as box:
        outcome = await box.call("work")
        age(execute, outcome.call.id, 10_000)
        await box.sessions.append("s", 1)
        execute("UPDATE wieldy_sessions SET updated_at = 0")
        assert set((await box.store.prune()).values()) == {0}
        assert await kept(box) == [0]


@pytest.mark.parametrize("bound", [0, -1, float("nan"), float("inf"), True, "90", 1.5])
@pytest.mark.parametrize("name", ["days", "calls", "messages", "versions"])
def test_a_bound_that_is_none_is_refused(name: str, bound: Any) -> None:
    if (name, bound) == ("days", 1.5):
        assert Retention(days=1.5).days == 1.5
        return
    with pytest.raises(ValueError, match=f"{name} must be a number above 0 or None"):
        Retention(**{name: bound})


async def test_an_opened_store_prunes_by_itself_once_an_hour(url: str, execute: Execute) -> None:
    async def old_call(box: Toolbox) -> None:
        outcome = await box.call("work")
        age(execute, outcome.call.id, 91)

    async def is_empty() -> bool:
        return execute("SELECT count(*) FROM wieldy_calls") == "0"

    async with make_box(url) as box:
        await old_call(box)
    execute("UPDATE wieldy_chores SET done_at = done_at - 3601")
    async with make_box(url) as box:
        await box.ledger.list()
        await eventually(is_empty)
    execute(f"UPDATE wieldy_chores SET done_at = {time.time() - 3000}")
    async with make_box(url) as box:
        await old_call(box)
    async with make_box(url) as box:
        await box.ledger.list()
    assert not await is_empty(), "the hour is not over"
    execute("UPDATE wieldy_chores SET done_at = done_at + 100000")
    async with make_box(url) as box:
        await box.ledger.list()
        await eventually(is_empty)


OLD = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at, ended_at)
    SELECT 'old ' || i, 'work', 'ok', 0, i, i FROM n
"""


async def test_processes_that_live_for_a_moment_prune_together(url: str, execute: Execute) -> None:
    async def is_empty_after_a_moment() -> bool:
        async with make_box(url) as box:
            await box.ledger.list(limit=1)
        return execute("SELECT count(*) FROM wieldy_calls") == "0"

    async with make_box(url) as box:
        await box.ledger.list()
    execute(OLD)
    execute("UPDATE wieldy_chores SET done_at = 0")
    await eventually(is_empty_after_a_moment)


async def test_who_has_no_bound_leaves_pruning_to_others(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        await box.ledger.list()
    execute("UPDATE wieldy_chores SET done_at = 0")
    async with Toolbox(store=url, retention=Retention.unbounded()) as box:
        await box.ledger.list()
    assert execute("SELECT done_at = 0 FROM wieldy_chores") in ("1", "t")


async def test_all_of_a_session_is_deleted_but_its_open_calls(url: str) -> None:
    async with make_box(url) as box:
        for session in ("s", "t"):
            for n in range(2):
                await box.call("work", {"n": n}, session=session)
            await box.call("risk", session=session)
            await box.sessions.append(session, 1, 2, 3)
            await box.standing.deny("work", session=session)
        counts = await box.store.delete_session("s")
        assert (
            counts.items()
            >= {
                "calls": 2,
                "messages": 3,
                "sessions": 1,
                "rules": 1,
                "open": 1,
            }.items()
        )
        assert len(await box.ledger.list(session="t")) == 3
        assert [entry.state for entry in await box.ledger.list(session="s")] == ["pending"]
        assert await box.sessions.read("s") == []
        assert await box.sessions.read("t") == [1, 2, 3]
        assert (await box.call("work", session="s")).status is Status.OK
        assert (await box.call("work", session="t")).status is Status.DENIED
        assert set((await box.store.delete_session("nobody")).values()) == {0}


async def test_a_process_killed_while_it_deletes_a_session_leaves_it_whole(
    url: str, children: Children
) -> None:
    async with make_box(url) as box:
        await box.call("work", session="s")
        await box.sessions.append("s", 1)
        child = children.start(death="commit:3")
        child.send("delete_session", session="s")
        child.wait()
        assert child.rest() == []
        assert await box.sessions.read("s") == [1]
        assert len(await box.ledger.list(session="s")) == 1
        assert children.start().ask("delete_session", session="s")["counts"]["calls"] == 1
        assert await box.ledger.list(session="s") == []


async def test_vacuum_gives_space_back_while_calls_go_on(url: str, tmp_path: Path) -> None:
    async with make_box(url) as box:
        await box.sessions.append("s", *("x" * 1000 for _ in range(3000)))
        await box.sessions.delete("s")
        size = size_in(tmp_path)
        calls = [box.call("work", {"n": n}) for n in range(50)]
        *outcomes, _ = await asyncio.gather(*calls, box.store.vacuum())
        assert [outcome.value for outcome in outcomes if outcome] == [*range(50)]
        if url.startswith("sqlite"):
            assert size > 3_000_000
            assert size_in(tmp_path) < 1_000_000
        assert sorted(await kept(box)) == [*range(50)]


@pytest.mark.parametrize("others", ["BEGIN IMMEDIATE", "BEGIN"])
async def test_vacuum_says_that_others_are_in_the_way(tmp_path: Path, others: str) -> None:
    path = tmp_path / "store.db"
    async with make_box(f"sqlite:///{path}?timeout=0.1") as box:
        await box.call("work")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(others)
            other.execute("SELECT count(*) FROM wieldy_calls").fetchall()
            with pytest.raises(StoreUnavailable, match="another process holds the database"):
                await box.store.vacuum()
        assert (await box.call("work")).status is Status.OK
        await box.store.vacuum()


async def test_vacuum_waits_for_a_lock_only_so_long(server: Server) -> None:
    async with make_box(server.new_database()) as box:
        await box.call("work")
        holding = asyncio.to_thread(
            server.execute,
            "BEGIN; LOCK TABLE wieldy_messages IN EXCLUSIVE MODE; SELECT pg_sleep(5); COMMIT",
            "test",
        )
        held = asyncio.ensure_future(holding)

        async def is_locked() -> bool:
            sql = "SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND relation > 0"
            return (await asyncio.to_thread(server.execute, sql, "test")).strip() != "0"

        await eventually(is_locked)
        with pytest.raises(StoreUnavailable, match="another process holds the database"):
            await box.store.vacuum()
        await held
        await box.store.vacuum()


def test_a_retention_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="retention takes a Retention"):
        Toolbox(store="sqlite:///never.db", retention=30)  # type: ignore[arg-type]
