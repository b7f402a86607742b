"""Runs in a store: one process at a time carries a run on, and nothing is written by another."""

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from tests.store.child import Children
from wieldy import Toolbox
from wieldy.core.run_errors import RunBusy, RunNotFound, RunTaken
from wieldy.store.retention import Retention
from wieldy.store.runs import RunClaim, Runs

Execute = Callable[[str], str]


@pytest.fixture
async def box(url: str) -> AsyncIterator[Toolbox]:
    """A toolbox on an empty store."""
    async with Toolbox(store=url) as box:
        yield box


@pytest.fixture
def runs(box: Toolbox) -> Runs:
    """Its runs."""
    return box.store.runs


async def begin(runs: Runs, **facts: str) -> RunClaim:
    return await runs.begin(uuid4().hex, "helper", '{"input": "hi"}', '{"n": 0}', **facts)


async def test_a_run_is_its_steps_in_order(runs: Runs) -> None:
    claim = await begin(runs, session="s")
    await runs.save(claim, 1, '{"n": 1}')
    await runs.save(claim, 2, '{"n": 2}', "done", {"text": "x"})

    found = await runs.get(claim.run)
    assert found is not None
    assert (found.agent, found.session, found.state, found.steps) == ("helper", "s", "done", 3)
    assert (found.request, found.answer) == ({"input": "hi"}, {"text": "x"})
    assert await runs.steps(claim.run) == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_a_run_that_is_carried_on_can_not_be_taken(runs: Runs) -> None:
    claim = await begin(runs)

    with pytest.raises(RunBusy, match=claim.run):
        await runs.take(claim.run)


async def test_a_run_that_waits_is_taken_by_exactly_one(url: str, runs: Runs) -> None:
    claim = await begin(runs)
    await runs.save(claim, 1, "{}", "interrupted")
    async with Toolbox(store=url) as other:
        both = (runs, other.store.runs)
        taken = await asyncio.gather(
            *(each.take(claim.run) for each in both * 4), return_exceptions=True
        )

    assert sum(not isinstance(each, BaseException) for each in taken) == 1
    assert sum(isinstance(each, RunBusy) for each in taken) == 7


async def test_a_run_that_is_begun_twice_in_a_process_is_carried_on_by_the_first(
    runs: Runs,
) -> None:
    first = await begin(runs)
    second = await runs.begin(first.run, "helper", "{}", "{}")

    with pytest.raises(RunTaken, match=first.run):
        await runs.save(second, 1, '{"n": "second"}')
    await runs.save(first, 1, '{"n": 1}')
    assert await runs.steps(first.run) == [{"n": 0}, {"n": 1}]


async def test_who_was_taken_for_dead_can_not_write_a_step_any_more(runs: Runs) -> None:
    claim = await begin(runs)
    await runs.leave(claim, "crashed")
    _, other = await runs.take(claim.run)
    assert other is not None

    with pytest.raises(RunTaken, match=claim.run):
        await runs.save(claim, 1, '{"late": True}')
    await runs.save(other, 1, '{"n": 1}')
    assert await runs.steps(claim.run) == [{"n": 0}, {"n": 1}]


async def test_who_was_taken_for_dead_goes_on_where_nobody_took_over(
    runs: Runs, execute: Execute
) -> None:
    claim = await begin(runs)
    execute("UPDATE wieldy_runs SET state = 'crashed', owner = NULL")

    await runs.save(claim, 1, '{"n": 1}')

    found = await runs.get(claim.run)
    assert found is not None and (found.state, found.steps) == ("running", 2)


async def test_a_run_of_a_dead_process_has_crashed_and_is_taken(
    runs: Runs, children: Children, execute: Execute
) -> None:
    child = children.start()
    child.ask("call", tool="act", arguments={"n": 1})
    owner = execute("SELECT id FROM wieldy_owners WHERE pid <> 0 ORDER BY pulse DESC LIMIT 1")
    claim = await begin(runs)
    execute(f"UPDATE wieldy_runs SET owner = '{owner}'")
    with pytest.raises(RunBusy):
        await runs.take(claim.run)
    child.kill()

    found, taken = await runs.take(claim.run)

    assert found.state == "crashed"
    assert taken is not None


async def test_a_done_run_is_given_and_not_taken(runs: Runs) -> None:
    claim = await begin(runs)
    await runs.save(claim, 1, "{}", "done", {"text": "x"})

    found, taken = await runs.take(claim.run)

    assert (found.answer, taken) == ({"text": "x"}, None)


async def test_an_unknown_run_is_not_found(runs: Runs) -> None:
    with pytest.raises(RunNotFound, match="nothing"):
        await runs.take("nothing")
    assert await runs.get("nothing") is None


async def test_runs_are_listed_the_newest_first_by_state_agent_and_session(runs: Runs) -> None:
    first, second = await begin(runs, session="a"), await begin(runs, session="b")
    await runs.save(first, 1, "{}", "interrupted")

    assert [run.id for run in await runs.list()] == [second.run, first.run]
    assert [run.id for run in await runs.list(state="interrupted")] == [first.run]
    assert [run.id for run in await runs.list(session="b", agent="helper")] == [second.run]
    with pytest.raises(ValueError, match="running"):
        await runs.list(state="lost")


async def test_ended_runs_of_a_session_are_deleted_with_it(box: Toolbox, execute: Execute) -> None:
    runs = box.store.runs
    waits, done = await begin(runs, session="s"), await begin(runs, session="s")
    await runs.save(waits, 1, "{}", "interrupted")
    await runs.save(done, 1, "{}", "done", {})

    counts = await box.store.delete_session("s")

    assert (counts["runs"], counts["run_steps"]) == (1, 2)
    assert [run.id for run in await runs.list()] == [waits.run]
    assert execute("SELECT count(*) FROM wieldy_run_steps") == "2"


async def test_retention_removes_ended_runs_and_keeps_those_that_may_go_on(
    url: str, execute: Execute
) -> None:
    async with Toolbox(store=url, retention=Retention(days=1)) as box:
        runs = box.store.runs
        waits, done, new = [await begin(runs) for _ in range(3)]
        await runs.save(waits, 1, "{}", "interrupted")
        await runs.save(done, 1, "{}", "done", {})
        await runs.save(new, 1, "{}", "done", {})
        old = f"('{waits.run}', '{done.run}')"
        execute(f"UPDATE wieldy_runs SET created_at = 1, changed_at = 1 WHERE id IN {old}")

        assert (await box.store.prune())["runs"] == 1
        assert {run.id for run in await runs.list()} == {waits.run, new.run}


async def test_a_store_from_before_runs_gets_their_tables(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        await box.sessions.append("s", "hi")
    for table in ("wieldy_runs", "wieldy_run_steps"):
        execute(f"DROP TABLE {table}")
    execute("DELETE FROM wieldy_version WHERE number > 8")

    async with Toolbox(store=url) as box:
        claim = await begin(box.store.runs)
        assert await box.sessions.read("s") == ["hi"]
        assert [run.id for run in await box.store.runs.list()] == [claim.run]


async def test_steps_of_many_runs_at_once_are_each_written_even_if_one_run_was_taken(
    runs: Runs,
) -> None:
    claims = await asyncio.gather(*(begin(runs) for _ in range(20)))
    await runs.leave(claims[7], "crashed")
    _, other = await runs.take(claims[7].run)
    assert other is not None

    saved = await asyncio.gather(
        *(runs.save(claim, 1, '{"n": 1}') for claim in claims), return_exceptions=True
    )

    assert [isinstance(each, RunTaken) for each in saved] == [n == 7 for n in range(20)]
    found = [await runs.steps(claim.run) for claim in claims]
    assert found == [[{"n": 0}] if n == 7 else [{"n": 0}, {"n": 1}] for n in range(20)]
