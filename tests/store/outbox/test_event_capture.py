"""What happens to calls becomes an event in the transaction that changes them."""

import asyncio
from typing import Any

import pytest

from tests.store.child import Children, eventually
from tests.store.conftest import Execute
from wieldy import Context, InputNeeded, Status, Toolbox
from wieldy.store.outbox.event_capture import DECIDED, FAILED, PENDING
from wieldy.store.outbox.subscriptions import Subscription

ALL = Subscription("all", frozenset((PENDING, DECIDED, FAILED, "tool.changed")), None, "mark")
Found = list[tuple[str, str, str | None]]


def make_box(url: str, **options: Any) -> Toolbox:
    box = Toolbox(store=url, **options)

    @box.tool(permission="confirm")
    async def wipe(n: int = 0) -> int:
        """Wipe if a person agrees."""
        if n < 0:
            raise ValueError("less than nothing")
        return n

    @box.tool
    async def fail() -> None:
        """Fail."""
        raise ValueError("no")

    @box.tool(timeout=0.01)
    async def dawdle() -> None:
        """Take too long."""
        await asyncio.Event().wait()

    @box.tool
    async def order(context: Context) -> str:
        """Order something."""
        if not context.answers:
            raise InputNeeded.form("Which size?", {"type": "object"})
        return "ordered"

    @box.tool
    async def add(a: int = 1) -> int:
        """Add one."""
        return a + 1

    box.rules.deny("add", where={"a": 13})
    return box


async def take_events(box: Toolbox) -> Found:
    """The kind, tool and state of each event, in order; they are gone then."""
    found: Found = []

    def read(event: Any) -> str:
        found.append((event.kind, event.tool, event.state))
        return "{}"

    while await box.store.outbox.make_deliveries(read):
        pass
    return found


async def test_each_change_that_somebody_waits_for_is_an_event(url: str) -> None:
    async with make_box(url) as box:
        await box.store.outbox.subscribe([ALL])
        for n in (1, 2, -1):
            parked = await box.call("wipe", {"n": n})
            if n == 2:
                await box.deny(parked.call.id)
            else:
                await box.approve(parked.call.id)
        wiped = await take_events(box)
        ordered = await box.call("order")
        await box.answer(ordered.call.id, {"answer": "large"})
        asked = await take_events(box)
        for tool in ("fail", "dawdle", "nothing"):
            await box.call(tool)
        await box.call("add", {"a": "x"})
        failed = await take_events(box)
        await box.call("add")
        await box.call("add", {"a": 13})
        box.set_mode("read-only")
        quiet = await take_events(box)
    wait, decide = (PENDING, "wipe", "pending"), (DECIDED, "wipe", "approved")
    assert wiped == [
        *(wait, decide),
        *(wait, (DECIDED, "wipe", "denied")),
        *(wait, decide, (FAILED, "wipe", "error")),
    ]
    assert asked == [(PENDING, "order", "pending"), (DECIDED, "order", "approved")]
    assert failed == [
        (FAILED, "fail", "error"),
        (FAILED, "dawdle", "timeout"),
        (FAILED, "nothing", "error"),
        (FAILED, "add", "error"),
    ]
    assert quiet == []


async def test_a_call_that_nobody_decides_on_in_time_is_decided(url: str) -> None:
    async with make_box(url, approval_ttl=0.05) as box:
        await box.store.outbox.subscribe([ALL])
        await box.call("wipe")

        async def is_over() -> bool:
            await box.pending()
            return bool(await box.ledger.list(state="expired"))

        await eventually(is_over)
        found = await take_events(box)
    assert found == [(PENDING, "wipe", "pending"), (DECIDED, "wipe", "expired")]


async def test_an_approved_call_that_must_not_start_after_all_has_failed(url: str) -> None:
    async with make_box(url) as box, Toolbox(store=url) as desk:
        await box.store.outbox.subscribe([ALL])
        parked = await box.call("wipe")
        # This process has no such tool, so that it only decides.
        await desk.approve(parked.call.id)
        box.rules.deny("wipe")
        assert (await box.recover())[0].status is Status.DENIED
        found = await take_events(box)
    assert found == [
        (PENDING, "wipe", "pending"),
        (DECIDED, "wipe", "approved"),
        (FAILED, "wipe", "denied"),
    ]


async def test_a_process_that_dies_leaves_its_events(url: str, children: Children) -> None:
    async with make_box(url) as box:
        await box.store.outbox.subscribe([ALL])
        child = children.start()
        child.ask("call", tool="wipe", arguments={"n": 1})
        child.send("call", tool="hang", arguments={"n": 1})

        async def has_started() -> bool:
            return bool(await box.ledger.list(state="started"))

        await eventually(has_started)
        child.kill()
        await eventually(lambda: _is_unknown(box))
        found = await take_events(box)
    assert found == [(PENDING, "wipe", "pending"), (FAILED, "hang", "unknown")]


async def _is_unknown(box: Toolbox) -> bool:
    await box.store.sweep()
    return bool(await box.ledger.list(state="unknown"))


async def test_without_webhooks_the_database_does_nothing_more(url: str, execute: Execute) -> None:
    names = "sqlite_master WHERE type = 'trigger'"
    if url.startswith("postgresql"):
        names = "pg_trigger WHERE tgname LIKE 'wieldy%'"
    async with make_box(url) as box:
        await box.call("fail")
        assert execute(f"SELECT count(*) FROM {names}") == "0"
        await asyncio.gather(*(box.store.outbox.subscribe([ALL]) for _ in range(5)))
        assert execute(f"SELECT count(*) FROM {names}") == "2"
        await box.call("fail")
        await box.store.outbox.subscribe([], ["all"])
        assert execute(f"SELECT count(*) FROM {names}") == "0"
        await box.call("fail")
        assert await box.store.outbox.find_work() == (False, frozenset())


@pytest.mark.parametrize("word", ["\0", "\ud800", "\x01odd", "ü", "a" * 5000])
async def test_odd_names_are_told_as_they_are(url: str, word: str) -> None:
    async with make_box(url) as box:
        await box.store.outbox.subscribe([ALL])
        await box.call(word)
        assert await take_events(box) == [(FAILED, word, "error")]
        (made,) = await box.store.outbox.list()
        assert made.tool == word
