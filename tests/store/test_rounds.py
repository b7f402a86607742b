"""A call that asks more than once: a decision counts for what was asked when it was made."""

import asyncio
import threading
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wieldy import AlreadyDecided, Context, InputNeeded, Observer, Outcome, Status, Toolbox
from wieldy.core.choices import PermissionName


def make_box(
    url: str,
    heard: list[str],
    *observers: Observer,
    permission: PermissionName = "auto",
    ttl: float | None = None,
) -> Toolbox:
    """A box whose tool asks twice: from where, and then whether it is sure."""
    box = Toolbox(store=url, approval_ttl=ttl, observers=observers)

    @box.tool(permission=permission)
    async def pay(amount: int, context: Context) -> str:
        """Pay from an account."""
        if context.answers is None:
            raise InputNeeded.form("Which account?", state="account")
        heard.append(f"{context.state}: {context.answers['answer']['content']}")
        if context.state == "account":
            raise InputNeeded.form("Are you sure?", state="sure")
        return f"{amount} paid"

    return box


def saying(content: str) -> dict[str, Any]:
    """An answer to the one question that is asked."""
    return {"answer": {"action": "accept", "content": content}}


class Overtaken(UserDict[str, Any]):
    """Answers of somebody who looked at the call, and then somebody else was faster."""

    def __init__(self, answers: dict[str, Any], meanwhile: Callable[[], object]) -> None:
        super().__init__(answers)
        self._meanwhile = meanwhile

    def __iter__(self) -> Iterator[str]:
        faster = threading.Thread(target=self._meanwhile)
        faster.start()
        faster.join()
        return super().__iter__()


def answer_elsewhere(url: str, call_id: str, heard: list[str], *contents: str) -> None:
    """Answer a call in a box of its own, once for each content."""

    async def answer() -> None:
        async with make_box(url, heard) as other:
            for content in contents:
                await other.answer(call_id, saying(content), by="ann")

    asyncio.run(answer())


async def test_an_answer_never_counts_for_a_later_question(url: str) -> None:
    heard: list[str] = []
    async with make_box(url, heard) as box:
        receipt = await box.call("pay", {"amount": 5})
        call_id = receipt.call.id
        late = Overtaken(saying("mine"), lambda: answer_elsewhere(url, call_id, heard, "savings"))

        with pytest.raises(AlreadyDecided, match="already answered by ann"):
            await box.answer(call_id, late, by="bob")

        assert heard == ["account: savings"]
        (parked,) = await box.pending()
        assert parked.reason == "Are you sure?"
        assert (await box.answer(call_id, saying("yes"))).value == "5 paid"
    assert heard == ["account: savings", "sure: yes"]


async def test_an_answer_to_a_call_that_has_ended_gives_its_end(url: str) -> None:
    heard: list[str] = []
    async with make_box(url, heard) as box:
        call_id = (await box.call("pay", {"amount": 5})).call.id
        late = Overtaken(
            saying("mine"), lambda: answer_elsewhere(url, call_id, heard, "savings", "yes")
        )
        assert (await box.answer(call_id, late, by="bob")).value == "5 paid"
    assert heard == ["account: savings", "sure: yes"]


async def test_a_waiting_caller_stays_for_every_question(url: str) -> None:
    heard: list[str] = []
    told: asyncio.Queue[Outcome] = asyncio.Queue()
    async with (
        make_box(url, heard, told.put_nowait) as box,
        make_box(url, heard, told.put_nowait) as other,
    ):
        waiting = asyncio.create_task(box.call("pay", {"amount": 5}, wait=True, timeout=120))
        for content in ("savings", "yes"):
            await other.answer((await told.get()).call.id, saying(content))
        assert (await waiting).value == "5 paid"
    assert heard == ["account: savings", "sure: yes"]


async def test_the_time_to_answer_begins_with_the_question(url: str) -> None:
    told: asyncio.Queue[Outcome] = asyncio.Queue()
    async with make_box(url, [], told.put_nowait, permission="confirm", ttl=1.5) as box:
        call_id = (await box.call("pay", {"amount": 5})).call.id
        assert (await box.approve(call_id)).metadata["reason"] == "Which account?"
        (parked,) = await box.pending()
        while (ended := await told.get()).status is Status.PENDING:
            continue
        assert ended.metadata["expired"]
        assert ended.call.decision is not None
        assert parked.expires_at is not None
        assert ended.call.decision.at >= parked.expires_at
