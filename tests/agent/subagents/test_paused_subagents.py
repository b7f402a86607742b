"""Calls of subagents that wait for a person: told at the top, decided there, gone on with below."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent.subagents.conftest import Make, requests
from wieldy import Call, Context, InputNeeded, Outcome, Secret, Status
from wieldy.agent import Agent, Budget, NotPending, RunInterrupted
from wieldy.testing import Answer

STORES = pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])


def pay(bill: str) -> Call:
    return Call("pay", {"bill": bill})


def ask(agent: str) -> Call:
    return Call(agent, {"query": "Go."})


class Office:
    """A boss that asks two clerks, of whom one asks a junior; all of them may pay."""

    def __init__(
        self,
        make: Make,
        store: str | None,
        *,
        boss: Any = (),
        ann: Any = (),
        bob: Any = (),
        junior: Any = (),
        **options: Any,
    ) -> None:
        self.ran: Counter[str] = Counter()
        scripts = {"junior": junior, "ann": ann, "bob": bob}
        inner = {name: make(name, *said, store=store) for name, said in scripts.items()}
        self.junior, self.ann, self.bob = inner.values()
        self.boss: Agent = make("boss", *boss, store=store, **options)
        self.ann.use_tools(self.junior)
        self.boss.use_tools([self.ann, self.bob])
        tags = [each.tag for each in (*inner.values(), self.boss)]
        self.boss.toolbox.add(self.pay, permission="confirm", tags=tags)
        self.boss.toolbox.add(self.ship, tags=tags)
        self.boss.toolbox.add(self.login, permission="confirm", tags=tags)

    async def pay(self, bill: str, ctx: Context) -> str:
        """Pay a bill."""
        self.ran[bill if ctx.deps is None else f"{bill} for {ctx.deps}"] += 1
        return f"paid {bill}"

    async def ship(self, ctx: Context) -> str:
        """Ship to an address that a person is asked for."""
        if ctx.answers is None:
            raise InputNeeded.form("Where to?")
        return f"shipped to {ctx.answers['answer']['content']}"

    async def login(self, password: Secret) -> str:
        """Log in."""
        return "welcome"


async def interrupted(asked: Any) -> RunInterrupted:
    with pytest.raises(RunInterrupted) as caught:
        await asked
    return caught.value


def bills(error: RunInterrupted) -> list[str]:
    return [each.shown["bill"] for each in error.pending]


def yes(error: RunInterrupted) -> dict[str, Any]:
    return {each.id: {"approved": True} for each in error.pending}


@STORES
async def test_a_pause_two_levels_down_reaches_the_top_and_the_decision_finds_its_way_down(
    make: Make, url: str, kept: bool
) -> None:
    office = Office(
        make,
        url if kept else None,
        boss=(ask("ann"), "All paid."),
        ann=(ask("junior"), "Junior has paid."),
        junior=(pay("rent"), "Paid the rent."),
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    assert bills(error) == ["rent"] and office.ran == {}

    answer = await office.boss.async_resume(error.state, yes(error), deps="us")

    assert (answer, office.ran) == ("All paid.", {"rent for us": 1})
    assert "paid rent" in requests(office.junior)[1].last
    assert "Paid the rent." in requests(office.ann)[1].last
    assert "Junior has paid." in requests(office.boss)[1].last
    assert [len(requests(each)) for each in (office.boss, office.ann, office.junior)] == [2, 2, 2]


@STORES
async def test_a_run_may_pause_many_times_on_every_level(make: Make, url: str, kept: bool) -> None:
    office = Office(
        make,
        url if kept else None,
        boss=(ask("ann"), pay("tax"), "All paid."),
        ann=(pay("desk"), ask("junior"), pay("lamp"), "Done."),
        junior=(pay("rent"), [pay("gas"), pay("water")], "Done."),
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    seen = [bills(error)]
    while len(seen) < 5:
        error = await interrupted(office.boss.async_resume(error.state, yes(error)))
        seen.append(bills(error))
    assert await office.boss.async_resume(error.state, yes(error)) == "All paid."

    assert seen == [["desk"], ["rent"], ["gas", "water"], ["lamp"], ["tax"]]
    assert office.ran == dict.fromkeys(["desk", "rent", "gas", "water", "lamp", "tax"], 1)


@STORES
async def test_two_subagents_that_wait_at_once_are_decided_one_by_one(
    make: Make, url: str, kept: bool
) -> None:
    office = Office(
        make,
        url if kept else None,
        boss=([ask("ann"), ask("bob")], "All paid."),
        ann=(pay("desk"), "Ann is done."),
        bob=(pay("lamp"), "Bob is done."),
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    desk, lamp = error.pending
    assert bills(error) == ["desk", "lamp"]

    error = await interrupted(office.boss.async_resume(error.state, {lamp.id: {"approved": True}}))
    assert (bills(error), office.ran) == (["desk"], {"lamp": 1})
    # Bob has gone on; Ann has not, and nobody was asked again.
    assert [len(requests(each)) for each in (office.boss, office.ann, office.bob)] == [1, 1, 2]
    no = {desk.id: {"approved": False, "reason": "too dear"}}
    assert await office.boss.async_resume(error.state, no) == "All paid."

    assert office.ran == {"lamp": 1}
    assert "too dear" in requests(office.ann)[1].last
    told = requests(office.boss)[1].text
    assert "Ann is done." in told and "Bob is done." in told


@STORES
async def test_decisions_made_through_the_toolbox_are_used(
    make: Make, url: str, kept: bool
) -> None:
    office = Office(
        make,
        url if kept else None,
        boss=([ask("ann"), ask("bob")], "All paid."),
        ann=(ask("junior"), "Done."),
        junior=(pay("desk"), "Done."),
        bob=(pay("lamp"), "Done."),
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    desk, lamp = error.pending
    box = office.boss.toolbox
    assert (await box.approve(desk.id, by="eve")).value == "paid desk"
    assert (await box.deny(lamp.id)).status is Status.DENIED

    assert await office.boss.async_resume(error.state) == "All paid."

    assert office.ran == {"desk": 1}
    assert await box.pending() == []


async def test_another_process_decides_and_goes_on(make: Make, url: str) -> None:
    said: dict[str, Any] = {
        "boss": ([ask("ann"), ask("bob")],),
        "ann": (ask("junior"),),
        "junior": (pay("desk"),),
        "bob": (pay("lamp"),),
    }
    first = Office(make, url, **said)
    error = await interrupted(first.boss.input("Go.").async_start())
    second = Office(
        make, url, boss=("All paid.",), ann=("Done.",), junior=("Done.",), bob=("Done.",)
    )
    parked = await second.boss.toolbox.pending()
    assert sorted(each.shown["bill"] for each in parked) == ["desk", "lamp"]
    await second.boss.toolbox.approve(parked[0].id)

    rest = {parked[1].id: {"approved": True}}
    assert await second.boss.async_resume(error.run_id, rest) == "All paid."

    assert (first.ran, second.ran) == ({}, {"desk": 1, "lamp": 1})
    runs = await second.boss.toolbox.store.runs.list()
    assert Counter(run.agent for run in runs) == Counter(["boss", "ann", "junior", "bob"])
    assert {run.state for run in runs} == {"done"}


@STORES
async def test_denying_the_call_of_a_subagent_denies_what_it_waits_for(
    make: Make, url: str, kept: bool
) -> None:
    office = Office(
        make, url if kept else None, boss=(ask("ann"), "I see."), ann=(pay("desk"), "never")
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    above = error.pending[0].scope.parent
    assert above is not None

    assert await office.boss.async_resume(error.state, {above: {"approved": False}}) == "I see."
    assert office.ran == {} and await office.boss.toolbox.pending() == []


@STORES
async def test_answers_that_a_tool_of_a_subagent_asks_for_find_their_way_down(
    make: Make, url: str, kept: bool
) -> None:
    office = Office(
        make, url if kept else None, boss=(ask("ann"), "Shipped."), ann=(Call("ship"), "Done.")
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    [question] = error.pending
    answers = {"answer": {"action": "accept", "content": "Oslo"}}
    decision = {question.id: {"approved": True, "answers": answers}}

    assert await office.boss.async_resume(error.state, decision) == "Shipped."
    assert "shipped to Oslo" in requests(office.ann)[1].last


@STORES
@pytest.mark.parametrize("decided", ["by who resumes", "before"])
@pytest.mark.parametrize("change", ["changed", "removed"])
@pytest.mark.parametrize("name", ["ann", "junior"])
async def test_a_subagent_that_has_changed_meanwhile_refuses_the_call_that_waits_in_it(
    make: Make, tmp_path: Path, kept: bool, name: str, change: str, decided: str
) -> None:
    office = Office(
        make,
        f"sqlite:///{tmp_path}/office.db" if kept else None,
        boss=(ask("ann"), "I see."),
        ann=(ask("junior"), "Junior has changed."),
        junior=(pay("desk"), "never"),
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    box = office.boss.toolbox
    before = box.get(name)
    assert before is not None
    box.remove(name)
    if change == "changed":
        box.add(before.replace(description="Another one."))
    [desk] = error.pending
    if decided == "before":
        await box.deny(desk.id)

    decisions = None if decided == "before" else {desk.id: {"approved": True}}
    assert await office.boss.async_resume(error.state, decisions) == "I see."

    caller = office.boss if name == "ann" else office.ann
    assert "not as it was when the call was parked" in requests(caller)[1].last
    assert office.ran == {} and await box.pending() == []


async def test_a_subagent_that_has_changed_still_waits_while_nobody_decides(
    make: Make, url: str
) -> None:
    office = Office(make, url, boss=(ask("ann"), "never"), ann=(pay("desk"), "never"))
    error = await interrupted(office.boss.input("Go.").async_start())
    office.boss.toolbox.remove("ann")

    again = await interrupted(office.boss.async_resume(error.state))

    assert bills(again) == ["desk"]


async def test_edited_arguments_find_their_way_down_and_bad_ones_change_nothing(
    make: Make, url: str
) -> None:
    office = Office(make, url, boss=(ask("ann"), "Paid."), ann=(pay("desk"), "Done."))
    error = await interrupted(office.boss.input("Go.").async_start())
    [desk] = error.pending
    with pytest.raises(NotPending):
        await office.boss.async_resume(error.run_id, {"call_none": {"approved": True}})

    edited = {desk.id: {"approved": True, "arguments": {"bill": "chair"}}}
    assert await office.boss.async_resume(error.run_id, edited) == "Paid."
    assert office.ran == {"chair": 1}


@STORES
async def test_somebody_who_is_there_decides_for_subagents_too(
    make: Make, url: str, kept: bool
) -> None:
    office = Office(
        make,
        url if kept else None,
        boss=(ask("ann"), "All paid."),
        ann=(pay("desk"), ask("junior"), "Done."),
        junior=(pay("lamp"), "Junior's words."),
    )
    asked: list[str] = []

    async def decide(receipt: Outcome) -> Outcome:
        asked.append(receipt.call.tool)
        return await office.boss.toolbox.approve(receipt.call.id)

    response = office.boss.input("Go.").get_response(decide=decide)
    events = [pair async for pair in response.get_async_generator("all")]

    assert await response.async_get_text() == "All paid."
    assert (asked, office.ran) == (["pay", "pay"], {"desk": 1, "lamp": 1})
    top = [(data["agent"], data["params"]) for name, data in events if name == "permission_request"]
    assert top == [("ann", {"bill": "desk"}), ("junior", {"bill": "lamp"})]
    inner = [data for name, data in events if name == "subagent" and data["event"] == "delta"]
    said = "".join(each["data"] for each in inner if each["agent"] == "ann")
    assert said == "Done."


async def test_a_person_sees_no_secrets_of_a_call_below(make: Make, url: str) -> None:
    login = Call("login", {"password": "hunter2hunter2"})
    office = Office(make, url, boss=(ask("ann"), "In."), ann=(login, "In."))
    response = office.boss.input("Go.").get_response()
    events: list[Any] = []
    with pytest.raises(RunInterrupted) as caught:
        async for pair in response.get_async_generator("all"):
            events.append(pair)  # noqa: PERF401 - the stream ends with an error
    assert "permission_request" in [name for name, _ in events]
    assert "hunter2" not in str([data for name, data in events])

    assert await office.boss.async_resume(caught.value.run_id, yes(caught.value)) == "In."


@STORES
async def test_a_subagent_called_without_an_agent_goes_on_by_itself(
    make: Make, url: str, kept: bool
) -> None:
    office = Office(make, url if kept else None, ann=(pay("desk"), "Ann is done."))
    box = office.boss.toolbox
    receipt = await box.call("ann", {"query": "Go."})
    assert receipt.status is Status.PENDING
    [desk] = await box.pending(below=receipt.call.id)

    await box.approve(desk.id)

    assert (await box.outcome(receipt.call.id)).value == "Ann is done."
    assert office.ran == {"desk": 1}


@STORES
async def test_what_was_used_up_before_and_after_a_pause_counts_once(
    make: Make, url: str, kept: bool
) -> None:
    def said(what: Any, tokens: int) -> Answer:
        calls = [what] if isinstance(what, Call) else []
        return Answer("" if calls else what, calls, usage=(tokens, 0))

    office = Office(
        make,
        url if kept else None,
        boss=(said(ask("ann"), 1), said("So.", 1)),
        ann=(said(ask("junior"), 10), said("Done.", 10)),
        junior=(said(pay("desk"), 100), said("Done.", 100)),
        budget=Budget(tokens=1000),
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    response = office.boss.resume_response(error.state, yes(error))

    assert await response.async_get_text() == "So."
    assert response.spent["tokens"] == 222


async def test_a_budget_binds_a_subagent_that_goes_on_before_its_caller_does(
    make: Make, url: str
) -> None:
    office = Office(
        make,
        url,
        boss=(ask("ann"), "So."),
        ann=(ask("junior"), "Done."),
        junior=(pay("desk"), pay("lamp"), pay("sofa"), "As far as I got."),
        budget=Budget(calls=4),
    )
    error = await interrupted(office.boss.input("Go.").async_start())
    error = await interrupted(office.boss.async_resume(error.state, yes(error)))
    assert bills(error) == ["lamp"]

    assert await office.boss.async_resume(error.state, yes(error)) == "So."

    assert office.ran == {"desk": 1, "lamp": 1}
    assert "budget of" in requests(office.junior)[2].last


@STORES
async def test_a_subagent_that_was_called_without_a_run_and_has_changed_is_refused(
    make: Make, tmp_path: Path, kept: bool
) -> None:
    store = f"sqlite:///{tmp_path}/runs.db" if kept else None
    office = Office(make, store, ann=("Hello.",), junior=(pay("rent"), "Paid."))
    box = office.boss.toolbox
    receipt = await box.call(ask("junior"))
    (rent,) = await box.pending()
    junior = box.get("junior")
    assert junior is not None
    box.add(junior.replace(description="Ask somebody else."), on_conflict="override")

    await box.approve(rent.id)

    outcome = await box.outcome(receipt.call.id)
    assert (outcome.status, office.ran) == (Status.DENIED, {"rent": 1})
    assert "not as it was" in outcome.text
