"""Nothing runs without permission, and an approval is worth exactly one run."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from wieldy import (
    ActiveCall,
    AlreadyDecided,
    Call,
    CallDenied,
    CallNotFound,
    CallPending,
    Context,
    Handler,
    InvalidArguments,
    KeyTaken,
    Outcome,
    Parked,
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


@pytest.fixture
def told() -> list[Outcome]:
    return []


@pytest.fixture
def box(wiper: Wiper, told: list[Outcome]) -> Toolbox:
    box = Toolbox(observers=[told.append])
    box.add(wiper.wipe, permission="confirm")
    return box


async def test_a_parked_call_is_a_receipt_and_the_tool_does_not_run(
    box: Toolbox, wiper: Wiper
) -> None:
    outcome = await box.call("wipe", {"path": "a"})
    assert outcome.status is Status.PENDING
    assert wiper.wiped == []
    with pytest.raises(CallPending, match=outcome.call.id):
        outcome.unwrap()
    (parked,) = await box.pending()
    assert (parked.id, parked.tool, parked.arguments) == (outcome.call.id, "wipe", {"path": "a"})
    assert parked.reason == "the tool asks for confirmation"


async def test_parked_call_runs_when_it_comes_back_approved(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    outcome = await box.approve(parked.call.id, by="reviewer")
    assert outcome.value == "wiped a 1"
    assert outcome.call.id == parked.call.id
    assert outcome.call.decision is not None
    assert outcome.call.decision.by == "reviewer"
    assert await box.pending() == []


async def test_approving_twice_runs_once_and_gives_the_same_outcome(
    box: Toolbox, wiper: Wiper
) -> None:
    parked = await box.call("wipe", {"path": "a"})
    first = await box.approve(parked.call.id)
    again = await box.approve(parked.call.id)
    assert again is first
    assert wiper.wiped == ["a"]


async def test_many_approving_at_once_run_it_once(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    outcomes = await asyncio.gather(*(box.approve(parked.call.id) for _ in range(20)))
    assert wiper.wiped == ["a"]
    assert {id(outcome) for outcome in outcomes} == {id(outcomes[0])}


def test_approving_from_several_threads_runs_it_once(box: Toolbox, wiper: Wiper) -> None:
    parked = box.call_sync("wipe", {"path": "a"})
    values: list[Any] = []

    def approve() -> None:
        values.append(asyncio.run(box.approve(parked.call.id)).value)

    threads = [threading.Thread(target=approve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert values == ["wiped a 1"] * 8
    assert wiper.wiped == ["a"]


async def test_a_denied_call_never_runs(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    outcome = await box.deny(parked.call.id, by="reviewer", reason="too dangerous")
    assert outcome.status is Status.DENIED
    assert isinstance(outcome.error, CallDenied)
    assert "too dangerous" in outcome.text
    assert await box.deny(parked.call.id) is outcome
    assert wiper.wiped == []


async def test_deciding_otherwise_afterwards_is_refused(box: Toolbox) -> None:
    one, two = await box.call_many([("wipe", {"path": "a"}), ("wipe", {"path": "b"})])
    await box.approve(one.call.id, by="ann")
    with pytest.raises(AlreadyDecided, match="already approved by ann"):
        await box.deny(one.call.id)
    await box.deny(two.call.id, by="bob")
    with pytest.raises(AlreadyDecided, match="already denied by bob"):
        await box.approve(two.call.id)


async def test_an_unknown_id_is_refused(box: Toolbox) -> None:
    for decide in (box.approve, box.deny):
        with pytest.raises(CallNotFound):
            await decide("call_nowhere_1")


async def test_edited_arguments_are_what_runs(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    outcome = await box.approve(parked.call.id, arguments={"path": "b", "times": "2"})
    assert outcome.value == "wiped b 2"
    assert outcome.call.arguments == {"path": "b", "times": 2}
    assert (await box.approve(parked.call.id)).value == "wiped b 2"
    assert wiper.wiped == ["b"]


async def test_arguments_edited_after_the_approval_are_refused(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    await box.approve(parked.call.id, by="ann")
    with pytest.raises(AlreadyDecided, match="already approved by ann"):
        await box.approve(parked.call.id, arguments={"path": "b"})
    assert (await box.approve(parked.call.id, arguments={"path": "a"})).value == "wiped a 1"
    assert wiper.wiped == ["a"]


async def test_an_approved_call_can_be_watched_while_it_runs(box: Toolbox) -> None:
    @box.tool(permission="confirm")
    async def count(to: int, context: Context) -> AsyncIterator[str]:
        """Count."""
        for number in range(to):
            await context.progress(number, to)
            yield str(number)

    parked = await box.call("count", {"to": 2})
    items = [item async for item in box.approve_stream(parked.call.id, by="ann")]
    assert [type(item).__name__ for item in items] == [
        *("Progress", "Text") * 2,
        "Outcome",
    ]
    assert isinstance(items[-1], Outcome)
    assert (items[-1].value, items[-1].call.id) == (["0", "1"], parked.call.id)
    with pytest.raises(CallNotFound):
        _ = [item async for item in box.approve_stream("call_nowhere_1")]


async def test_edited_arguments_that_do_not_fit_leave_the_call_pending(
    box: Toolbox, wiper: Wiper
) -> None:
    parked = await box.call("wipe", {"path": "a"})
    for wrong in ({"path": 1}, {"times": 2}, "[", {"path": "a", "unknown": 1}):
        with pytest.raises(InvalidArguments):
            await box.approve(parked.call.id, arguments=wrong)
    assert [each.id for each in await box.pending()] == [parked.call.id]
    assert (await box.approve(parked.call.id)).value == "wiped a 1"


async def test_the_repair_of_a_parked_call_is_on_its_receipt_and_on_its_end(box: Toolbox) -> None:
    parked = await box.call("wipe", {"path": "a", "times": "3"})
    (seen,) = await box.pending()
    assert seen.arguments == {"path": "a", "times": 3}
    outcome = await box.approve(parked.call.id)
    assert outcome.value == "wiped a 3"
    assert parked.metadata["repairs"] == outcome.metadata["repairs"]
    assert outcome.metadata["repairs"][0]["path"] == "times"


async def test_the_receipt_of_edited_arguments_is_about_the_edit(box: Toolbox) -> None:
    parked = await box.call("wipe", {"path": "a", "times": "3"})
    plain = await box.approve(parked.call.id, arguments={"path": "b", "times": 4})
    assert "repairs" not in plain.metadata
    other = await box.call("wipe", {"path": "a", "times": "3"})
    outcome = await box.approve(other.call.id, arguments={"path": "b", "times": "5"})
    assert [receipt["before"] for receipt in outcome.metadata["repairs"]] == ["5"]


async def test_a_receipt_says_what_it_waits_for(box: Toolbox) -> None:
    parked = await box.call("wipe", {"path": "a"})
    assert parked.text == f"The call of wipe waits for approval as {parked.call.id}."
    assert [block.to_dict()["text"] for block in parked.content] == [parked.text]


async def test_a_changed_tool_is_not_run_on_an_old_approval(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    box.add(wiper.wipe, description="Now wipes everything.", on_conflict="override")
    outcome = await box.approve(parked.call.id)
    assert outcome.status is Status.PENDING
    assert [waiting.id for waiting in await box.pending()] == [parked.call.id]
    assert wiper.wiped == []
    box.add(wiper.wipe, permission="confirm", on_conflict="override")
    assert (await box.approve(parked.call.id)).value == "wiped a 1"
    assert wiper.wiped == ["a"]


async def test_a_removed_tool_is_not_run(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    box.remove("wipe")
    assert (await box.approve(parked.call.id)).status is Status.PENDING
    assert wiper.wiped == []


async def test_a_rule_made_after_parking_still_denies(box: Toolbox, wiper: Wiper) -> None:
    parked = await box.call("wipe", {"path": "a"})
    box.rules.deny("wipe")
    assert (await box.approve(parked.call.id)).status is Status.DENIED
    assert wiper.wiped == []


async def test_the_decision_of_one_run_cannot_be_used_for_another(
    box: Toolbox, wiper: Wiper
) -> None:
    parked = await box.call("wipe", {"path": "a"})
    outcome = await box.approve(parked.call.id)
    again = await box.call(outcome.call)
    edited = await box.call(outcome.call.replace(arguments={"path": "b"}))
    assert again.status is Status.DENIED
    assert isinstance(edited.error, KeyTaken)
    assert wiper.wiped == ["a"]


async def test_a_parked_call_cannot_be_exchanged_for_another_of_its_id(
    box: Toolbox, wiper: Wiper
) -> None:
    parked = await box.call("wipe", {"path": "a"})
    other = await box.call(parked.call.replace(arguments={"path": "/"}))
    assert isinstance(other.error, KeyTaken)
    assert [waiting.arguments for waiting in await box.pending()] == [{"path": "a"}]
    await box.approve(parked.call.id)
    assert wiper.wiped == ["a"]


async def test_what_the_approver_saw_is_what_runs() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def approver(parked: Parked) -> bool:
        asked.set()
        await go.wait()
        return True

    box = Toolbox(approver=approver)

    @box.tool(permission="confirm")
    async def run(command: Any) -> Any:
        return command

    arguments = {"command": ["ls"]}
    task = asyncio.create_task(box.call("run", arguments))
    await asyncio.wait_for(asked.wait(), 120)
    arguments["command"].append("; rm -rf /")
    go.set()
    assert (await task).value == ["ls"]


async def test_an_approved_call_that_nobody_can_run_ends_when_its_time_is_up(
    wiper: Wiper,
) -> None:
    told: list[Outcome] = []
    box = Toolbox(approval_ttl=0.05, observers=[told.append])
    box.add(wiper.wipe, permission="confirm")
    parked = await box.call("wipe", {"path": "a"})
    box.remove("wipe")
    assert (await box.approve(parked.call.id)).status is Status.PENDING
    while told[-1].status is Status.PENDING:
        await asyncio.sleep(0.01)
        await box.pending()
    assert (told[-1].status, told[-1].metadata["expired"]) == (Status.DENIED, True)
    assert await box.pending() == []


async def test_an_approval_waits_for_an_inactive_group(box: Toolbox) -> None:
    box.groups.create("web", active=True)
    box.add(lambda: "ran", name="fetch", group="web", permission="confirm")
    parked = await box.call("fetch")
    box.groups.deactivate("web")
    assert (await box.approve(parked.call.id)).status is Status.PENDING
    box.groups.activate("web")
    assert (await box.approve(parked.call.id)).value == "ran"


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_tool_can_not_use_the_decision_of_another_call(
    box: Toolbox, wiper: Wiper, blocking: bool
) -> None:
    parked = await box.call("wipe", {"path": "a"})
    approved = await box.approve(parked.call.id)
    assert approved.call.decision is not None
    again = approved.call.replace(id="another")

    async def repeat(context: Context) -> str:
        return (await context.call(again)).status.value

    def repeat_blocking(context: Context) -> str:
        return context.call_sync(again).status.value

    box.add(repeat_blocking if blocking else repeat, name="repeat")
    assert (await box.call("repeat")).value == "pending"
    assert wiper.wiped == ["a"]


@pytest.mark.parametrize(
    ("sent", "slipped_in"), [(1, True), (True, 1), (1, 1.0), (1, "1"), (None, 0), ([1], [True])]
)
async def test_a_decision_holds_for_exactly_the_arguments_it_was_made_on(
    sent: Any, slipped_in: Any
) -> None:
    ran: list[Any] = []

    async def slip_in(active: ActiveCall, proceed: Handler) -> Outcome:
        if active.call.decision is not None:
            active.call.arguments["flag"] = slipped_in  # type: ignore[index]
        return await proceed(active)

    box = Toolbox(middleware=[slip_in])
    schema = {"type": "object", "properties": {"flag": {}}}
    box.add(lambda flag: ran.append(flag), name="act", permission="confirm", input_schema=schema)
    parked = await box.call("act", {"flag": sent})
    outcome = await box.approve(parked.call.id)
    assert outcome.status is Status.DENIED
    assert "not those that were approved" in outcome.text
    assert ran == []


async def test_what_the_caller_changes_after_parking_does_not_run(
    box: Toolbox, wiper: Wiper
) -> None:
    arguments = {"path": "a"}
    parked = await box.call("wipe", arguments)
    arguments["path"] = "/"
    await box.approve(parked.call.id)
    assert wiper.wiped == ["a"]


async def test_observers_hear_of_the_receipt_and_later_of_the_end(
    box: Toolbox, told: list[Outcome]
) -> None:
    one, two = await box.call_many([("wipe", {"path": "a"}), ("wipe", {"path": "b"})])
    await box.approve(one.call.id)
    await box.deny(two.call.id)
    assert [(outcome.call.id, outcome.status.value) for outcome in told] == [
        (one.call.id, "pending"),
        (two.call.id, "pending"),
        (one.call.id, "ok"),
        (two.call.id, "denied"),
    ]


async def test_an_overdue_call_ends_as_denied_and_observers_hear_of_it(wiper: Wiper) -> None:
    ended = asyncio.Event()
    told: list[Outcome] = []

    def listen(outcome: Outcome) -> None:
        told.append(outcome)
        if outcome.status is Status.DENIED:
            ended.set()

    box = Toolbox(approval_ttl=0.01, observers=[listen])
    box.add(wiper.wipe, permission="confirm")
    parked = await box.call("wipe", {"path": "a"})
    await asyncio.wait_for(ended.wait(), 120)
    assert told[-1].metadata["expired"] is True
    assert await box.pending() == []
    with pytest.raises(AlreadyDecided):
        await box.approve(parked.call.id)
    assert (await box.deny(parked.call.id)).metadata["expired"] is True
    assert wiper.wiped == []


def test_an_overdue_call_ends_when_somebody_looks_although_its_loop_is_gone(wiper: Wiper) -> None:
    box = Toolbox(approval_ttl=0.001)
    box.add(wiper.wipe, permission="confirm")
    asyncio.run(box.call("wipe", {"path": "a"}))

    async def look() -> list[Parked]:
        await asyncio.sleep(0.01)
        return await box.pending()

    assert asyncio.run(look()) == []


@pytest.mark.parametrize(
    ("answer", "expected"), [(True, "ok"), (False, "denied"), (None, "pending"), ("yes", "pending")]
)
async def test_the_approver_is_asked_first(wiper: Wiper, answer: Any, expected: str) -> None:
    asked: list[Parked] = []

    async def approver(parked: Parked) -> Any:
        asked.append(parked)
        return answer

    box = Toolbox(approver=approver)
    box.add(wiper.wipe, permission="confirm")
    outcome = await box.call("wipe", {"path": "a"})
    assert outcome.status.value == expected
    assert [(parked.id, parked.arguments) for parked in asked] == [(outcome.call.id, {"path": "a"})]
    assert wiper.wiped == (["a"] if answer is True else [])
    assert len(await box.pending()) == (1 if expected == "pending" else 0)


async def test_an_approver_may_be_a_plain_function(wiper: Wiper) -> None:
    box = Toolbox(approver=lambda parked: parked.arguments["path"] == "a")
    box.add(wiper.wipe, permission="confirm")
    outcomes = await box.call_many([("wipe", {"path": "a"}), ("wipe", {"path": "b"})])
    assert [outcome.status for outcome in outcomes] == [Status.OK, Status.DENIED]


async def test_a_failing_approver_leaves_the_call_parked(
    wiper: Wiper, caplog: pytest.LogCaptureFixture
) -> None:
    async def approver(parked: Parked) -> bool:
        raise RuntimeError("no network")

    box = Toolbox(approver=approver)
    box.add(wiper.wipe, permission="confirm")
    assert (await box.call("wipe", {"path": "a"})).status is Status.PENDING
    assert "no network" in caplog.text


async def test_the_deps_of_a_parked_call_reach_it_when_it_runs() -> None:
    box = Toolbox()

    @box.tool(permission="confirm")
    def who(context: Context) -> Any:
        return context.deps

    one, two = [await box.call("who", deps=user) for user in ("ann", "bob")]
    assert (await box.approve(one.call.id)).value == "ann"
    assert (await box.approve(two.call.id, deps="root")).value == "root"


async def test_an_interrupted_approval_is_an_end_and_is_not_run_again(box: Toolbox) -> None:
    started = asyncio.Event()
    runs: list[int] = []

    @box.tool(permission="confirm")
    async def hang() -> None:
        runs.append(1)
        started.set()
        await asyncio.Event().wait()

    parked = await box.call("hang")
    task = asyncio.create_task(box.approve(parked.call.id))
    await asyncio.wait_for(started.wait(), 120)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await box.approve(parked.call.id)).status is Status.INTERRUPTED
    assert runs == [1]


async def test_calls_given_as_records_keep_their_ids(box: Toolbox) -> None:
    call = Call("wipe", {"path": "a"}, id="mine", provider_id="toolu_1")
    outcome = await box.call(call)
    assert (outcome.call.id, outcome.call.provider_id) == ("mine", "toolu_1")
    assert (await box.approve("mine")).call.provider_id == "toolu_1"


async def test_a_secret_argument_waits_with_its_call_and_shows_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Outcome] = []
    box = Toolbox(observers=[told.append])

    @box.tool(permission="confirm")
    async def login(password: Secret) -> str:
        raise RuntimeError(f"wrong password {password.get_secret_value()}")

    parked = await box.call("login", {"password": "hunter2hunter2"})
    (waiting,) = await box.pending()
    outcome = await box.approve(parked.call.id)
    shown = [repr(parked), repr(waiting), repr(outcome), outcome.text, str(outcome.to_dict())]
    assert not any("hunter2" in text for text in [*shown, *map(repr, told), caplog.text])
    assert outcome.status is Status.ERROR
