"""Whoever gives up on the way leaves nothing behind that others would wait for."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.child import Children, eventually
from wieldy import ActiveCall, Call, CallUnknown, Handler, Outcome, Status, Toolbox

Execute = Callable[[str], str]


def make_box(url: str, ran: list[int], **options: Any) -> Toolbox:
    """A box with one tool of each kind."""
    box = Toolbox(store=url, **options)

    @box.tool(permission="confirm")
    async def wipe(n: int) -> int:
        """Wipe something, if a person agrees."""
        ran.append(n)
        return n * 2

    @box.tool
    async def work(n: int) -> int:
        """Work."""
        ran.append(n)
        return n * 2

    return box


async def state_of(box: Toolbox, call_id: str) -> str:
    """How a call stands."""
    entry = await box.ledger.get(call_id)
    assert entry is not None
    return entry.state


async def test_an_approval_that_is_cancelled_anywhere_leaves_a_call_that_can_be_run(
    url: str,
) -> None:
    ran: list[int] = []
    async with make_box(url, ran) as box, make_box(url, ran) as other:
        for turns in range(12):
            ran.clear()
            await _cancel_approval(box, other, ran, turns)


async def _cancel_approval(box: Toolbox, other: Toolbox, ran: list[int], turns: int) -> None:
    receipt = await box.call("wipe", {"n": 1})
    task = asyncio.create_task(box.approve(receipt.call.id, by="ann"))
    for _ in range(turns):
        # Each turn the task may have come to another place to be cancelled at.
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))

    async def settled() -> bool:
        state = await state_of(other, receipt.call.id)
        free = [parked.id for parked in await other.pending()] == [receipt.call.id]
        return state in ("ok", "interrupted") or free

    await eventually(settled)
    state = await state_of(other, receipt.call.id)
    if state not in ("ok", "interrupted"):
        assert ran == [], turns
        assert (await other.approve(receipt.call.id)).value == 2
    assert ran in ([1], []), turns


async def test_an_approval_that_is_written_after_its_caller_left_is_given_back(
    tmp_path: Path,
) -> None:
    url, ran = f"sqlite:///{tmp_path}/store.db", list[int]()
    async with make_box(url, ran) as box, make_box(url, ran) as other:
        receipt = await box.call("wipe", {"n": 1})
        patience = 0.1
        while await state_of(other, receipt.call.id) == "pending":
            # On a busy machine the caller may have left before it came to writing anything.
            await leave_while_locked(box, receipt.call.id, tmp_path / "store.db", patience)
            patience *= 2
        assert await state_of(other, receipt.call.id) == "approved"
        assert [parked.id for parked in await other.pending()] == [receipt.call.id]
        (outcome,) = await other.recover()
        assert outcome.value == 2
        assert outcome.call.decision is not None
        assert outcome.call.decision.by == "ann"
    assert ran == [1]


async def leave_while_locked(box: Toolbox, call_id: str, path: Path, seconds: float) -> None:
    """Approve a call while nothing can be written, and give up."""
    with closing(sqlite3.connect(path, isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await box.approve(call_id, by="ann")
        lock.execute("ROLLBACK")
    # There is one writer: what was handed to it before this is written after this.
    await box.call("none")


async def test_an_approved_call_of_a_dead_process_is_pending_again(
    url: str, children: Children
) -> None:
    child = children.start("resumed")
    async with Toolbox(store=url) as box:
        receipt = child.ask("call", tool="wipe", arguments={"n": 12})
        child.send("approve", id=receipt["id"])
        assert child.wait() == -9
        assert await state_of(box, receipt["id"]) == "approved"
        (parked,) = await box.pending()
        assert parked.id == receipt["id"]
    assert children.effects() == {}


async def test_an_end_that_could_not_be_written_is_written_when_it_can_be(tmp_path: Path) -> None:
    """The store stays open, so it is the pulse that writes it."""
    path, ran = tmp_path / "store.db", list[int]()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        async with Toolbox(store=f"sqlite:///{path}?timeout=0.05") as box:

            @box.tool
            async def work(n: int) -> int:
                """Work, and hold the store meanwhile."""
                ran.append(n)
                other.execute("BEGIN IMMEDIATE")
                return n * 2

            outcome = await box.call("work", {"n": 1})
            assert (outcome.status, outcome.value) == (Status.UNKNOWN, 2)
            assert await state_of(box, outcome.call.id) == "started"
            other.execute("ROLLBACK")

            async def written() -> bool:
                return await state_of(box, outcome.call.id) == "ok"

            await eventually(written)
    assert ran == [1]


async def test_whoever_is_cancelled_while_an_end_is_written_does_not_lose_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        async with Toolbox(store=f"sqlite:///{path}?timeout=0.05") as box:

            @box.tool
            async def work(n: int) -> int:
                """Work, and hold the store meanwhile."""
                other.execute("BEGIN IMMEDIATE")
                asyncio.get_running_loop().call_soon(task.cancel)
                return n * 2

            task = asyncio.create_task(box.call(Call("work", {"n": 1}, id="one")))
            await asyncio.wait((task,))
            assert task.cancelled()

            # Whatever is written after it shows that the first attempt is over.
            refused = await box.call("none")
            assert "another process holds" in refused.metadata["unrecorded"]
            other.execute("ROLLBACK")

            async def written() -> bool:
                return await state_of(box, "one") == "ok"

            await eventually(written)


async def test_an_end_that_the_database_refuses_is_unknown_and_nobody_waits_for_it(
    url: str, execute: Execute
) -> None:
    ran: list[int] = []
    async with make_box(url, ran) as box:
        await box.ledger.list()
        refuse_large_values(url, execute)

        @box.tool
        async def large() -> str:
            """Give more than the database takes."""
            return "x" * 100

        outcome = await box.call("large", idempotency_key="k")
        assert (outcome.status, outcome.value) == (Status.UNKNOWN, "x" * 100)
        assert isinstance(outcome.error, CallUnknown)
        again = await box.call("large", idempotency_key="k")
        assert (again.status, again.call.id) == (Status.UNKNOWN, outcome.call.id)
        assert "it ended as ok, which could not be recorded" in str(again.error)
        assert (await box.call("work", {"n": 1})).value == 2


def refuse_large_values(url: str, execute: Execute) -> None:
    """Have the database refuse a row, as it does where a value is too large for it."""
    if url.startswith("postgresql"):
        execute("ALTER TABLE wieldy_calls ALTER value TYPE VARCHAR(50)")
    else:
        execute(
            "CREATE TRIGGER too_large BEFORE UPDATE ON wieldy_calls "
            "WHEN length(new.value) >= 50 BEGIN SELECT zeroblob(2000000000); END"
        )


async def test_a_box_that_is_closed_meanwhile_loses_no_end(url: str) -> None:
    ran: list[int] = []
    box = make_box(url, ran)
    inside, go_on = asyncio.Event(), asyncio.Event()

    @box.tool
    async def wait() -> str:
        """Wait until the box was closed."""
        inside.set()
        await go_on.wait()
        return "done"

    task = asyncio.create_task(box.call("wait"))
    await inside.wait()
    await box.close()
    go_on.set()
    outcome = await task
    assert outcome.value == "done"
    assert await state_of(box, outcome.call.id) == "ok"
    await box.close()


async def test_a_box_that_others_close_over_and_over_serves_all_callers(url: str) -> None:
    ran: list[int] = []
    box = make_box(url, ran)
    done = threading.Event()

    def close_often() -> None:
        while not done.is_set():
            asyncio.run(box.close())

    closing_it = asyncio.create_task(asyncio.to_thread(close_often))
    outcomes = []
    for n in range(10):
        outcomes += await box.call_many([("work", {"n": 3 * n + k}) for k in range(3)])
    done.set()
    await closing_it
    async with box:
        recorded = {entry.call.id: entry for entry in await box.ledger.list(limit=None)}
    for outcome in outcomes:
        # Whoever meets the closing of the store may be refused, and then did not run.
        assert (outcome.status is Status.OK) is (dict(outcome.call.arguments)["n"] in ran)  # type: ignore[arg-type]
        if outcome.ok:
            assert recorded[outcome.call.id].value == outcome.value


async def test_a_caller_who_waits_is_told_when_the_store_was_closed_and_opened(url: str) -> None:
    ran: list[int] = []
    async with make_box(url, ran) as box, make_box(url, ran) as other:
        task = asyncio.create_task(box.call("wipe", {"n": 1}, wait=True, timeout=120))

        async def parked() -> bool:
            return bool(await other.pending())

        await eventually(parked)
        await box.close()
        (waiting,) = await other.pending()
        await other.approve(waiting.id)
        assert (await task).value == 2
    assert ran == [1]


async def test_a_call_that_its_middleware_does_not_wait_for_has_not_started(url: str) -> None:
    """It was about to proceed, and had no time left to."""
    ran: list[int] = []
    patience = [30.0] * 12 + [0.0, 30.0]

    async def wait_for(active: ActiveCall, proceed: Handler) -> Outcome:
        return await asyncio.wait_for(proceed(active), patience.pop(0))

    async with make_box(url, ran, middleware=[wait_for]) as box:
        for n in range(12):
            await box.call("work", {"n": n})
        first = await box.call("work", {"n": 12}, idempotency_key="key")
        entry = await box.ledger.get(first.call.id)
        assert entry is not None
        assert (entry.state, entry.started_at, entry.attempts) == ("error", None, 0)
        assert 12 not in ran
        # What never began has not used its key up.
        assert (await box.call("work", {"n": 12}, idempotency_key="key")).value == 24
