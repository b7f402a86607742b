"""A tool's question in a store: it outlives its process, and is answered once."""

import asyncio
from collections.abc import Callable

from wieldy import Context, InputNeeded, Observer, Outcome, Secret, Status, Toolbox


def make_box(url: str, ran: list[str] | None = None, *observers: Observer) -> Toolbox:
    """A box whose tool asks before it pays, or without one."""
    box = Toolbox(store=url, observers=observers)
    if ran is None:
        return box

    @box.tool
    async def pay(amount: int, token: Secret, context: Context) -> str:
        """Pay from an account."""
        ran.append("asked" if context.answers is None else "paid")
        if context.answers is None:
            raise InputNeeded.form("Which account?", state={"nonce": "zebra-crossing"})
        account = context.answers["answer"]["content"]
        return f"{amount} from {account} with {context.state['nonce']}, {len(str(token))}"

    return box


async def ask(box: Toolbox) -> str:
    """Make a call that asks; gives its id."""
    receipt = await box.call("pay", {"amount": 5, "token": "hunter2-hunter2"}, session="s")
    assert (receipt.status, receipt.metadata["reason"]) == (Status.PENDING, "Which account?")
    return receipt.call.id


ANSWER = {"answer": {"action": "accept", "content": "savings-of-ann"}}


async def test_a_question_is_answered_after_a_restart(url: str, dump: Callable[[], str]) -> None:
    ran: list[str] = []
    async with make_box(url, ran) as box:
        call_id = await ask(box)
    async with make_box(url, ran) as box:
        (parked,) = await box.pending()
        assert (parked.id, parked.scope.session) == (call_id, "s")
        assert parked.requests is not None
        assert parked.requests["answer"]["params"]["message"] == "Which account?"
        entry = await box.ledger.get(call_id)
        assert entry is not None
        assert (entry.state, entry.metadata["input"]) == ("pending", parked.requests)

        outcome = await box.answer(call_id, ANSWER, by="ann")

        assert outcome.value.startswith("5 from savings-of-ann with zebra-crossing")
        ended = await box.ledger.get(call_id)
        assert ended is not None
        assert (ended.state, ended.value) == ("ok", outcome.value)
        assert ended.call.decision is not None
        assert ended.call.decision.by == "ann"
    assert ran == ["asked", "paid"]
    held = dump()
    assert "hunter2" not in held
    assert "nonce" not in held


async def test_an_answer_given_where_the_tool_is_not_waits_for_who_has_it(url: str) -> None:
    ran: list[str] = []
    async with make_box(url, ran) as box, make_box(url) as desk:
        call_id = await ask(box)
        receipt = await desk.answer(call_id, ANSWER, by="ann")
        assert receipt.status is Status.PENDING
        (outcome,) = await box.recover()
        assert outcome.value.startswith("5 from savings-of-ann with zebra-crossing")
    assert ran == ["asked", "paid"]


async def test_two_who_answer_at_once_run_it_once(url: str) -> None:
    ran: list[str] = []
    async with make_box(url, ran) as box, make_box(url, ran) as other:
        for _ in range(5):
            call_id = await ask(box)
            outcomes = await asyncio.gather(
                *(each.answer(call_id, ANSWER) for each in (box, other) for _ in range(3))
            )
            assert len({outcome.value for outcome in outcomes}) == 1
    assert ran.count("paid") == 5


async def test_a_waiting_caller_hears_of_an_answer_given_elsewhere(url: str) -> None:
    ran: list[str] = []
    receipts: asyncio.Queue[Outcome] = asyncio.Queue()
    async with make_box(url, ran, receipts.put_nowait) as box, make_box(url) as desk:
        arguments = {"amount": 5, "token": "hunter2-hunter2"}
        waiting = asyncio.create_task(box.call("pay", arguments, wait=True, timeout=120))
        await desk.answer((await receipts.get()).call.id, ANSWER)
        assert (await waiting).value.startswith("5 from savings")


async def test_a_refused_question_never_goes_on(url: str) -> None:
    ran: list[str] = []
    async with make_box(url, ran) as box:
        call_id = await ask(box)
        assert (await box.deny(call_id, by="ann")).status is Status.DENIED
        entry = await box.ledger.get(call_id)
        assert entry is not None
        assert entry.state == "denied"
    assert ran == ["asked"]


async def ask_for_two(context: Context) -> str:
    """Ask two questions at once."""
    if context.answers is None:
        form = InputNeeded.form("Which?").requests["answer"]
        raise InputNeeded({"left": form, "right": form})
    return f"{context.answers['left']} {context.answers['right']}"


async def test_answers_of_two_processes_come_together_and_none_stays(
    url: str, dump: Callable[[], str]
) -> None:
    async with make_box(url) as box, make_box(url) as other:
        box.add(ask_for_two)
        call_id = (await box.call("ask_for_two")).call.id
        parked = await box.desk.find(call_id)
        await asyncio.gather(
            box.desk.note_answers(parked, {"left": "zebra"}),
            other.desk.note_answers(parked, {"right": "okapi"}),
        )
        given = (await other.desk.find(call_id)).given
        outcome = await box.answer(call_id, {"right": "lion"})
        # The call does not wait any more, so that nothing is kept for it.
        await box.desk.note_answers(parked, {"left": "too-late"})

    assert given == {"left": "zebra", "right": "okapi"}
    assert outcome.value == "zebra lion"
    assert "too-late" not in dump() and "okapi" not in dump()


async def test_a_call_that_its_maker_cancels_never_runs(url: str) -> None:
    async with make_box(url) as box:
        box.add(ask_for_two)
        waiting = (await box.call("ask_for_two")).call.id
        await box.desk.cancel(waiting, "ann")
        ended = await box.outcome(waiting)
        await box.desk.cancel(waiting, "bob")
        again = await box.outcome(waiting)

    assert (ended.status, ended.metadata["cancelled"]) == (Status.DENIED, True)
    assert again.call.decision is not None and again.call.decision.by == "ann"
