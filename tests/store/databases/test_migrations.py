"""A database of an earlier step is brought up to date with all it holds."""

import asyncio
from collections.abc import Callable

from tests.store.child import Children, eventually
from wieldy import Call, Scope, Status, Toolbox
from wieldy.store.databases.tables import chores, messages, rules, sessions, states

Execute = Callable[[str], str]
STEP = 3


def make_box(url: str) -> Toolbox:
    box = Toolbox(store=url)

    @box.tool(permission="confirm")
    async def risk(n: int) -> int:
        """Work if a person agrees."""
        return n

    return box


async def test_a_new_database_is_made_once_by_all_who_open_it_at_once(
    new_url: str, children: Children
) -> None:
    child, boxes = children.start(), [make_box(new_url) for _ in range(3)]
    child.send("open")
    await asyncio.gather(*(box.sessions.append("s", n) for n, box in enumerate(boxes)))
    assert child.answer() == {"opened": True}
    assert sorted(await boxes[0].sessions.read("s")) == [0, 1, 2]
    for box in boxes:
        await box.close()


async def test_a_store_of_the_step_before_goes_on(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        parked = await box.call("risk", {"n": 1}, session="s")
    for table in (chores, messages, rules, sessions, states):
        execute(f"DROP TABLE {table.name}")
    execute(f"DELETE FROM wieldy_version WHERE number >= {STEP}")
    boxes = [make_box(url) for _ in range(3)]
    await asyncio.gather(*(box.sessions.append("s", n) for n, box in enumerate(boxes)))
    assert sorted(await boxes[0].sessions.read("s")) == [0, 1, 2]
    await boxes[1].standing.deny("risk", {"n": 2})
    assert (await boxes[2].approve(parked.call.id)).value == 1
    assert (await boxes[1].call("risk", {"n": 2})).status is Status.DENIED
    assert execute("SELECT name FROM wieldy_chores") == "prune"
    for box in boxes:
        await box.close()


async def test_a_store_that_kept_an_index_of_all_open_calls_goes_on(
    url: str, execute: Execute, children: Children
) -> None:
    async with make_box(url) as box:
        await box.call("risk", {"n": 1})
    child = children.start()
    child.send("call", tool="hang", arguments={"n": 1})
    await eventually(lambda: _has_started(execute))
    execute("DROP INDEX wieldy_calls_waiting")
    execute("CREATE INDEX wieldy_calls_open ON wieldy_calls (state) WHERE state IN ('started')")
    execute("ALTER TABLE wieldy_owners DROP COLUMN since")
    execute("DELETE FROM wieldy_version WHERE number >= 4")
    child.kill()
    async with make_box(url) as box:
        assert [entry.call.tool for entry in await box.ledger.list(state="unknown")] == ["hang"]
        assert len(await box.pending()) == 1
        names = "name FROM sqlite_master" if "sqlite" in url else "indexname FROM pg_indexes"
        found = execute(f"SELECT {names}")
        assert "wieldy_calls_waiting" in found
        assert "wieldy_calls_open" not in found


async def test_a_call_that_had_lost_its_owner_before_the_step_is_found(
    url: str, execute: Execute, children: Children
) -> None:
    async with make_box(url) as box:
        await box.ledger.list()
    child = children.start()
    child.send("call", tool="hang", arguments={"n": 1})
    await eventually(lambda: _has_started(execute))
    child.kill()
    execute("DELETE FROM wieldy_owners")
    execute("DELETE FROM wieldy_version WHERE number >= 4")
    async with make_box(url) as box:
        assert [entry.call.tool for entry in await box.ledger.list(state="unknown")] == ["hang"]


async def test_how_long_calls_took_is_known_from_before_the_step_too(
    url: str, execute: Execute
) -> None:
    async with make_box(url) as box:
        parked = await box.call("risk", {"n": 1})
        before = await box.approve(parked.call.id)
    execute('UPDATE wieldy_calls SET metadata = \'{"duration_ms": 1500.0, "cost": 2}\'')
    execute("ALTER TABLE wieldy_calls DROP COLUMN seconds")
    execute("DELETE FROM wieldy_version WHERE number >= 5")
    async with make_box(url) as box:
        parked = await box.call("risk", {"n": 2})
        after = await box.approve(parked.call.id)
        old, new = [await box.ledger.get(outcome.call.id) for outcome in (before, after)]
        assert old is not None
        assert (old.seconds, old.metadata) == (1.5, {"duration_ms": 1500.0, "cost": 2})
        assert new is not None
        assert (new.seconds, new.metadata) == (after.seconds, after.metadata)


async def test_a_store_without_the_indexes_of_today_gets_them(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        parked = await box.call("risk", {"n": 1})
        await box.approve(parked.call.id)
    names = "name FROM sqlite_master" if "sqlite" in url else "indexname FROM pg_indexes"
    asked = f"SELECT {names} ORDER BY 1"
    there, new = execute(asked), ("over", "tool", "late", "caller", "parent")
    for name in new:
        execute(f"DROP INDEX wieldy_calls_{name}")
    execute("DELETE FROM wieldy_version WHERE number > 5")
    async with make_box(url) as box:
        assert [entry.state for entry in await box.ledger.list(tool="risk")] == ["ok"]
    assert execute(asked) == there
    assert all(f"wieldy_calls_{name}" in there for name in new)


async def test_a_store_without_callers_and_criteria_gets_them(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        await box.standing.deny("safe", session="s")
        parked = await box.call("risk", {"n": 1})
    execute("DROP INDEX wieldy_calls_caller")
    for table, column in (("calls", "caller"), ("calls", "run"), ("rules", "caller")):
        execute(f"ALTER TABLE wieldy_{table} DROP COLUMN {column}")
    execute("ALTER TABLE wieldy_rules DROP COLUMN criteria")
    # An earlier step indexes the calls before they have callers.
    execute("DELETE FROM wieldy_version WHERE number > 5")
    async with make_box(url) as box:
        await box.standing.ask(destructive=True, caller="ann")
        old, new = await box.standing.list()
        assert (old.criteria.to_dict(), old.caller) == ({}, None)
        assert (new.criteria.to_dict(), new.caller) == ({"destructive": True}, "ann")
        assert (await box.approve(parked.call.id)).call.scope == Scope()
        asked = Call("risk", {"n": 2}, Scope(caller="ann", run="r1"))
        await box.call(asked)
        kept = await box.ledger.get(asked.id)
        assert kept is not None and kept.call.scope == asked.scope


async def _has_started(execute: Execute) -> bool:
    return execute("SELECT count(*) FROM wieldy_calls WHERE state = 'started'") == "1"
