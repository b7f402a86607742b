"""What a crash left open runs again when a person says so, and the row says who."""

from collections.abc import Callable
from typing import Any

import pytest

from wieldy import CallDenied, CallNotFound, Status, Toolbox
from wieldy.store.left_runs import MAX_TRIES

Execute = Callable[[str], str]
LEFT_OPEN = "UPDATE wieldy_calls SET state = 'unknown', ended_at = NULL, value = NULL"


def make_box(url: str, ran: list[int], read_only: bool = False, **options: Any) -> Toolbox:
    """A box whose tool asks for confirmation."""
    box = Toolbox(store=url, **options)

    @box.tool(permission="confirm", read_only=read_only)
    async def wipe(n: int) -> int:
        """Wipe something, if a person agrees."""
        ran.append(n)
        return n * 2

    return box


async def leave_open(url: str, execute: Execute, **options: Any) -> str:
    """A call of unknown end that an approver had let through; gives its id."""
    async with make_box(url, [], approver=lambda parked: True, **options) as box:
        outcome = await box.call("wipe", {"n": 1})
        assert outcome.value == 2
    execute(LEFT_OPEN)
    return outcome.call.id


async def test_naming_a_call_is_consent_and_is_recorded_as_such(url: str, execute: Execute) -> None:
    call_id, ran = await leave_open(url, execute), list[int]()
    async with make_box(url, ran) as box:
        assert await box.recover() == []
        (outcome,) = await box.recover([call_id], by="ann")
        assert (outcome.status, outcome.value) == (Status.OK, 2)
        entry = await box.ledger.get(call_id)
        assert entry is not None
        decision = entry.call.decision
        assert decision is not None
        assert (entry.state, decision.approved, decision.by) == ("ok", True, "ann")
        assert entry.metadata["recovered_by"] == "ann"
        (again,) = await box.recover([call_id], by="bob")
        assert again.metadata["not_recovered"] == "it is ok"
    assert ran == [1]


async def test_the_decision_of_the_one_who_approved_first_stays(url: str, execute: Execute) -> None:
    ran: list[int] = []
    async with make_box(url, ran) as box:
        receipt = await box.call("wipe", {"n": 1})
        await box.approve(receipt.call.id, by="ann")
        execute(LEFT_OPEN)
        (outcome,) = await box.recover([receipt.call.id], by="bob")
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert entry.call.decision is not None
        assert (entry.call.decision.by, entry.metadata["recovered_by"]) == ("ann", "bob")
    assert ran == [1, 1]


async def test_what_asks_for_a_person_is_not_run_again_without_one(
    url: str, execute: Execute
) -> None:
    call_id, ran = await leave_open(url, execute, read_only=True), list[int]()
    async with make_box(url, ran, read_only=True) as box:
        (outcome,) = await box.recover()
        assert isinstance(outcome.error, CallDenied)
        assert "a person has to agree" in str(outcome.error)
        (entry,) = await box.ledger.list(state="unknown")
        assert entry.call.id == call_id
        (outcome,) = await box.recover([call_id])
        assert outcome.value == 2
    assert ran == [1]


@pytest.mark.parametrize("named", [True, False])
async def test_consent_does_not_lift_what_is_denied(
    url: str, execute: Execute, named: bool
) -> None:
    call_id, ran = await leave_open(url, execute, read_only=True), list[int]()
    async with make_box(url, ran, read_only=True) as box:
        box.rules.deny("wipe")
        (outcome,) = await box.recover([call_id] if named else None)
        assert outcome.status is Status.DENIED
        assert [entry.state for entry in await box.ledger.list()] == ["unknown"]
    assert ran == []


async def test_an_id_that_is_not_recorded_is_said_with_where_to_look(url: str) -> None:
    async with make_box(url, []) as box:
        said = "No recorded call has the id 'call_x'. `ledger.list\\(\\)` lists them."
        with pytest.raises(CallNotFound, match=said):
            await box.recover(["call_x"], by="ann")
        with pytest.raises(CallNotFound, match=said):
            await box.ledger.settle("call_x", "ok", by="ann")


async def test_one_id_that_is_not_in_a_list_is_refused(url: str) -> None:
    async with make_box(url, []) as box:
        with pytest.raises(TypeError, match=r"ids in a list: \['call_x'\]"):
            await box.recover("call_x")


async def test_a_call_that_ends_its_process_each_time_is_given_up_until_a_person_names_it(
    url: str, execute: Execute
) -> None:
    ran: list[int] = []
    box = Toolbox(store=url)

    @box.tool(read_only=True)
    async def look(n: int) -> int:
        """Look something up."""
        ran.append(n)
        return n * 2

    async with box:
        call_id = (await box.call("look", {"n": 1})).call.id
        for tries in range(1, MAX_TRIES + 1):
            execute(LEFT_OPEN)
            (outcome,) = await box.recover()
            assert outcome.value == 2
            entry = await box.ledger.get(call_id)
            assert entry is not None and entry.tries == tries
        execute(LEFT_OPEN)

        assert await box.recover() == []
        (named,) = await box.recover([call_id], by="ann")
    assert (named.value, len(ran)) == (2, MAX_TRIES + 2)
