"""An id names one call alone, with a store and without one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from wieldy import Call, KeyTaken, Outcome, Secret, Status, Toolbox
from wieldy.core.active_call import ActiveCall, Handler


@pytest.fixture(params=["memory", "store"])
async def box(request: Any, tmp_path: Path) -> AsyncIterator[Toolbox]:
    store = None if request.param == "memory" else f"sqlite:///{tmp_path}/a.db"
    async with Toolbox(store=store) as made:
        paid: list[Any] = []

        @made.tool
        def pay(amount: int, key: Secret | None = None) -> str:
            """Pay."""
            paid.append(amount)
            return f"paid {amount}"

        @made.tool(permission="confirm")
        def send(text: str) -> str:
            """Send."""
            return f"sent {text}"

        yield made


@pytest.mark.parametrize(
    "other",
    [
        Call("pay", {"amount": 1000}, id="order-1"),
        Call("pay", '{"amount": 1000}', id="order-1"),
        Call("send", {"text": "1"}, id="order-1"),
    ],
)
async def test_the_same_id_with_another_call_is_taken(box: Toolbox, other: Call) -> None:
    assert (await box.call(Call("pay", {"amount": 1}, id="order-1"))).value == "paid 1"

    outcome = await box.call(other)

    assert isinstance(outcome.error, KeyTaken)
    assert (outcome.status, outcome.error.first) == (Status.ERROR, "order-1")


@pytest.mark.parametrize("sent", [{"amount": 1}, '{"amount": 1}'])
async def test_the_same_call_again_is_no_other_one(box: Toolbox, sent: Any) -> None:
    first = await box.call(Call("pay", {"amount": 1}, id="order-1"))

    assert (await box.call(Call("pay", sent, id="order-1"))).value == first.value


async def test_the_id_of_a_waiting_call_is_taken(box: Toolbox) -> None:
    await box.call(Call("send", {"text": "a"}, id="mail-1"))

    outcome = await box.call(Call("send", {"text": "b"}, id="mail-1"))

    assert isinstance(outcome.error, KeyTaken)
    (parked,) = await box.pending()
    # A person may let it run with other arguments.
    assert (await box.approve(parked.id, by="zoe", arguments={"text": "c"})).value == "sent c"


async def test_a_secret_argument_is_compared_without_being_kept(box: Toolbox) -> None:
    for _ in range(2):
        outcome = await box.call(Call("pay", {"amount": 1, "key": "sk-12345678"}, id="order-1"))
        assert outcome.value == "paid 1"


@pytest.mark.parametrize("status", [each for each in Status if each not in ("ok", "pending")])
async def test_what_a_middleware_ends_without_a_word_can_be_read(
    status: Status, tmp_path: Path
) -> None:
    async def end(active: ActiveCall, proceed: Handler) -> Outcome:
        return Outcome(active.call, status)

    async with Toolbox(store=f"sqlite:///{tmp_path}/a.db", middleware=[end]) as box:

        @box.tool
        def never() -> None:
            """Never run."""

        outcome = await box.call("never")
        entry = await box.ledger.get(outcome.call.id)

        assert entry is not None
        assert (outcome.status, entry.status) == (status, status)
        assert outcome.text == entry.text != ""
