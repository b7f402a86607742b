"""What a process runs is found when it is gone, whenever it was proposed."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import create_async_engine

from tests.store.child import Children, eventually
from tests.store.conftest import Execute
from tests.store.server import Server
from wieldy import ActiveCall, Call, Handler, InputNeeded, Outcome, Status, Toolbox
from wieldy.core.call import Scope
from wieldy.store.process_owner import ProcessOwner

HOUR = 3600.0


class Work:
    """A tool that ends when it may, and the box it is in."""

    def __init__(self, url: str, **options: Any) -> None:
        self.box = Toolbox(store=url, **options)
        self.entered = asyncio.Event()
        self.ends = asyncio.Event()
        self.box.add(self.wait)
        self.box.add(self.wipe, permission="confirm")

    async def wait(self) -> str:
        """Wait until the test says so."""
        self.entered.set()
        await self.ends.wait()
        return "done"

    async def wipe(self) -> str:
        """The same, if a person agrees."""
        return await self.wait()

    async def beat(self) -> None:
        """Let the process say that it is here, as it does every few seconds."""
        opened = await self.box.store.opened()
        await opened.write(opened.owner.beat)


def bury(execute: Execute) -> None:
    """Let all processes on the store be taken for dead."""
    execute("UPDATE wieldy_owners SET born = '1', host = 'elsewhere', pulse = 1")


async def found_unknown(url: str, call_id: str) -> bool:
    """Whether a process that opens the store now sees that a call was left behind."""
    async with Toolbox(store=url) as later:
        entry = await later.ledger.get(call_id)
        assert entry is not None
        unknown = [each.call.id for each in await later.ledger.list(state="unknown")]
        return entry.state == "unknown" and unknown == [call_id]


async def test_a_call_that_runs_through_many_pulses_is_found(url: str, execute: Execute) -> None:
    work = Work(url)
    calling = asyncio.create_task(work.box.call("wait"))
    await work.entered.wait()
    for _ in range(3):
        await work.beat()
    (running,) = await work.box.ledger.list(state="started")
    bury(execute)
    assert await found_unknown(url, running.call.id)
    work.ends.set()
    assert (await calling).value == "done"
    await work.box.close()


async def test_the_row_of_an_owner_reaches_on_when_nothing_runs(url: str, execute: Execute) -> None:
    work = Work(url)
    work.ends.set()
    await work.box.call("wait")
    before = time.time()
    await work.beat()
    assert float(execute("SELECT since FROM wieldy_owners")) >= before
    opened = await work.box.store.opened()
    assert opened.owner.running == {}
    await work.box.close()


async def test_a_call_that_was_proposed_before_the_last_pulse_is_found(
    url: str, execute: Execute
) -> None:
    """It stood in a queue meanwhile."""
    held = asyncio.Event()

    async def queue(run: Any, proceed: Any) -> Any:
        held.set()
        await released.wait()
        return await proceed(run)

    released = asyncio.Event()
    work = Work(url, middleware=[queue])
    calling = asyncio.create_task(work.box.call("wait"))
    await held.wait()
    await asyncio.sleep(0.01)
    await work.beat()
    released.set()
    await work.entered.wait()
    (running,) = await work.box.ledger.list(state="started")
    bury(execute)
    assert await found_unknown(url, running.call.id)
    work.ends.set()
    await calling
    await work.box.close()


async def test_a_call_that_starts_after_the_clock_was_set_back_is_found(
    url: str, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(url)
    await work.beat()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - HOUR)
    calling = asyncio.create_task(work.box.call("wait"))
    await work.entered.wait()
    (running,) = await work.box.ledger.list(state="started")
    bury(execute)
    assert await found_unknown(url, running.call.id)
    work.ends.set()
    await calling
    await work.box.close()


async def test_a_call_that_waited_for_a_person_is_found(url: str, execute: Execute) -> None:
    work = Work(url)
    receipt = await work.box.call("wipe")
    execute(f"UPDATE wieldy_calls SET proposed_at = {time.time() - 24 * HOUR}")
    await work.beat()
    approving = asyncio.create_task(work.box.approve(receipt.call.id))
    await work.entered.wait()
    await work.beat()
    bury(execute)
    assert await found_unknown(url, receipt.call.id)
    work.ends.set()
    await approving
    await work.box.close()


async def test_who_was_taken_for_dead_says_so_before_it_starts_a_call(
    url: str, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that slept must not run what nobody would find after a crash."""
    work = Work(url)
    await work.beat()
    opened = await work.box.store.opened()
    bury(execute)
    async with Toolbox(store=url) as other:
        await other.ledger.list()
    assert execute(f"SELECT id FROM wieldy_owners WHERE id = '{opened.owner.id}'") == ""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + HOUR)
    calling = asyncio.create_task(work.box.call("wait"))
    await work.entered.wait()
    assert execute(f"SELECT id FROM wieldy_owners WHERE id = '{opened.owner.id}'") != ""
    (running,) = await work.box.ledger.list(state="started")
    bury(execute)
    assert await found_unknown(url, running.call.id)
    work.ends.set()
    await calling
    await work.box.close()


async def test_an_end_that_is_refused_keeps_its_call_found(url: str, execute: Execute) -> None:
    work = Work(url)
    calling = asyncio.create_task(work.box.call("wait"))
    await work.entered.wait()
    (running,) = await work.box.ledger.list(state="started")
    call_id = running.call.id
    execute("ALTER TABLE wieldy_calls RENAME TO elsewhere")
    work.ends.set()
    outcome = await calling
    assert outcome.status is Status.UNKNOWN
    await work.box.close()
    execute("ALTER TABLE elsewhere RENAME TO wieldy_calls")
    bury(execute)
    assert await found_unknown(url, call_id)


async def test_a_call_that_is_made_twice_at_once_is_found(url: str, execute: Execute) -> None:
    """Who comes second waits for the first, and must not end it."""
    work = Work(url)
    call = Call("wait")
    calling = [asyncio.create_task(work.box.call(call))]
    await work.entered.wait()
    calling.append(asyncio.create_task(work.box.call(call)))
    waiting = work.box.store.bell._listeners

    async def second_waits() -> bool:
        return call.id in waiting

    await eventually(second_waits)
    await work.beat()
    bury(execute)
    assert await found_unknown(url, call.id)
    work.ends.set()
    await asyncio.gather(*calling)
    await work.box.close()


async def test_a_call_that_is_made_twice_and_cancelled_once_is_in_no_doubt(url: str) -> None:
    told: list[Status] = []
    work = Work(url, observers=[lambda outcome: told.append(outcome.status)])
    for turns in range(12):
        call = Call("wait")
        work.entered.clear()
        work.ends.clear()
        first = asyncio.create_task(work.box.call(call))
        await work.entered.wait()
        second = asyncio.create_task(work.box.call(call))
        for _ in range(turns):
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        work.ends.set()
        assert (await first).value == "done"
    assert set(told) == {Status.OK, Status.INTERRUPTED}
    await work.box.close()


async def test_a_call_that_is_overtaken_by_itself_gets_the_same_outcome(url: str) -> None:
    entered = []
    first = asyncio.Event()
    overtaken = asyncio.Event()

    async def queue(active: ActiveCall, proceed: Handler) -> Outcome:
        if not first.is_set():
            first.set()
            await overtaken.wait()
        return await proceed(active)

    box = Toolbox(store=url, middleware=[queue])

    @box.tool
    async def act() -> int:
        """Count how often it ran."""
        entered.append(1)
        return len(entered)

    call = Call("act")
    async with box:
        slow = asyncio.create_task(box.call(call))
        await first.wait()
        quick = await box.call(call)
        overtaken.set()
        assert ((await slow).status, (await slow).value) == (quick.status, quick.value)
        assert (quick.value, entered) == (1, [1])
        assert (await slow).metadata["repeated"] is True
        assert (await box.store.opened()).owner.running == {}


async def test_a_call_whose_middleware_hides_its_end_is_found(url: str, execute: Execute) -> None:
    """Its row says that it runs, whatever its caller was told."""

    async def hide(active: ActiveCall, proceed: Handler) -> Outcome:
        await proceed(active)
        return Outcome(active.call, Status.PENDING)

    work = Work(url, middleware=[hide])
    work.ends.set()
    hidden = await work.box.call("wait")
    await work.beat()
    bury(execute)
    assert await found_unknown(url, hidden.call.id)
    await work.box.close()


async def test_a_call_that_starts_while_the_store_is_closed_is_found(
    url: str, execute: Execute
) -> None:
    """It starts in the store that is opened anew."""
    work = Work(url)

    closing = threading.Thread(target=lambda: asyncio.run(work.box.close()))

    class Closing:
        """What has the store closed by another thread when it is first written down."""

        def __repr__(self) -> str:
            if closing.ident is None:
                closing.start()
                closing.join()
            return "closed"

    async def hold(what: Any) -> str:
        """Wait, whatever is given."""
        return await work.wait()

    work.box.add(hold, validation="describe")
    await work.box.ledger.list()
    call = Call("hold", {"what": Closing()})
    task = asyncio.create_task(work.box.call(call))
    await work.entered.wait()
    bury(execute)
    assert await found_unknown(url, call.id)
    work.ends.set()
    assert (await task).value == "done"
    await work.box.close()


async def test_nothing_is_kept_of_calls_that_do_not_run(url: str) -> None:
    async def odd(kind: str) -> str:
        """End in some way."""
        if kind == "raises":
            raise RuntimeError
        if kind == "asks":
            raise InputNeeded({"more": {"type": "string"}})
        if kind in ("hangs", "cancelled"):
            await asyncio.Event().wait()
        return kind

    async with Toolbox(store=url) as box:
        box.add(odd, timeout=0.05)
        box.add(odd, name="refused", permission="deny")
        box.add(odd, name="parked", permission="confirm", timeout=0.05)
        for kind in ("ends", "raises", "asks", "hangs"):
            await box.call("odd", {"kind": kind})
            await box.call("refused", {"kind": kind})
            receipt = await box.call("parked", {"kind": kind})
            await box.approve(receipt.call.id)
            await box.call("odd", {"kind": kind}, idempotency_key="key")
        for turns in range(20):
            task = asyncio.create_task(box.call("odd", {"kind": "cancelled"}))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        # No database takes such a name.
        nameless: Any = 5
        refused = await box.call(Call("odd", {"kind": "ends"}, Scope(agent=nameless)))
        assert refused.status is Status.ERROR
        running = (await box.store.opened()).owner.running

        async def is_empty() -> bool:
            return running == {}

        await eventually(is_empty)


async def test_a_sign_of_life_counts_until_its_owner_is_removed(server: Server) -> None:
    """Who was silent for long may speak in the moment in which it is taken for dead."""
    url = server.new_database()
    work = Work(url)
    calling = asyncio.create_task(work.box.call("wait"))
    await work.entered.wait()
    spoken: list[str] = []

    def speak(c: Any, cursor: Any, statement: str, p: Any, x: Any, many: bool) -> None:
        if not spoken and statement.startswith(("DELETE", "UPDATE")):
            spoken.append(server.execute("UPDATE wieldy_owners SET pulse = 1e12", "test"))

    async with Toolbox(store=url) as other:
        opened = await other.store.opened()
        silent = f"host = 'elsewhere', pulse = 1 WHERE id != '{opened.owner.id}'"
        server.execute(f"UPDATE wieldy_owners SET {silent}", "test")
        event.listen(Engine, "before_cursor_execute", speak)
        try:
            assert await opened.write(opened.owner.sweep) == []
        finally:
            event.remove(Engine, "before_cursor_execute", speak)
        assert spoken
        assert len(await other.ledger.list(state="started")) == 1
    work.ends.set()
    assert (await calling).value == "done"
    await work.box.close()


async def test_what_a_server_commits_after_its_client_was_killed_is_found(
    server: Server, tmp_path: Path
) -> None:
    url = server.new_database()
    async with Toolbox(store=url) as box:
        await box.ledger.list()
    server.execute(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_advisory_lock(7); PERFORM pg_advisory_unlock(7); RETURN NEW; END';"
        "CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON wieldy_calls"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()",
        "test",
    )
    engine = create_async_engine(url.replace("postgresql", "postgresql+asyncpg"))
    with Children(url, tmp_path) as children:
        async with engine.connect() as holder, Toolbox(store=url) as box:
            await holder.exec_driver_sql("SELECT pg_advisory_lock(7)")
            child = children.start()
            child.send("call", tool="act", arguments={"n": 1})

            async def commits() -> bool:
                held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                return server.execute(held, "test").strip() == "1"

            await eventually(commits)
            child.kill()
            await box.recover()
            assert await box.ledger.list(limit=None) == []
            await holder.exec_driver_sql("SELECT pg_advisory_unlock(7)")

            async def committed() -> bool:
                return len(await box.ledger.list(limit=None)) == 1

            await eventually(committed)
            await box.recover()
            assert [entry.state for entry in await box.ledger.list()] == ["unknown"]
    await engine.dispose()


async def test_a_killed_process_leaves_nothing_started(url: str, children: Children) -> None:
    child = children.start()
    child.send("flood", tool="hang", callers=5)
    async with Toolbox(store=url) as box:

        async def started() -> bool:
            return len(await box.ledger.list(state="started")) == 5

        await eventually(started)
        child.kill()
        await box.recover()
        assert len(await box.ledger.list(state="unknown")) == 5
        assert await box.ledger.list(state="started") == []


def test_a_moment_is_never_twice_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 5.0)
    owner = ProcessOwner()
    moments = [owner.begin(str(n), 5.0)[0] for n in range(100)]
    assert len(set(moments)) == 100
