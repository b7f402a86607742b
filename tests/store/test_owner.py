"""What a process runs is found when it is gone, whenever it was proposed."""

import asyncio
import time
from typing import Any

import pytest

from tests.store.child import Children, eventually
from tests.store.conftest import Execute
from wieldy import Status, Toolbox
from wieldy.store.owner import Owner

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
        unknown = [each.call.id for each in await later.ledger.list(status="unknown")]
        return entry.state == "unknown" and unknown == [call_id]


async def test_a_call_that_runs_through_many_pulses_is_found(url: str, execute: Execute) -> None:
    work = Work(url)
    calling = asyncio.create_task(work.box.call("wait"))
    await work.entered.wait()
    for _ in range(3):
        await work.beat()
    (running,) = await work.box.ledger.list(status="started")
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
    (running,) = await work.box.ledger.list(status="started")
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
    (running,) = await work.box.ledger.list(status="started")
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
    (running,) = await work.box.ledger.list(status="started")
    bury(execute)
    assert await found_unknown(url, running.call.id)
    work.ends.set()
    await calling
    await work.box.close()


async def test_an_end_that_is_owed_keeps_its_call_found(
    url: str, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(url)
    calling = asyncio.create_task(work.box.call("wait"))
    await work.entered.wait()
    opened = await work.box.store.opened()
    (call_id,) = opened.owner.running
    execute("ALTER TABLE wieldy_calls RENAME TO elsewhere")
    work.ends.set()
    outcome = await calling
    assert outcome.status is Status.UNKNOWN
    await work.beat()
    assert list(opened.owner.running) == [call_id], "a pulse would reach past it"
    execute("ALTER TABLE elsewhere RENAME TO wieldy_calls")
    bury(execute)
    assert await found_unknown(url, call_id)
    await work.box.close()


async def test_a_killed_process_leaves_nothing_started(url: str, children: Children) -> None:
    child = children.start()
    child.send("flood", tool="hang", callers=5)
    async with Toolbox(store=url) as box:

        async def started() -> bool:
            return len(await box.ledger.list(status="started")) == 5

        await eventually(started)
        child.kill()
        await box.recover()
        assert len(await box.ledger.list(status="unknown")) == 5
        assert await box.ledger.list(status="started") == []


def test_a_moment_is_never_twice_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 5.0)
    owner = Owner()
    moments = [owner.begin(str(n), 5.0)[0] for n in range(100)]
    assert len(set(moments)) == 100
