"""Parked calls outlive their process, are seen by all, decided once and run once."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.child import Children, eventually
from wieldy import (
    AlreadyDecided,
    Call,
    CallDenied,
    CallNotFound,
    Context,
    InputNeeded,
    InvalidArguments,
    KeyTaken,
    Outcome,
    Scope,
    Secret,
    Status,
    Toolbox,
)


class Wiper:
    """Counts what it wiped."""

    def __init__(self) -> None:
        self.wiped: list[str] = []

    async def wipe(self, path: str, times: int = 1) -> str:
        """Wipe a path."""
        self.wiped.append(path)
        return f"wiped {path} {times}"


@pytest.fixture
def wiper() -> Wiper:
    return Wiper()


def make_box(url: str, wiper: Wiper, **options: Any) -> Toolbox:
    box = Toolbox(store=url, **options)
    box.add(wiper.wipe, permission="confirm")
    return box


async def test_a_parked_call_survives_a_restart_and_runs_as_it_was_parked(
    url: str, wiper: Wiper
) -> None:
    async with make_box(url, wiper) as box:
        receipt = await box.call("wipe", {"path": "a", "times": "2"}, session="s")
        assert receipt.status is Status.PENDING
    async with make_box(url, wiper) as box:
        (parked,) = await box.pending()
        assert (parked.id, parked.arguments) == (receipt.call.id, {"path": "a", "times": 2})
        assert parked.reason == "the tool asks for confirmation"
        assert parked.scope.session == "s"
        before = time.time()
        outcome = await box.approve(parked.id, by="ann")
        assert (outcome.value, outcome.call.id) == ("wiped a 2", receipt.call.id)
        assert outcome.metadata["repairs"][0]["path"] == "times"
        assert await box.pending() == []
        entry = await box.ledger.get(receipt.call.id)
        assert entry is not None
        decision = entry.call.decision
        assert decision is not None
        assert (entry.state, decision.approved, decision.by) == ("ok", True, "ann")
        assert before <= decision.at <= time.time()
    assert wiper.wiped == ["a"]


async def test_approving_again_gives_the_outcome_and_denying_afterwards_is_refused(
    url: str, wiper: Wiper
) -> None:
    async with make_box(url, wiper) as box, make_box(url, wiper) as other:
        receipt = await box.call("wipe", {"path": "a"})
        await other.approve(receipt.call.id, by="ann")
        assert (await box.approve(receipt.call.id)).value == "wiped a 1"
        with pytest.raises(AlreadyDecided, match="approved by ann"):
            await box.deny(receipt.call.id)
        with pytest.raises(CallNotFound):
            await box.approve("no such call")
    assert wiper.wiped == ["a"]


async def test_a_denied_call_never_runs_and_is_told_once(url: str, wiper: Wiper) -> None:
    told: list[Outcome] = []
    async with make_box(url, wiper, observers=[told.append]) as box:
        receipt = await box.call("wipe", {"path": "a"})
        for _ in range(2):
            outcome = await box.deny(receipt.call.id, by="ann", reason="too risky")
            assert outcome.status is Status.DENIED
            assert isinstance(outcome.error, CallDenied)
            assert outcome.error.reason == "too risky"
        with pytest.raises(AlreadyDecided):
            await box.approve(receipt.call.id)
        entry = await box.ledger.get(receipt.call.id)
        assert entry is not None
        assert entry.state == "denied"
        assert entry.call.decision is not None
        assert (entry.call.decision.by, entry.call.decision.reason) == ("ann", "too risky")
    assert [outcome.status for outcome in told] == [Status.PENDING, Status.DENIED]
    assert wiper.wiped == []


async def test_edited_arguments_are_checked_and_are_what_runs(url: str, wiper: Wiper) -> None:
    async with make_box(url, wiper) as box:
        receipt = await box.call("wipe", {"path": "a"})
        with pytest.raises(InvalidArguments):
            await box.approve(receipt.call.id, arguments={"path": 3.5, "times": "no"})
        assert len(await box.pending()) == 1
        outcome = await box.approve(receipt.call.id, arguments={"path": "b"})
        assert outcome.value == "wiped b 1"
        entry = await box.ledger.get(receipt.call.id)
        assert entry is not None
        assert entry.call.arguments == {"path": "b"}
    assert wiper.wiped == ["b"]


async def test_an_approval_without_the_tool_is_not_changed_by_later_arguments(
    url: str, wiper: Wiper
) -> None:
    async with make_box(url, wiper) as box, Toolbox(store=url) as elsewhere:
        receipt = await box.call("wipe", {"path": "a"})
        await elsewhere.approve(receipt.call.id, by="ann")
        with pytest.raises(AlreadyDecided, match="approved by ann"):
            await box.approve(receipt.call.id, arguments={"path": "b"})
        assert wiper.wiped == []
        assert (await box.approve(receipt.call.id)).value == "wiped a 1"


async def test_a_call_that_nobody_decides_expires(url: str, wiper: Wiper) -> None:
    async with make_box(url, wiper, approval_ttl=0.05) as box:
        receipt = await box.call("wipe", {"path": "a"}, wait=True)
        assert receipt.status is Status.DENIED
        assert receipt.metadata["expired"] is True
        (entry,) = await box.ledger.list(state="expired")
        assert entry.status is Status.DENIED
        with pytest.raises(AlreadyDecided):
            await box.approve(receipt.call.id)
    assert wiper.wiped == []


async def test_a_call_that_expired_while_nobody_was_there_is_not_pending(
    url: str, wiper: Wiper, execute: Callable[[str], str]
) -> None:
    async with make_box(url, wiper, approval_ttl=3600) as box:
        receipt = await box.call("wipe", {"path": "a"})
    execute("UPDATE wieldy_calls SET expires_at = 1")
    async with make_box(url, wiper) as box:
        assert await box.pending() == []
        with pytest.raises(AlreadyDecided, match="denied: nobody decided in time"):
            await box.approve(receipt.call.id)


async def test_a_tool_that_changed_since_is_not_run(url: str, wiper: Wiper) -> None:
    async with make_box(url, wiper) as box:
        receipt = await box.call("wipe", {"path": "a"})
    async with Toolbox(store=url) as box:

        @box.tool(permission="confirm")
        async def wipe(path: str, times: int = 1) -> str:
            """Wipe a path and everything beside it."""
            raise AssertionError("it must not run")

        outcome = await box.approve(receipt.call.id)
        assert outcome.status is Status.PENDING
        assert "not here as it was" in outcome.metadata["reason"]
    async with make_box(url, wiper) as box:
        (outcome,) = await box.recover()
        assert outcome.value == "wiped a 1"
    assert wiper.wiped == ["a"]


async def test_two_processes_that_approve_at_once_run_it_once(url: str, children: Children) -> None:
    several = [children.start() for _ in range(3)]
    receipts = [several[0].ask("call", tool="wipe", arguments={"n": n}) for n in range(10)]
    for child in several[1:]:
        child.ask("open")
    for receipt in receipts:
        for child in several:
            child.send("approve", id=receipt["id"])
    for child in several:
        assert [child.answer()["value"] for _ in receipts] == [n * 2 for n in range(10)]
    assert children.effects() == {f"wipe {n}": 1 for n in range(10)}


async def test_one_approves_while_another_denies_and_one_of_them_wins(
    url: str, wiper: Wiper
) -> None:
    async with make_box(url, wiper) as box, make_box(url, wiper) as other:
        for n in range(10):
            receipt = await box.call("wipe", {"path": str(n)})
            answers = await asyncio.gather(
                box.approve(receipt.call.id), other.deny(receipt.call.id), return_exceptions=True
            )
            assert sum(isinstance(answer, AlreadyDecided) for answer in answers) == 1
            entry = await box.ledger.get(receipt.call.id)
            assert entry is not None
            assert (entry.state == "ok") is (str(n) in wiper.wiped)


async def test_a_waiting_caller_continues_when_another_process_decides(
    url: str, wiper: Wiper, children: Children
) -> None:
    """The child has no tool `wipe` of this form, so it is the caller who runs the call."""
    child = children.start()
    async with make_box(url, wiper) as box:
        task = asyncio.create_task(box.call("wipe", {"path": "a"}, wait=True, timeout=120))

        async def parked() -> bool:
            return bool(await box.pending())

        await eventually(parked)
        (waiting,) = await box.pending()
        assert child.ask("approve", id=waiting.id)["status"] == "pending"
        outcome = await task
        assert outcome.value == "wiped a 1"
        assert outcome.call.decision is not None
        assert str(outcome.call.decision.by).startswith("process ")
    assert wiper.wiped == ["a"]


async def test_a_waiting_caller_gets_the_end_of_a_call_that_runs_elsewhere(
    url: str, wiper: Wiper
) -> None:
    async with make_box(url, wiper) as box, make_box(url, wiper) as other:
        for verdict in (other.approve, other.deny):
            task = asyncio.create_task(box.call("wipe", {"path": "a"}, wait=True))

            async def parked() -> bool:
                return bool(await other.pending())

            await eventually(parked)
            (waiting,) = await other.pending()
            decided = await verdict(waiting.id)
            assert (await task).status is decided.status
    assert wiper.wiped == ["a"]


async def test_waiting_has_an_end_and_the_call_stays_parked(url: str, wiper: Wiper) -> None:
    async with make_box(url, wiper) as box:
        receipt = await box.call("wipe", {"path": "a"}, wait=True, timeout=0.05)
        assert receipt.status is Status.PENDING
        assert len(await box.pending()) == 1
        with pytest.raises(ValueError, match="wait=True"):
            await box.call("wipe", {"path": "a"}, timeout=0.05)


async def test_waiting_works_without_a_store(wiper: Wiper) -> None:
    box = Toolbox()
    box.add(wiper.wipe, permission="confirm")
    task = asyncio.create_task(box.call("wipe", {"path": "a"}, wait=True))

    async def parked() -> bool:
        return bool(await box.pending())

    await eventually(parked)
    (waiting,) = await box.pending()
    assert (await box.approve(waiting.id)).value == (await task).value == "wiped a 1"
    assert (await box.call("wipe", {"path": "b"}, wait=True, timeout=0.01)).status is Status.PENDING
    assert wiper.wiped == ["a"]


async def test_a_secret_is_kept_while_the_call_waits_and_no_longer(
    url: str, dump: Callable[[], str]
) -> None:
    sent: list[str] = []

    async def login(user: str, password: Secret) -> str:
        """Log in."""
        sent.append(password.get_secret_value())
        return f"in as {user}"

    async with Toolbox(store=url) as box:
        box.add(login, permission="confirm")
        receipts = [
            await box.call("login", {"user": user, "password": "hunter2!"})
            for user in ("ann", "bob")
        ]
        edited = await box.call("login", {"user": "eve", "password": Secret("hunter2!")})
    assert "hunter2!" in dump()
    async with Toolbox(store=url) as box:
        box.add(login, permission="confirm")
        assert (await box.approve(receipts[0].call.id)).value == "in as ann"
        await box.deny(receipts[1].call.id)
        other = {"user": "eve", "password": "correct horse"}
        assert (await box.approve(edited.call.id, arguments=other)).value == "in as eve"
        entry = await box.ledger.get(receipts[0].call.id)
        assert entry is not None
        assert entry.call.arguments == {"user": "ann", "password": "**********"}
    assert sent == ["hunter2!", "correct horse"]
    assert "hunter2!" not in dump()
    assert "correct horse" not in dump()


async def test_deps_reach_a_call_that_is_approved_where_it_was_made(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool(permission="confirm")
        async def who(context: Context) -> Any:
            """Who is it."""
            return context.deps

        receipt = await box.call("who", deps="ann")
        assert (await box.approve(receipt.call.id)).value == "ann"


async def test_a_rule_made_since_still_counts(url: str, wiper: Wiper) -> None:
    async with make_box(url, wiper) as box:
        receipt = await box.call("wipe", {"path": "a"})
        box.rules.deny("wipe")
        outcome = await box.approve(receipt.call.id)
        assert outcome.status is Status.DENIED
        entry = await box.ledger.get(receipt.call.id)
        assert entry is not None
        assert (entry.state, entry.started_at) == ("denied", None)
    assert wiper.wiped == []


async def test_an_approved_call_whose_process_died_before_it_ran_runs_when_recovered(
    url: str, children: Children
) -> None:
    child = children.start("resumed")
    receipt = child.ask("call", tool="wipe", arguments={"n": 12})
    child.send("approve", id=receipt["id"])
    assert child.wait() == -9
    assert children.effects() == {}
    helper = children.start()
    assert helper.ask("recover") == {"ids": [receipt["id"]]}
    assert children.effects() == {"wipe 12": 1}
    async with Toolbox(store=url) as box:
        (entry,) = await box.ledger.list()
        assert (entry.state, entry.value) == ("ok", 24)


async def test_pending_finds_the_calls_of_one_agent_or_session(url: str, wiper: Wiper) -> None:
    odd = "a\0 session"
    scopes = (Scope(), Scope("a", "s"), Scope("a", odd), Scope("b", "s"))
    async with make_box(url, wiper) as box:
        for n, scope in enumerate(scopes):
            await box.call(Call("wipe", {"path": "a"}, scope, id=f"w{n}"))
    async with Toolbox(store=url) as box:

        async def ids(**named: str) -> list[str]:
            return [parked.id for parked in await box.pending(**named)]

        assert await ids(agent="a") == ["w1", "w2"]
        assert await ids(session="s") == ["w1", "w3"]
        assert await ids(agent="a", session=odd) == ["w2"]
        assert await ids(agent="b", session=odd) == []
        await box.approve("w3")
        assert await ids(session="s") == ["w1", "w3"]


async def test_an_id_that_is_taken_is_not_parked_again(url: str, wiper: Wiper) -> None:
    async with make_box(url, wiper) as box, make_box(url, wiper) as other:
        receipt = await box.call(Call("wipe", {"path": "a"}, id="one"))
        again = await other.call(Call("wipe", {"path": "b"}, id="one"))
        assert receipt.status is Status.PENDING
        assert isinstance(again.error, KeyTaken)
        (parked,) = await other.pending()
        assert parked.arguments == {"path": "a"}
        await box.approve("one")
        decided = await other.call(Call("wipe", {"path": "b"}, id="one"))
        assert isinstance(decided.error, KeyTaken)
        entry = await other.ledger.get("one")
        assert entry is not None
        assert (entry.state, entry.value) == ("ok", "wiped a 1")
    assert wiper.wiped == ["a"]


async def test_an_id_that_is_taken_is_refused_under_another_key_too(url: str, wiper: Wiper) -> None:
    async with make_box(url, wiper) as box:
        await box.call(Call("wipe", {"path": "a"}, id="one", idempotency_key="k"))
        same = await box.call(Call("wipe", {"path": "a"}, id="one", idempotency_key="k"))
        other = await box.call(Call("wipe", {"path": "a"}, id="one", idempotency_key="l"))
        assert (same.status, other.status) == (Status.PENDING, Status.DENIED)


async def test_an_approved_call_that_nobody_runs_stays_pending_and_expires(
    url: str, wiper: Wiper, execute: Callable[[str], str]
) -> None:
    told: list[Outcome] = []
    options: dict[str, Any] = {"approval_ttl": 3600, "observers": [told.append]}
    async with make_box(url, wiper, **options) as box, Toolbox(store=url) as bare:
        receipt = await box.call("wipe", {"path": "a"})
        assert (await bare.approve(receipt.call.id)).status is Status.PENDING
        (parked,) = await box.pending()
        assert parked.id == receipt.call.id

        async def state() -> str:
            entry = await bare.ledger.get(receipt.call.id)
            assert entry is not None
            return entry.state

        assert await state() == "approved"
        execute("UPDATE wieldy_calls SET expires_at = 1")
        assert await box.pending() == []
        assert await state() == "expired"
        late = await box.approve(receipt.call.id)
        assert isinstance(late.error, CallDenied)
        assert late.error.reason == "nobody ran it in time"
    assert [outcome.status for outcome in told] == [Status.PENDING, Status.DENIED]
    assert wiper.wiped == []


async def test_a_tool_of_an_inactive_group_is_not_here(url: str, wiper: Wiper) -> None:
    async with Toolbox(store=url) as box:
        box.groups.create("files", "Files.")
        box.add(wiper.wipe, permission="confirm", group="files")
        box.groups.activate("files")
        receipt = await box.call("wipe", {"path": "a"})
        box.groups.deactivate("files")
        assert (await box.approve(receipt.call.id)).status is Status.PENDING
        assert await box.recover() == []
        (parked,) = await box.pending()
        assert parked.id == receipt.call.id
        box.groups.activate("files")
        assert (await box.approve(receipt.call.id)).value == "wiped a 1"
    assert wiper.wiped == ["a"]


# Of a long text, a database leaves pages behind that nothing else is written to.
LONG = "zebra-secret " * 1000


async def test_no_byte_of_a_secret_is_left_of_calls_that_have_waited(
    url: str, tmp_path: Path, dump: Callable[[], str]
) -> None:
    async def login(password: Secret, ask: bool, context: Context) -> str:
        """Log in."""
        if ask and context.answers is None:
            raise InputNeeded.form(f"Is it {password.get_secret_value()}?", state="zebra-state")
        return password.get_secret_value()

    async def waiting(box: Toolbox, name: str, ask: bool = False) -> str:
        outcome = await box.call(name, {"password": LONG, "ask": ask})
        assert outcome.status is Status.PENDING
        return outcome.call.id

    answers = {"answer": {"action": "accept", "content": "zebra-answer"}}
    async with Toolbox(store=url) as box:
        box.add(login, "confirmed", permission="confirm")
        box.add(login, "open")
        await box.approve(await waiting(box, "confirmed"))
        await box.deny(await waiting(box, "confirmed"))
        await box.answer(await waiting(box, "open", ask=True), answers)
        await box.deny(await waiting(box, "open", ask=True))
    async with Toolbox(store=url, approval_ttl=0.01) as box:
        box.add(login, "confirmed", permission="confirm")
        expired = await waiting(box, "confirmed")

        async def is_over() -> bool:
            entry = await box.ledger.get(expired)
            return entry is not None and entry.state == "expired"

        await eventually(is_over)
    assert "zebra" not in dump()
    files = await asyncio.to_thread(lambda: [each.read_bytes() for each in tmp_path.iterdir()])
    assert not any(b"zebra" in held for held in files)


async def test_a_call_approved_elsewhere_and_recovered_keeps_its_repairs(url: str) -> None:
    def make_box() -> Toolbox:
        box = Toolbox(store=url)

        @box.tool(permission="confirm")
        async def pay(amount: int) -> int:
            return amount

        return box

    async with make_box() as first, Toolbox(store=url) as without_tool:
        receipt = await first.call("pay", {"amount": "3"})
        await without_tool.approve(receipt.call.id, by="ann")
    async with make_box() as later:
        [outcome] = await later.recover()

    assert (outcome.status, outcome.value) == ("ok", 3)
    assert outcome.metadata["repairs"]


async def test_an_outcome_is_read_by_its_id_without_deciding_anything(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool(permission="confirm")
        async def pay(amount: int) -> int:
            return amount

        receipt = await box.call("pay", {"amount": 3})
        waiting = await box.outcome(receipt.call.id)
        await box.approve(receipt.call.id)
        ended = await box.outcome(receipt.call.id)

        assert (waiting.status, ended.status, ended.value) == ("pending", "ok", 3)
        assert await box.pending() == []
        with pytest.raises(CallNotFound):
            await box.outcome("nobody")
