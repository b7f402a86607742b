"""Calls with one key are one call, in whichever process they are made."""

import asyncio
import json

import pytest

from tests.store.child import Children, eventually
from wieldy import Call, KeyTaken, Permission, Scope, Secret, Status, Toolbox


class Till:
    """Counts what it charged."""

    def __init__(self) -> None:
        self.charged: list[int] = []

    async def charge(self, amount: int) -> int:
        """Charge an amount."""
        self.charged.append(amount)
        await asyncio.sleep(0)
        if amount < 0:
            raise ValueError("less than nothing")
        return amount + 1


@pytest.fixture
def till() -> Till:
    return Till()


async def test_a_repeated_call_gives_the_first_outcome(url: str, till: Till) -> None:
    async with Toolbox(store=url) as box:
        box.add(till.charge)
        first = await box.call("charge", {"amount": 5}, idempotency_key="order 1")
        again = await box.call("charge", {"amount": 5}, idempotency_key="order 1")
        other = await box.call("charge", {"amount": 5}, idempotency_key="order 2")
        assert (first.value, again.value, other.value) == (6, 6, 6)
        assert again.call.id == first.call.id != other.call.id
        assert again.metadata["repeated"] is True
        assert till.charged == [5, 5]
        assert len(await box.ledger.list()) == 2
    async with Toolbox(store=url) as later:
        later.add(till.charge)
        once_more = await later.call("charge", {"amount": 5}, idempotency_key="order 1")
        assert (once_more.value, once_more.call.id) == (6, first.call.id)
        blocking = await asyncio.to_thread(
            later.call_sync, "charge", {"amount": 5}, idempotency_key="order 1"
        )
        assert blocking.value == 6
    assert till.charged == [5, 5]


@pytest.mark.parametrize("permission", ["auto", "confirm"])
async def test_a_call_of_a_run_that_is_made_again_gives_the_first_outcome(
    url: str, till: Till, permission: Permission
) -> None:
    async with Toolbox(store=url) as box:
        box.add(till.charge, permission=permission)
        calls = [
            Call("charge", {"amount": 5}, Scope(run="run1"), idempotency_key="run1:0:0")
            for _ in range(2)
        ]
        first, again = [(await box.call_many([call]))[0] for call in calls]

        assert again.call.id == first.call.id == calls[0].id
        assert (again.status, again.value) == (first.status, first.value)
        assert len(await box.ledger.list()) == 1
        assert len(till.charged) == (permission == "auto")


async def test_a_failure_is_an_outcome_too(url: str, till: Till) -> None:
    async with Toolbox(store=url) as box:
        box.add(till.charge)
        outcomes = [
            await box.call("charge", {"amount": -1}, idempotency_key="order 1") for _ in range(2)
        ]
        assert [outcome.status for outcome in outcomes] == [Status.ERROR, Status.ERROR]
        assert str(outcomes[0].error) == str(outcomes[1].error)
    assert till.charged == [-1]


async def test_calls_at_once_run_once(url: str, till: Till) -> None:
    async with Toolbox(store=url) as box, Toolbox(store=url) as other:
        box.add(till.charge)
        other.add(till.charge)
        outcomes = await asyncio.gather(
            *(
                each.call("charge", {"amount": 5}, idempotency_key="order 1")
                for each in (box, other)
                for _ in range(10)
            )
        )
        assert {(outcome.value, outcome.call.id) for outcome in outcomes} == {
            (6, outcomes[0].call.id)
        }
    assert till.charged == [5]


async def test_a_key_that_belongs_to_another_call_is_refused(url: str, till: Till) -> None:
    async with Toolbox(store=url) as box:
        box.add(till.charge)
        box.add(till.charge, name="charge_twice")
        await box.call("charge", {"amount": 5}, idempotency_key="order 1")
        for name, amount in (("charge", 6), ("charge_twice", 5)):
            refused = await box.call(name, {"amount": amount}, idempotency_key="order 1")
            assert isinstance(refused.error, KeyTaken)
            assert refused.status is Status.ERROR
        with pytest.raises(ValueError, match="1 to 500 characters"):
            await box.call("charge", {"amount": 5}, idempotency_key="")
    assert till.charged == [5]


async def test_a_call_that_was_refused_does_not_use_up_its_key(url: str, till: Till) -> None:
    async with Toolbox(store=url) as box:
        box.add(till.charge)
        bad = await box.call("charge", {"amount": "much"}, idempotency_key="order 1")
        assert bad.status is Status.ERROR
        good = await box.call("charge", {"amount": 5}, idempotency_key="order 1")
        assert good.value == 6


async def test_the_same_call_given_twice_runs_once(url: str, till: Till) -> None:
    async with Toolbox(store=url) as box:
        box.add(till.charge)
        call = Call("charge", {"amount": 5})
        outcomes = [await box.call(call) for _ in range(2)]
        assert [outcome.value for outcome in outcomes] == [6, 6]
    assert till.charged == [5]


async def test_a_call_with_secrets_is_known_again_without_keeping_them(url: str) -> None:
    async with Toolbox(store=url) as box:
        ran: list[str] = []

        @box.tool
        async def login(user: str, password: Secret) -> str:
            """Log in."""
            ran.append(user)
            return "in"

        arguments = {"user": "ann", "password": "hunter2!"}
        for _ in range(2):
            outcome = await box.call("login", arguments, idempotency_key="k")
            assert outcome.value == "in"
    assert ran == ["ann"]


async def test_a_parked_call_is_repeated_as_its_receipt_and_then_as_its_end(
    url: str, till: Till
) -> None:
    async with Toolbox(store=url) as box:
        box.add(till.charge, permission="confirm")
        receipts = [
            await box.call("charge", {"amount": 5}, idempotency_key="order 1") for _ in range(2)
        ]
        assert [receipt.status for receipt in receipts] == [Status.PENDING, Status.PENDING]
        (parked,) = await box.pending()
        await box.approve(parked.id)
        ended = await box.call("charge", {"amount": 5}, idempotency_key="order 1")
        assert (ended.value, ended.call.id) == (6, receipts[0].call.id)
    assert till.charged == [5]


async def test_processes_at_once_run_it_once_and_the_others_wait(
    url: str, children: Children
) -> None:
    several = [children.start() for _ in range(3)]
    for child in several:
        child.ask("open")
    for child in several:
        child.send("call", tool="hang", arguments={"n": 7}, idempotency_key="k")
    async with Toolbox(store=url) as box:

        async def started() -> bool:
            return bool(await box.ledger.list(state="started"))

        await eventually(started)
    children.release(7)
    answers = [child.answer() for child in several]
    assert {(answer["value"], answer["id"]) for answer in answers} == {(14, answers[0]["id"])}
    assert children.effects() == {"hang 7": 1}


async def test_whoever_waits_for_a_process_that_dies_is_told_that_the_end_is_unknown(
    url: str, children: Children
) -> None:
    first, second = children.start(), children.start()
    first.send("call", tool="hang", arguments={"n": 7}, idempotency_key="k")
    async with Toolbox(store=url) as box:

        async def started() -> bool:
            return bool(await box.ledger.list(state="started"))

        await eventually(started)
    second.send("call", tool="hang", arguments={"n": 7}, idempotency_key="k")
    first.kill()
    assert second.answer()["status"] == "unknown"
    assert children.effects() == {"hang 7": 1}


async def test_a_call_nested_in_the_one_it_repeats_is_refused(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def around(n: int) -> str:
            """Call itself with the same key."""
            inner = await box.call("around", {"n": n}, idempotency_key="k")
            return inner.text

        outcome = await box.call("around", {"n": 1}, idempotency_key="k")
        assert "it repeats the call" in outcome.value


async def test_keys_that_meet_in_any_order_in_many_processes_run_once(
    url: str, children: Children
) -> None:
    """Batches of different processes hold keys that the others wait for."""
    several = [children.start() for _ in range(4)]
    for child in several:
        child.ask("open")
    for number, child in enumerate(several):
        child.send("keys", count=50, seed=number)
    answers = [child.answer() for child in several]
    assert {json.dumps(answer, sort_keys=True) for answer in answers} == {
        json.dumps({"values": {str(n): n * 2 for n in range(50)}}, sort_keys=True)
    }
    assert children.effects() == {f"act {n}": 1 for n in range(50)}


async def test_a_receipt_shows_nobody_the_secret_of_the_first_caller(url: str) -> None:
    async def login(user: str, password: Secret) -> str:
        """Log in."""
        return user

    async with Toolbox(store=url) as box, Toolbox(store=url) as desk:
        box.add(login, permission="confirm")
        first, again = [
            await box.call("login", {"user": "ann", "password": sent}, idempotency_key="the key")
            for sent in ("hunter2-of-ann", "another-one")
        ]
        assert again.metadata["repeated"] is True
        receipts = [again, *[await desk.approve(first.call.id, by="eve") for _ in range(2)]]
        for receipt in receipts:
            assert receipt.status is Status.PENDING
            assert receipt.call.arguments == {"user": "ann", "password": "**********"}
        (outcome,) = await box.recover()
        assert (outcome.value, outcome.call.id) == ("ann", first.call.id)
