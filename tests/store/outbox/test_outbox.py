"""Messages to webhooks: claimed by one, kept as long as the retention says, found page by page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.store.conftest import Execute
from tests.store.outbox.test_event_capture import ALL, make_box, take_events
from wieldy import NotKept, Retention, Toolbox
from wieldy.store.backup.store_backup import write_backup
from wieldy.store.backup.store_restore import restore_backup
from wieldy.store.outbox.outbox import SendResult


@asynccontextmanager
async def filled(url: str, count: int, **options: Retention) -> AsyncIterator[Toolbox]:
    """A box with this many messages that wait, of calls of the session s."""
    async with make_box(url, **options) as box:
        await box.store.outbox.subscribe([ALL])
        for _ in range(count):
            await box.call("fail", session="s")
        await take_events(box)
        yield box


async def test_a_message_is_claimed_by_one_and_comes_back_if_that_one_is_gone(
    url: str, execute: Execute
) -> None:
    async with filled(url, 3) as box, make_box(url) as other:
        outbox = box.store.outbox
        both = await asyncio.gather(outbox.claim("all", 10), other.store.outbox.claim("all", 10))
        first = [each for some in both for each in some]
        assert len({each.id for each in first}) == len(first) == 3
        assert await other.store.outbox.claim("all", 10) == []
        # The time of the claim passes.
        execute("UPDATE wieldy_webhook_deliveries SET due_at = due_at - 61")
        second = await other.store.outbox.claim("all", 10)
        assert {each.id: each.attempts for each in second} == {each.id: 2 for each in first}
        late = next(each for each in first if each.id == second[0].id)
        await outbox.settle(late, SendResult("failed", error="too late"))
        assert (await outbox.find(late.id)).state == "waiting", "it belongs to another now"
        await other.store.outbox.settle(second[0], SendResult("delivered", 200))
        assert (await outbox.find(late.id)).state == "delivered"


async def test_messages_are_listed_by_state_page_by_page(url: str) -> None:
    async with filled(url, 5) as box:
        outbox = box.store.outbox
        taken = await outbox.claim("all", 2)
        await outbox.settle(taken[0], SendResult("delivered", 204))
        await outbox.settle(taken[1], SendResult("failed", None, "no"))
        pages, after = [], None
        while page := await outbox.list(after=after, limit=2):
            pages.append([each.id for each in page])
            after = page[-1].created_at, page[-1].id
        states = {state: len(await outbox.list(state)) for state in ("waiting", "delivered")}
        (failed,) = await outbox.list("failed")
        with pytest.raises(ValueError, match="state must be one of waiting"):
            await outbox.list("lost")  # type: ignore[arg-type]
        with pytest.raises(NotKept):
            await outbox.find("msg_x")
        with pytest.raises(NotKept):
            await outbox.retry("msg_x")
        left = await outbox.count()
    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({each for page in pages for each in page}) == 5
    assert states == {"waiting": 3, "delivered": 1}
    assert (failed.id, failed.error) == (taken[1].id, "no")
    assert left == {("all", "waiting"): 3, ("all", "failed"): 1}


async def test_one_that_is_on_its_way_is_not_sent_twice_when_it_is_retried(url: str) -> None:
    async with filled(url, 1) as box:
        outbox = box.store.outbox
        (taken,) = await outbox.claim("all", 1)
        assert (await outbox.retry(taken.id)).claim == taken.claim
        assert await outbox.claim("all", 1) == []


async def test_old_messages_are_removed_but_none_that_waits(url: str, execute: Execute) -> None:
    async with filled(url, 3, retention=Retention(days=1)) as box:
        outbox = box.store.outbox
        taken = await outbox.claim("all", 2)
        await outbox.settle(taken[0], SendResult("delivered", 204))
        await outbox.settle(taken[1], SendResult("failed", None, "no"))
        execute("UPDATE wieldy_webhook_deliveries SET created_at = created_at - 90000")
        assert (await box.store.prune())["webhook_deliveries"] == 2
        assert [each.state for each in await outbox.list()] == ["waiting"]


async def test_a_webhook_that_no_gateway_has_any_more_is_forgotten(
    url: str, execute: Execute
) -> None:
    async with filled(url, 1) as box:
        outbox = box.store.outbox
        assert (await box.store.prune())["webhooks"] == 0
        execute("UPDATE wieldy_webhooks SET seen_at = seen_at - 700000")
        await box.call("fail")
        assert (await box.store.prune())["webhooks"] == 1
        with pytest.raises(NotKept, match="webhook"):
            await outbox.retry((await outbox.list())[0].id)
        assert await outbox.list_subscriptions() == []
        assert [each.state for each in await outbox.list()] == ["failed"]
        await box.call("fail")
        assert await outbox.find_work() == (False, frozenset())


async def test_messages_about_a_session_go_with_it(url: str) -> None:
    async with filled(url, 2) as box:
        await box.call("fail", session="t")
        await take_events(box)
        assert (await box.store.delete_session("s"))["webhook_deliveries"] == 2
        assert len(await box.store.outbox.list()) == 1


async def test_a_backup_has_the_messages_and_makes_no_events(url: str, tmp_path: Path) -> None:
    async with filled(url, 2) as box:
        await write_backup(box.store, tmp_path / "copy")
    async with make_box(f"sqlite:///{tmp_path}/other.db") as box:
        await restore_backup(box.store, tmp_path / "copy")
        assert len(await box.store.outbox.list("waiting")) == 2
        await box.store.outbox.subscribe([ALL])
        assert await take_events(box) == []
