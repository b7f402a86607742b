"""Whoever follows the ledger is given every call as it comes and each time it changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event

from tests.store.child import Children, eventually
from tests.store.conftest import Execute
from wieldy import Toolbox
from wieldy.store.ledger_entry import Entry


def add(a: int) -> int:
    """Add one."""
    return a + 1


async def until(entries: AsyncIterator[Entry], states: list[str]) -> list[Entry]:
    """Read until a call came by in each of these states, in this order."""
    seen: list[Entry] = []
    left = list(states)
    async with asyncio.timeout(120):
        while left:
            entry = await anext(entries)
            seen.append(entry)
            if entry.state == left[0]:
                left.pop(0)
    return seen


async def test_the_last_calls_come_first_and_then_what_happens(url: str) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        for number in range(3):
            await box.call("add", {"a": number})
        entries = box.ledger.follow(last=2)
        old = [(await anext(entries)).call.arguments for _ in range(2)]
        assert old == [{"a": 1}, {"a": 2}]
        await box.call("add", {"a": 7})
        [new] = await until(entries, ["ok"])
        assert (new.call.arguments, new.value) == ({"a": 7}, 8)


async def test_a_call_is_given_again_each_time_it_changes(url: str) -> None:
    go = asyncio.Event()

    async def wipe(path: str) -> str:
        await go.wait()
        return f"wiped {path}"

    async with Toolbox(store=url) as box, Toolbox(store=url) as reader:
        box.add(wipe, permission="confirm")
        entries = reader.ledger.follow()
        first = asyncio.ensure_future(anext(entries))
        receipt = await _until_heard(box, "wipe", first)
        approving = asyncio.create_task(box.approve(receipt, by="ann"))
        await until(entries, ["started"])
        go.set()
        [ended] = await until(entries, ["ok"])
        assert (ended.call.id, ended.value) == (receipt, "wiped a")
        await approving


async def _until_heard(box: Toolbox, tool: str, first: asyncio.Future[Entry]) -> str:
    """Make calls until the reader, who begins whenever it begins, has heard of one."""
    async with asyncio.timeout(120):
        while not first.done():
            await box.call(tool, {"path": "a"})
            await asyncio.wait([first], timeout=0.2)
    entry = await first
    assert entry.state == "pending"
    return entry.call.id


async def test_thousands_of_calls_of_many_callers_are_all_seen_once(url: str) -> None:
    async with Toolbox(store=url, durability="normal") as box:
        box.add(add)
        await box.call("add", {"a": -1})
        entries = box.ledger.follow(state="ok", last=1)
        assert (await anext(entries)).call.arguments == {"a": -1}

        async def call_all() -> None:
            for start in range(0, 2_000, 500):
                await box.call_many([("add", {"a": start + n}) for n in range(500)])

        async with asyncio.timeout(600), asyncio.TaskGroup() as group:
            group.create_task(call_all())
            seen = [await anext(entries) for _ in range(2_000)]
        assert sorted(entry.value for entry in seen) == list(range(1, 2_001))


async def test_only_what_is_asked_for_is_given(url: str) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        box.add(add, name="other")
        await box.call("add", {"a": 0}, session="s")
        entries = box.ledger.follow(state="error", tool="add", session="s", last=5)
        waiting = asyncio.ensure_future(anext(entries))
        await asyncio.wait([waiting], timeout=0.5)
        await box.call("add", {"a": 1}, session="s")
        await box.call("add", {"a": "x"}, session="t")
        await box.call("other", {"a": "x"}, session="s")
        await box.call("add", {"a": "y"}, session="s")
        async with asyncio.timeout(120):
            entry = await waiting
        assert entry.call.arguments == {"a": "y"}


async def test_a_status_that_there_is_not_is_refused(url: str) -> None:
    async with Toolbox(store=url) as box:
        with pytest.raises(ValueError, match="state must be one of"):
            await anext(box.ledger.follow(state="done"))  # type: ignore[arg-type]


async def test_a_killed_process_shows_as_unknown(url: str, children: Children) -> None:
    child = children.start()
    child.send("call", tool="hang", arguments={"n": 5})
    async with Toolbox(store=url) as box:
        entries = box.ledger.follow(last=1)
        await until(entries, ["started"])
        child.kill()
        # Whoever opens the store finds the dead.
        async with Toolbox(store=url) as other:
            await other.pending()
            [lost] = await until(entries, ["unknown"])
        assert lost.call.arguments == {"n": 5}


async def test_a_damaged_row_is_given_as_unknown(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        await box.call("add", {"a": 1})
        execute("UPDATE wieldy_calls SET metadata = '{'")
        entry = await anext(box.ledger.follow(last=1))
        assert entry.state == "unknown"


async def test_nothing_is_read_while_nothing_is_committed(url: str) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        await box.call("add", {"a": 1})
        entries = box.ledger.follow(last=1)
        await anext(entries)
        with polls() as looks:
            waiting = asyncio.ensure_future(anext(entries))

            async def have_been_made() -> bool:
                return len(looks) >= 6

            await eventually(have_been_made)
            # A pulse of this process or of the server may come in between.
            assert looks.count(0) >= 3, looks
            await box.call("add", {"a": 2})
            assert (await waiting).call.arguments == {"a": 2}


@contextmanager
def polls() -> Iterator[list[int]]:
    """For each look of a follower, how many times the calls are read in it."""
    looks: list[int] = []

    def hear(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "data_version" in statement or "txid_current" in statement:
            looks.append(0)
        elif "FROM wieldy_calls" in statement and looks:
            looks[-1] += 1

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield looks
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


@pytest.mark.parametrize("started", [True, False])
async def test_a_call_that_waited_long_for_its_turn_is_given(
    url: str, execute: Execute, started: bool
) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        await box.call("add", {"a": 1})
        entries = box.ledger.follow(last=1)
        await anext(entries)
        now = time.time()
        execute(
            "INSERT INTO wieldy_calls "
            "(id, tool, state, partial, proposed_at, started_at, ended_at, value) "
            f"VALUES ('queued', 'add', 'ok', 0, {now - 20_000}, {now if started else 'NULL'}, "
            f"{now}, '3')"
        )
        async with asyncio.timeout(120):
            assert (await anext(entries)).call.id == "queued"


async def test_what_a_left_function_gives_later_is_given_too(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        await box.ledger.list()
        ended = time.time() - 600
        error = '{"kind": "CallTimeout", "message": "late", "fact": 1.0}'
        execute(
            "INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at, started_at, ended_at,"
            f" error) VALUES ('left', 'add', 'timeout', 0, {ended}, {ended}, {ended}, '{error}')"
        )
        entries = box.ledger.follow()
        waiting = asyncio.ensure_future(anext(entries))
        await asyncio.wait([waiting], timeout=0.5)
        execute('UPDATE wieldy_calls SET late = \'{"status": "ok"}\'')
        async with asyncio.timeout(120):
            assert (await waiting).metadata["late"] == {"status": "ok"}
