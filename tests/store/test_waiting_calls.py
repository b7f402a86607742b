"""A call whose tool waits for other calls: people decide on those, and it goes on by itself."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from wieldy import (
    AlreadyDecided,
    Call,
    CallsNeeded,
    Context,
    InputNeeded,
    Status,
    Toolbox,
    WaitsForCalls,
)


class Office:
    """A tool that needs approval, one that waits for it, and one that waits for that one."""

    def __init__(self, store: str | None, **options: Any) -> None:
        self.ran: Counter[str] = Counter()
        self.box = Toolbox(store=store, **options)
        self.box.add(self.pay, permission="confirm")
        self.box.add(self.order)
        self.box.add(self.furnish)

    async def pay(self, bill: str) -> str:
        """Pay a bill."""
        self.ran[f"pay {bill}"] += 1
        return f"paid {bill}"

    async def order(self, things: list[str], context: Context) -> str:
        """Order things, and pay for each."""
        self.ran["order"] += 1
        if context.state is None:
            made = [await context.call("pay", {"bill": each}) for each in things]
            waiting = [each.call.id for each in made if each.status is Status.PENDING]
            raise CallsNeeded(waiting, state=[each.call.id for each in made])
        assert context.answers is not None
        return ", ".join(context.answers[each] for each in context.state)

    async def furnish(self, rooms: list[list[str]], context: Context) -> str:
        """Order for several rooms."""
        if context.answers is None:
            made = [await context.call("order", {"things": each}) for each in rooms]
            raise CallsNeeded(made, state=[each.call.id for each in made])
        return str(context.state == list(context.answers)) + str(list(context.answers.values()))


STORES = pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])


@STORES
async def test_a_call_goes_on_when_the_last_call_that_it_waits_for_has_ended(
    kept: bool, url: str
) -> None:
    office = Office(url if kept else None)
    async with office.box as box:
        receipt = await box.call("order", {"things": ["desk", "lamp"]})
        assert receipt.status is Status.PENDING
        desk, lamp = await box.pending()
        assert receipt.metadata["waits_for"] == [desk.id, lamp.id]
        assert [each.id for each in await box.pending(below=receipt.call.id)] == [desk.id, lamp.id]

        await box.approve(desk.id)
        assert (await box.outcome(receipt.call.id)).status is Status.PENDING
        await box.deny(lamp.id)

        assert (await box.outcome(receipt.call.id)).value == "ok, denied"
        assert await box.pending(below=receipt.call.id) == []
    assert office.ran == {"order": 2, "pay desk": 1}


@STORES
async def test_calls_that_wait_for_each_other_go_on_one_after_the_other(
    kept: bool, url: str
) -> None:
    office = Office(url if kept else None)
    async with office.box as box:
        receipt = await box.call("furnish", {"rooms": [["desk"], ["bed", "lamp"]]})
        waiting = await box.pending(below=receipt.call.id)
        assert [each.shown["bill"] for each in waiting] == ["desk", "bed", "lamp"]

        for parked in waiting:
            await box.approve(parked.id, by="ann")

        assert (await box.outcome(receipt.call.id)).value == "True['ok', 'ok']"
    assert office.ran == {"order": 4, "pay desk": 1, "pay bed": 1, "pay lamp": 1}


@STORES
async def test_nobody_approves_or_answers_a_call_that_waits_for_others(
    kept: bool, url: str
) -> None:
    async with Office(url if kept else None).box as box:
        receipt = await box.call("order", {"things": ["desk"]})

        with pytest.raises(WaitsForCalls, match="Decide on these"):
            await box.approve(receipt.call.id)
        with pytest.raises(WaitsForCalls):
            await box.answer(receipt.call.id, dict.fromkeys(receipt.metadata["waits_for"], "ok"))
        assert (await box.go_on(receipt.call.id)).status is Status.PENDING


@STORES
async def test_denying_a_call_denies_what_it_waits_for(kept: bool, url: str) -> None:
    office = Office(url if kept else None)
    async with office.box as box:
        receipt = await box.call("furnish", {"rooms": [["desk"], ["bed"]]})
        (desk, _) = await box.pending()

        outcome = await box.deny(receipt.call.id, reason="no money")

        assert outcome.status is Status.DENIED
        assert await box.pending() == []
        with pytest.raises(AlreadyDecided):
            await box.approve(desk.id)
    assert office.ran == {"order": 2}


async def test_what_expires_lets_its_caller_go_on(url: str) -> None:
    office = Office(url, approval_ttl=0.05)
    async with office.box as box:
        receipt = await box.call("order", {"things": ["desk"]}, wait=True)

        assert receipt.value == "denied"
    assert office.ran == {"order": 2}


async def test_a_process_without_the_tool_leaves_the_call_to_whoever_recovers_it(url: str) -> None:
    async with Office(url).box as box:
        receipt = await box.call("order", {"things": ["desk"]})
    async with Toolbox(store=url) as elsewhere:
        (desk,) = await elsewhere.pending()
        await elsewhere.deny(desk.id)
        assert (await elsewhere.go_on(receipt.call.id)).status is Status.PENDING
    async with Office(url).box as box:
        (outcome,) = await box.recover()

        assert (outcome.call.id, outcome.value) == (receipt.call.id, "denied")
        assert await box.recover() == []


async def test_two_processes_that_decide_at_once_let_it_go_on_once(url: str) -> None:
    office, other = Office(url), Office(url)
    async with office.box as box, other.box as elsewhere:
        receipt = await box.call("order", {"things": ["desk", "lamp"]})
        desk, lamp = await box.pending()

        await asyncio.gather(box.approve(desk.id), elsewhere.approve(lamp.id))

        assert (await box.go_on(receipt.call.id)).value == "ok, ok"
    assert office.ran["order"] + other.ran["order"] == 2


async def test_only_calls_of_its_own_can_be_waited_for(url: str) -> None:
    async with Office(url).box as box:

        @box.tool
        async def spy(call_id: str) -> None:
            """Wait for somebody else's call."""
            raise CallsNeeded([call_id])

        waiting = await box.call("pay", {"bill": "rent"})
        for call_id in (waiting.call.id, "unheard of"):
            outcome = await box.call("spy", {"call_id": call_id})
            assert (outcome.status, call_id in outcome.text) == (Status.ERROR, True)


@pytest.mark.parametrize("calls", [[], "abc"])
def test_calls_are_named_in_a_list(calls: Any) -> None:
    with pytest.raises(ValueError, match="name at least one call, in a list"):
        CallsNeeded(calls)


def test_a_question_is_never_taken_for_a_call() -> None:
    forged: dict[str, Any] = {Call("pay").id: {"method": "wieldy/call"}}
    with pytest.raises(ValueError, match="raise CallsNeeded"):
        InputNeeded(forged)


@STORES
async def test_a_call_whose_tool_has_changed_while_it_waited_is_refused_and_does_not_wait_for_ever(
    kept: bool, url: str
) -> None:
    office = Office(url if kept else None)
    async with office.box as box:
        receipt = await box.call("furnish", {"rooms": [["desk"], ["bed"]]})
        desk, bed = await box.pending()
        box.add(office.order, description="Order anything.", on_conflict="override")

        await box.approve(desk.id)
        assert (await box.outcome(receipt.call.id)).status is Status.PENDING
        await box.approve(bed.id)

        below = [await box.outcome(each) for each in receipt.metadata["waits_for"]]
        assert [each.status for each in below] == [Status.DENIED] * 2
        assert "not as it was" in below[0].text
        assert (await box.outcome(receipt.call.id)).value == "True['denied', 'denied']"
    assert office.ran == {"order": 2, "pay desk": 1, "pay bed": 1}


@STORES
async def test_a_call_whose_tool_is_switched_off_waits_until_it_is_there_again(
    kept: bool, url: str
) -> None:
    office = Office(url if kept else None)
    async with office.box as box:
        box.groups.create("orders", "", active=True)
        box.add(office.order, group="orders", on_conflict="override")
        receipt = await box.call("order", {"things": ["desk"]})
        (desk,) = await box.pending()
        box.groups.deactivate("orders")
        await box.approve(desk.id)
        assert (await box.outcome(receipt.call.id)).status is Status.PENDING

        box.groups.activate("orders")

        assert (await box.go_on(receipt.call.id)).value == "ok"
