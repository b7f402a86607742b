"""What is done all the time looks at the calls that are open, however many have ended."""

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from tests.store.conftest import Execute
from wieldy import Toolbox
from wieldy.store.ledger_pages import CallFilter, read_brief_page
from wieldy.store.row_values import STATES

MANY = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at, ended_at, owner, value)
    SELECT 'ended ' || i, 'work', 'ok', 0, i, i, 'somebody', '"a value of some length"' FROM n
"""


@contextmanager
def listening(table: str = "wieldy_calls") -> Iterator[dict[str, Any]]:
    """The statements on a table that are executed inside, with their values."""
    said: dict[str, Any] = {}

    def hear(_c: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        if table in statement and statement.startswith(("SELECT", "UPDATE", "DELETE")):
            said[statement] = values

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield said
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


async def test_no_step_that_is_made_often_goes_through_all_calls(
    url: str, execute: Execute
) -> None:
    box = Toolbox(store=url)

    @box.tool(permission="confirm")
    async def work() -> None:
        """Do something."""

    async with box:
        await box.call("work", session="s")
        await box.artifacts.create("a", "text", session="s")
        execute(MANY)
        execute("ANALYZE wieldy_calls")
        with listening() as said:
            for status in ("pending", "approved", "started", "unknown"):
                await box.ledger.list(state=status)
            await box.ledger.list(session="s")
            await box.pending()
            await box.pending(agent="a", session="s")
            await box.recover()
            await box.store.delete_session("s")
            await box.close()
        assert any("owner NOT IN" in statement.replace("(", "") for statement in said)
        assert any("DELETE FROM wieldy_owners" in statement for statement in said)
        for statement, values in said.items():
            plan = await planned(box, statement, values)
            assert "Seq Scan on wieldy_calls" not in plan, f"{statement}\n{plan}"
            assert "SCAN wieldy_calls" not in plan, f"{statement}\n{plan}"
            if "coalesce" in statement:
                # Those of a session that wait are few, those that have ended may be many.
                assert "wieldy_calls_waiting" in plan, f"{statement}\n{plan}"
            assert "SCAN wieldy_artifacts" not in plan, f"{statement}\n{plan}"


RARE = """
    INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at, ended_at, owner)
    VALUES ('rare', 'rare', 'denied', 0, 7, 7, 'somebody')
"""


async def test_calls_are_listed_by_an_index_whatever_they_are_listed_by(
    url: str, execute: Execute
) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        execute(MANY)
        execute(RARE)
        execute("ANALYZE wieldy_calls")
        with listening() as said:
            assert [entry.call.id for entry in await box.ledger.list(tool="rare")] == ["rare"]
            for state in STATES:
                found = len(await box.ledger.list(state=state, limit=7))
                assert found == {"ok": 7, "denied": 1}.get(state, 0)
            assert await box.ledger.list(tool="x" * 5000) == []
            assert len(await box.ledger.list(tool="work", state="ok")) == 50
            assert len(await box.ledger.list(since=4990, until=4995)) == 5
            for walk in (
                box.ledger.walk(tool="work"),
                box.ledger.walk(state="ok"),
                box.ledger.walk(),
            ):
                # That is the third page, which is read like all further ones.
                assert len([await anext(walk) for _ in range(1001)]) == 1001
                await walk.aclose()
            assert len(await box.ledger.ids("ended", limit=3)) == 3
        assert any("LIMIT" in statement and "<=" in statement for statement in said)
        await assert_indexed(box, said)


async def test_the_pages_of_the_api_are_ranges_of_an_index(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        execute(MANY)
        execute(RARE)
        execute("UPDATE wieldy_calls SET caller = 'ann', parent = 'ended 1' WHERE id = 'rare'")
        execute("ANALYZE wieldy_calls")
        with listening() as said:
            for asked in (CallFilter(caller="ann"), CallFilter(parent="ended 1")):
                found = await read_brief_page(box.store, asked, None, 10)
                assert [row.id for row in found.rows] == ["rare"]
            later = await read_brief_page(box.store, CallFilter(), (2000.0, "ended 2000"), 10)
            assert [row.id for row in later.rows] == [f"ended {n}" for n in range(1999, 1989, -1)]
        await assert_indexed(box, said)


async def test_whoever_follows_looks_at_what_is_open_or_new(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        execute(MANY)
        execute(RARE)
        execute("ANALYZE wieldy_calls")
        with listening() as said:
            entries = box.ledger.follow(last=1, tool="rare")
            assert (await anext(entries)).call.id == "rare"
            waiting = asyncio.ensure_future(anext(entries))
            execute(RARE.replace("'rare', 'rare'", "'new', 'rare'").replace("7", str(time.time())))
            assert (await waiting).call.id == "new"
        assert len(said) > 5
        await assert_indexed(box, said)


MANY_RUNS = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    INSERT INTO wieldy_runs
        (id, agent, session, parent, state, claim, steps, created_at, changed_at, request)
    SELECT 'run ' || i, 'agent ' || i, 'session ' || i, 'outer ' || i,
        CASE WHEN i % 1000 = 0 THEN 'failed' WHEN i % 1000 = 1 THEN 'running'
        WHEN i % 1000 = 2 THEN 'crashed' ELSE 'done' END, 'x', 1, i, i, '{}' FROM n
"""


async def test_runs_are_listed_by_an_index_whatever_they_are_listed_by(
    url: str, execute: Execute
) -> None:
    async with Toolbox(store=url) as box:
        runs = box.store.runs
        await runs.list()
        execute(MANY_RUNS)
        execute("ANALYZE wieldy_runs")
        with listening("wieldy_runs") as said:
            for state in ("failed", "running", "crashed"):
                assert len(await runs.list(state)) == 5
            assert [run.id for run in await runs.list(agent="agent 7")] == ["run 7"]
            assert [run.id for run in await runs.list(session="session 8")] == ["run 8"]
            assert [run.id for run in await runs.inside("outer 9")] == ["run 9"]
        await assert_indexed(box, said, "wieldy_runs")


async def assert_indexed(box: Toolbox, said: dict[str, Any], table: str = "wieldy_calls") -> None:
    """No statement goes through all rows, not even in the order of an index."""
    for statement, values in said.items():
        if statement.startswith("SELECT count(*)"):
            # Nobody counts far, so that all rows are as good as an index where most of them match.
            continue
        plan = await planned(box, statement, values)
        assert f"Seq Scan on {table}" not in plan, f"{statement}\n{plan}"
        # An index over few rows is gone through from end to end.
        passed = [line for line in plan.splitlines() if f"SCAN {table}" in line]
        some = [
            line
            for line in passed
            if re.search("USING INDEX .*_(left|carried_on|long_tool)$", line)
        ]
        everything = "WHERE" not in statement
        assert everything or passed == some, f"{statement}\n{plan}"


async def planned(box: Toolbox, statement: str, values: Any) -> str:
    """How the database would execute a statement."""
    sqlite = "?" in statement
    explain = f"EXPLAIN {'QUERY PLAN ' if sqlite else ''}{statement}"
    rows = await box.store.read(lambda c: c.exec_driver_sql(explain, values).all())
    return "\n".join(str(row[-1]) for row in rows)
