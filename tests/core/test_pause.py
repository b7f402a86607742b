"""A tool that can't go on without an answer: the call waits, and runs again with it."""

import asyncio
import threading
from collections import UserDict
from collections.abc import Iterator
from typing import Any

import pytest

from wieldy import (
    AlreadyDecided,
    AnswerNeeded,
    CallPending,
    Context,
    InputNeeded,
    Limits,
    Outcome,
    Status,
    Toolbox,
)

WHICH = {"type": "object", "properties": {"account": {"type": "string"}}}


def accept(**content: Any) -> dict[str, Any]:
    """An answer as a person gives it."""
    return {"answer": {"action": "accept", "content": content}}


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool(retries=3, read_only=True)
    async def pay(amount: int, context: Context) -> str:
        """Pay from an account."""
        if context.answers is None:
            raise InputNeeded.form("Which account?", WHICH, state={"seen": amount})
        return f"{context.state} {context.answers['answer']['content']} {context.attempt}"

    @box.tool
    def greet(context: Context) -> str:
        """Ask twice, in a blocking function."""
        asked = (context.state or 0) + 1
        if asked < 3:
            raise InputNeeded.form(f"Question {asked}?", state=asked)
        return f"asked {asked - 1} times"

    @box.tool
    async def ask(question: str) -> None:
        """Ask without a context."""
        raise InputNeeded.form(question)

    return box


async def test_the_call_waits_with_its_question_and_runs_again_with_the_answer(
    box: Toolbox,
) -> None:
    receipt = await box.call("pay", {"amount": 5})

    assert receipt.status is Status.PENDING
    assert receipt.text == f"pay waits for answers as {receipt.call.id}: Which account?"
    form = {"mode": "form", "message": "Which account?", "requestedSchema": WHICH}
    assert receipt.metadata["input"] == {"answer": {"method": "elicitation/create", "params": form}}
    (parked,) = await box.pending()
    assert (parked.id, parked.reason, parked.arguments) == (
        receipt.call.id,
        "Which account?",
        {"amount": 5},
    )
    assert parked.requests == receipt.metadata["input"]

    outcome = await box.answer(parked.id, accept(account="a"), by="ann")

    assert outcome.value == "{'seen': 5} {'account': 'a'} 1"
    assert outcome.call.decision is not None
    assert outcome.call.decision.by == "ann"
    assert await box.pending() == []
    assert (await box.answer(parked.id, accept(account="b"))).value == outcome.value


async def test_a_tool_may_ask_more_than_once(box: Toolbox) -> None:
    receipt = await box.call("greet")
    call_id = receipt.call.id
    again = await box.answer(call_id, {"answer": {}})
    assert (again.status, again.metadata["reason"]) == (Status.PENDING, "Question 2?")
    assert [parked.id for parked in await box.pending()] == [call_id]
    assert (await box.answer(call_id, {"answer": {}})).value == "asked 2 times"


async def test_a_plain_function_with_nothing_around_it_may_ask_too(box: Toolbox) -> None:
    receipt = await box.call("ask", {"question": "What?"})
    assert receipt.metadata["reason"] == "What?"
    with pytest.raises(CallPending):
        receipt.unwrap()


async def test_observers_hear_of_the_receipt_and_of_the_end() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])

    @box.tool
    async def ask(context: Context) -> str:
        """Ask."""
        if context.answers is None:
            raise InputNeeded.form("What?")
        return "done"

    receipt = await box.call("ask")
    await box.answer(receipt.call.id, {"answer": None})
    assert [outcome.status for outcome in heard] == [Status.PENDING, Status.OK]


async def test_a_waiting_caller_gets_the_end_after_all_answers() -> None:
    receipts: asyncio.Queue[Outcome] = asyncio.Queue()
    box = Toolbox(observers=[receipts.put_nowait])

    @box.tool
    async def greet(context: Context) -> int:
        """Ask twice."""
        asked = (context.state or 0) + 1
        if asked < 3:
            raise InputNeeded.form(f"Question {asked}?", state=asked)
        return asked

    waiting = asyncio.create_task(box.call("greet", wait=True, timeout=120))
    for number in (1, 2):
        receipt = await receipts.get()
        assert receipt.metadata["reason"] == f"Question {number}?"
        await box.answer(receipt.call.id, {"answer": {}})
    assert (await waiting).value == 3


async def test_a_question_is_not_approved_and_a_decision_is_not_answered(box: Toolbox) -> None:
    box.rules.ask("greet")
    asked = await box.call("pay", {"amount": 1})
    with pytest.raises(AnswerNeeded) as caught:
        await box.approve(asked.call.id)
    assert caught.value.missing == ("answer",)
    with pytest.raises(AnswerNeeded):
        await box.answer(asked.call.id, {"other": 1})
    with pytest.raises(TypeError, match="answers must be JSON"):
        await box.answer(asked.call.id, {"answer": object()})
    parked = await box.call("greet")
    with pytest.raises(ValueError, match="asks for a decision"):
        await box.answer(parked.call.id, {"answer": 1})

    approved = await box.approve(parked.call.id, by="ann")
    assert approved.metadata["reason"] == "Question 1?", "approved, it runs, and asks"


async def test_a_refused_question_ends_the_call(box: Toolbox) -> None:
    asked = await box.call("pay", {"amount": 1})
    denied = await box.deny(asked.call.id, by="ann", reason="not now")
    assert denied.status is Status.DENIED
    with pytest.raises(AlreadyDecided):
        await box.answer(asked.call.id, accept(account="a"))


async def test_a_rule_made_meanwhile_counts(box: Toolbox) -> None:
    asked = await box.call("pay", {"amount": 1})
    box.rules.deny("pay")
    assert (await box.answer(asked.call.id, accept(account="a"))).status is Status.DENIED


async def test_an_unanswered_question_expires() -> None:
    box = Toolbox(approval_ttl=0.01)

    @box.tool
    async def ask() -> None:
        """Ask."""
        raise InputNeeded.form("What?")

    outcome = await box.call("ask", wait=True, timeout=120)
    assert outcome.status is Status.DENIED
    assert outcome.metadata["expired"]


async def test_what_was_shown_before_the_question_stays_shown() -> None:
    box = Toolbox()

    @box.tool(limits=Limits(timeout=30))
    async def ask(context: Context) -> None:
        """Show, then ask."""
        await context.emit("so far")
        raise InputNeeded.form("What?")

    items = [item async for item in box.stream("ask")]
    assert [str(getattr(item, "text", item))[:6] for item in items] == ["so far", "so far"]
    assert isinstance(items[-1], Outcome)
    assert items[-1].status is Status.PENDING


@pytest.mark.parametrize(
    ("requests", "state"), [({}, None), ({"a": {"x": object()}}, None), ({"a": {}}, float("nan"))]
)
async def test_a_question_that_cannot_be_kept_fails_in_the_tool(
    requests: dict[str, Any], state: Any
) -> None:
    box = Toolbox()

    @box.tool
    async def ask() -> None:
        """Ask badly."""
        raise InputNeeded(requests, state)

    outcome = await box.call("ask")
    assert outcome.status is Status.ERROR
    assert "InputNeeded" in outcome.text


async def test_an_answer_never_counts_for_a_later_question(box: Toolbox) -> None:
    call_id = (await box.call("greet")).call.id

    class Overtaken(UserDict[str, Any]):
        def __iter__(self) -> Iterator[str]:
            # Somebody else answers between a look at the call and this answer to it.
            other = threading.Thread(target=lambda: asyncio.run(box.answer(call_id, accept())))
            other.start()
            other.join()
            return super().__iter__()

    with pytest.raises(AlreadyDecided, match="already answered"):
        await box.answer(call_id, Overtaken(accept()))
    (parked,) = await box.pending()
    assert parked.reason == "Question 2?"
    assert (await box.answer(call_id, accept())).value == "asked 2 times"
