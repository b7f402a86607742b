"""Rows that meet several conditions are found part by part, each once, the newest first."""

import itertools

from tests.store.conftest import Execute
from wieldy import Toolbox
from wieldy.core.permission.parked import ParkedFilter
from wieldy.store.ledger_pages import CallFilter, read_brief_page
from wieldy.store.row_search import Place
from wieldy.store.runs import RunFilter

COUNT = 7000
# Several calls have the same time, also where one part of the search ends and the next begins.
CALLS = f"""
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {COUNT})
    INSERT INTO wieldy_calls (id, tool, state, partial, caller, session, proposed_at, ended_at)
    SELECT 'call ' || i, CASE WHEN i < 3000 THEN 'early' ELSE 'late' END,
        CASE WHEN i % 2000 = 7 THEN 'error' ELSE 'ok' END, 0,
        CASE WHEN i % 3 = 0 THEN 'ann' ELSE 'bob' END,
        CASE WHEN i % 1000 = 7 THEN 'rare' ELSE 'usual' END, i / 3, i / 3 FROM n
"""
RUNS = f"""
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {COUNT})
    INSERT INTO wieldy_runs
        (id, agent, session, parent, state, claim, steps, created_at, changed_at, request)
    SELECT 'run ' || i, 'helper', 'ann', CASE WHEN i % 1000 = 1 THEN NULL ELSE 'outer' END,
        'done', 'x', 1, i / 3, i / 3, '{{}}' FROM n
"""


def expected(tool: str, state: str, caller: str, session: str) -> list[str]:
    fitting = [
        number
        for number in range(1, COUNT + 1)
        if tool in ("", "early" if number < 3000 else "late")
        and state in ("", "error" if number % 2000 == 7 else "ok")
        and caller in ("", "bob" if number % 3 else "ann")
        and session in ("", "rare" if number % 1000 == 7 else "usual")
    ]
    fitting.sort(key=lambda number: (number // 3, f"call {number}"), reverse=True)
    return [f"call {number}" for number in fitting]


async def test_every_combination_of_filters_finds_what_fits_in_order(
    url: str, execute: Execute
) -> None:
    values = (("", "early"), ("", "ok", "error"), ("", "ann", "nobody"), ("", "rare", "usual"))
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        execute(CALLS)
        for tool, state, caller, session in itertools.product(*values):
            asked = CallFilter(state or None, tool or None, session or None, caller=caller or None)
            found = await read_brief_page(box.store, asked, None, 60)
            wanted = expected(tool, state, caller, session)[:60]
            assert [row.id for row in found.rows] == wanted, asked
            assert found.stopped is None


async def test_a_search_that_is_stopped_goes_on_where_it_stopped(
    url: str, execute: Execute
) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        execute(CALLS)
        asked = CallFilter("ok", "early", caller="bob", session="usual")
        found: list[str] = []
        after: Place | None = None
        stops = 0
        while True:
            rows, after = await read_brief_page(box.store, asked, after, COUNT, seconds=0)
            found += [row.id for row in rows]
            if after is None:
                break
            stops += 1
    assert found == expected("early", "ok", "bob", "usual")
    assert stops > 0


async def test_runs_that_are_part_of_no_other_are_found_among_many_that_are(
    url: str, execute: Execute
) -> None:
    async with Toolbox(store=url) as box:
        runs = box.store.runs
        await runs.list()
        execute(RUNS)
        asked = RunFilter("done", "helper", "ann", outermost=True)
        found, stopped = await runs.page(asked, None, 50)
        first, stopped_early = await runs.page(asked, None, 50, seconds=0)
        rest, _ = await runs.page(asked, stopped_early, 50)
    ids = [run.id for run in found]
    assert ids == [f"run {number}001" for number in range(6, 0, -1)] + ["run 1"]
    assert stopped is None and stopped_early is not None
    assert [run.id for run in (*first, *rest)] == ids


async def test_calls_that_somebody_runs_or_that_are_damaged_leave_no_gap_in_a_page(
    url: str, execute: Execute
) -> None:
    async with Toolbox(store=url) as box:
        box.add(lambda: "wiped", name="wipe", permission="confirm")
        made = [(await box.call("wipe")).call.id for _ in range(6)]
        own = (await box.store.opened()).owner.id
        execute(f"UPDATE wieldy_calls SET owner = '{own}' WHERE id = '{made[0]}'")
        execute(f"UPDATE wieldy_calls SET digest = 'x' WHERE id = '{made[2]}'")
        wanted = ParkedFilter(limit=2)
        first = await box.desk.pending(wanted)
        second = await box.desk.pending(wanted._replace(after=(first[-1].at, first[-1].id)))
        everything = await box.pending()
        execute(f"UPDATE wieldy_calls SET owner = NULL WHERE id = '{made[0]}'")
    assert [parked.id for parked in first] == [made[1], made[3]]
    assert [parked.id for parked in second] == [made[4], made[5]]
    assert [parked.id for parked in everything] == [made[1], *made[3:]]
