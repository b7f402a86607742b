"""Runs that stop for a person, and go on: here, in another process, once."""

import asyncio
import json
from typing import Any

import pytest

from tests.agent.runs.conftest import Execute, MakeShop
from wieldy import AnswerNeeded, Call, InvalidArguments, Status
from wieldy.agent import RunInterrupted
from wieldy.core.run_errors import NotPending, RunBusy, RunNotFound, StateRefused
from wieldy.testing import Answer

REFUND = Call("refund", {"order": "A-17"})
NOTE = Call("note", {"text": "hi"})


async def interrupted(work: Any) -> RunInterrupted:
    with pytest.raises(RunInterrupted) as caught:
        await work
    return caught.value


def yes(error: RunInterrupted, **facts: Any) -> dict[str, Any]:
    return {each.id: {"approved": True, **facts} for each in error.pending}


async def test_a_run_has_its_id_before_the_first_request(make_shop: MakeShop, url: str) -> None:
    shop = make_shop("Hello.", store=url)
    response = shop.agent.input("Hi.").get_response()
    run_id = response.run_id

    assert await response.async_get_text() == "Hello."
    run = await shop.agent.toolbox.store.runs.get(run_id)
    assert run is not None
    assert (run.agent, run.state, run.answer["text"]) == ("shop", "done", "Hello.")


async def test_each_settled_step_is_written_before_the_next_begins(
    make_shop: MakeShop, url: str
) -> None:
    counts: list[int] = []

    async def count(request: Any) -> Any:
        [run] = await shop.agent.toolbox.store.runs.list()
        counts.append(run.steps)
        return NOTE if len(counts) < 3 else "Done."

    shop = make_shop(count, count, count, store=url)
    await shop.agent.input("Go.").async_start()

    assert counts == [1, 3, 5]


async def test_a_run_that_waits_goes_on_in_another_process(make_shop: MakeShop, url: str) -> None:
    first = make_shop([REFUND, NOTE], store=url)
    error = await interrupted(first.agent.input("Pay back.").async_start())
    assert [each.tool for each in error.pending] == ["refund"]
    assert error.state == {"version": 1, "run_id": error.run_id, "agent": "shop"}
    state = json.loads(json.dumps(error.state))
    second = make_shop("It is paid back.", store=url)

    assert await second.agent.async_resume(state, yes(error)) == "It is paid back."

    assert first.ran == {"note hi": 1}
    assert second.ran == {"refund A-17 10": 1}
    told = [message["content"] for message in second.model.requests[0].messages[2:]]
    assert told == ["10 paid back for A-17", "noted hi"]


@pytest.mark.parametrize("strategy", ["judge", "native", "xml"])
async def test_every_strategy_goes_on(make_shop: MakeShop, url: str, strategy: str) -> None:
    command = {"purpose": "pay", "tool_name": "refund", "tool_kwargs": {"order": "A-17"}}
    said = {
        "judge": {"use_tool": True, "tool_command": command},
        "native": REFUND,
        "xml": "<tool_call><name>refund</name><params><order>A-17</order></params></tool_call>",
    }
    first = make_shop(said[strategy], store=url, tool_strategy=strategy)
    asked = first.agent.input("Pay back.").output({"paid": (int, "how much")}).get_response()
    error = await interrupted(asked.async_get_data())
    second = make_shop('{"paid": 10}', store=url, tool_strategy=strategy)

    response = second.agent.resume_response(error.run_id, yes(error))

    paths = [event.path async for event in response.get_async_generator("instant")]
    assert "paid" in paths
    assert (await response.async_get_data(), second.ran) == ({"paid": 10}, {"refund A-17 10": 1})
    assert "10 paid back for A-17" in second.model.requests[0].text
    assert (await response.async_get_meta())["requests"] == 2
    assert len(response.full_result_data["extra"]["tool_logs"]) == 1


async def test_blocking_code_resumes(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, "Paid.", store=url)

    def work() -> str:
        with pytest.raises(RunInterrupted) as caught:
            shop.agent.input("Pay back.").start()
        return str(shop.agent.resume(caught.value.run_id, yes(caught.value)))

    assert await asyncio.to_thread(work) == "Paid."


async def test_without_a_store_the_state_goes_on_in_this_process(make_shop: MakeShop) -> None:
    shop = make_shop([REFUND, NOTE], "Paid.")
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    state = json.loads(json.dumps(error.state))

    assert await shop.agent.async_resume(state, yes(error)) == "Paid."
    assert shop.ran == {"note hi": 1, "refund A-17 10": 1}
    told = [message["content"] for message in shop.model.requests[1].messages[2:]]
    assert told == ["10 paid back for A-17", "noted hi"]


async def test_several_pauses_in_one_run(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, Call("refund", {"order": "B-2"}), REFUND, "Paid.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    for _ in range(2):
        error = await interrupted(shop.agent.async_resume(error.state, yes(error)))

    assert await shop.agent.async_resume(error.state, yes(error)) == "Paid."
    assert shop.ran == {"refund A-17 10": 2, "refund B-2 10": 1}


async def test_a_finished_run_gives_its_recorded_answer(make_shop: MakeShop, url: str) -> None:
    first = make_shop(NOTE, '{"paid": 10}', store=url)
    response = first.agent.input("Pay.").output({"paid": (int,)}).get_response()
    answer = await response.async_get_data()
    second = make_shop(store=url)
    again = second.agent.resume_response(response.run_id)

    assert await again.async_get_data() == answer == {"paid": 10}
    assert await again.async_get_meta() == await response.async_get_meta()
    assert again.full_result_data["extra"] == response.full_result_data["extra"]
    assert second.model.requests == []


async def test_a_finished_run_streams_its_recorded_answer(make_shop: MakeShop, url: str) -> None:
    first = make_shop(NOTE, '{"paid": 10}', store=url)
    response = first.agent.input("Pay.").output({"paid": (int,)}).get_response()
    await response.async_get_data()
    second = make_shop(store=url)

    async def read(view: Any) -> list[Any]:
        again = second.agent.resume_response(response.run_id)
        return [item async for item in again.get_async_generator(view)]

    assert "".join(await read("delta")) == '{"paid": 10}'
    complete = [(item.path, item.value) for item in await read("instant") if item.is_complete]
    assert ("paid", 10) in complete
    events = dict(await read("all"))
    assert events["done"] == '{"paid": 10}'
    assert events["meta"] == await response.async_get_meta()
    assert (first.ran, second.ran, second.model.requests) == ({"note hi": 1}, {}, [])


@pytest.mark.parametrize("stored", [True, False])
async def test_a_decision_on_a_call_that_does_not_wait_raises_and_changes_nothing(
    make_shop: MakeShop, url: str, stored: bool
) -> None:
    shop = make_shop([REFUND, NOTE], "Paid.", **({"store": url} if stored else {}))
    error = await interrupted(shop.agent.input("Pay back.").async_start())

    for other in ("call_unknown", error.pending[0].id + "x"):
        with pytest.raises(NotPending, match=other):
            await shop.agent.async_resume(error.state, {**yes(error), other: {"approved": True}})
    assert shop.ran == {"note hi": 1}
    assert len(await shop.agent.toolbox.pending()) == 1
    assert await shop.agent.async_resume(error.state, yes(error)) == "Paid."


async def test_a_sibling_that_ran_is_none_that_can_be_decided(
    make_shop: MakeShop, url: str
) -> None:
    shop = make_shop([REFUND, NOTE], "Paid.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    [noted] = await shop.agent.toolbox.ledger.list(tool="note")

    with pytest.raises(NotPending, match=noted.call.id):
        await shop.agent.async_resume(error.state, {noted.call.id: {"approved": False}})


@pytest.mark.parametrize(
    ("decision", "raised"),
    [
        ({"approved": True, "arguments": {"order": "A", "amount": "much"}}, InvalidArguments),
        ({"approved": "yes"}, ValueError),
        ({"approved": True, "arguments": [1]}, ValueError),
        ({"approved": True, "reason": 3}, ValueError),
        ({"approved": True, "answers": {"address": "x"}}, ValueError),
        ({"ok": True}, ValueError),
        ("yes", ValueError),
    ],
)
async def test_all_decisions_are_checked_before_any_is_applied(
    make_shop: MakeShop, url: str, decision: Any, raised: type[Exception]
) -> None:
    shop = make_shop([REFUND, Call("refund", {"order": "B-2"})], "Paid.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    first, second = (each.id for each in error.pending)

    with pytest.raises(raised):
        await shop.agent.async_resume(error.state, {first: {"approved": True}, second: decision})

    assert shop.ran == {}
    assert len(await shop.agent.toolbox.pending()) == 2
    assert await shop.agent.async_resume(error.state, yes(error)) == "Paid."


async def test_a_pending_call_without_a_decision_stays_pending(
    make_shop: MakeShop, url: str
) -> None:
    shop = make_shop([REFUND, Call("refund", {"order": "B-2"})], "Paid.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    first, second = (each.id for each in error.pending)

    error = await interrupted(shop.agent.async_resume(error.state, {first: {"approved": True}}))

    assert [each.id for each in error.pending] == [second]
    assert shop.ran == {"refund A-17 10": 1}
    assert len(shop.model.requests) == 1
    assert await shop.agent.async_resume(error.run_id, {second: {"approved": False}}) == "Paid."
    assert shop.ran == {"refund A-17 10": 1}


async def test_a_decision_without_a_yes_denies_with_its_reason(
    make_shop: MakeShop, url: str
) -> None:
    shop = make_shop(REFUND, "Sorry.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    decisions = {error.pending[0].id: {"reason": "too much money"}}

    assert await shop.agent.async_resume(error.state, decisions, by="ann") == "Sorry."
    assert shop.ran == {}
    assert "too much money" in shop.model.requests[1].last
    [entry] = await shop.agent.toolbox.ledger.list(tool="refund")
    assert entry.call.decision is not None and entry.call.decision.by == "ann"


async def test_edited_arguments_run(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, "Paid.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    edited = yes(error, arguments={"order": "A-17", "amount": 3})

    assert await shop.agent.async_resume(error.state, edited) == "Paid."
    assert shop.ran == {"refund A-17 3": 1}


@pytest.mark.parametrize("stored", [True, False])
async def test_a_tool_that_asks_interrupts_and_gets_its_answers(
    make_shop: MakeShop, url: str, stored: bool
) -> None:
    shop = make_shop(
        Call("ship", {"order": "A-17"}), "Shipped.", **({"store": url} if stored else {})
    )
    error = await interrupted(shop.agent.input("Ship.").async_start())
    [parked] = error.pending
    with pytest.raises(AnswerNeeded):
        await shop.agent.async_resume(error.state, {parked.id: {"approved": True}})
    given = {"answer": {"action": "accept", "content": "Oslo"}}
    decisions = {parked.id: {"approved": True, "answers": given}}

    assert await shop.agent.async_resume(error.state, decisions) == "Shipped."
    assert "A-17 shipped to Oslo" in shop.model.requests[1].last


@pytest.mark.parametrize("approved", [True, False])
async def test_a_decision_made_elsewhere_is_used(
    make_shop: MakeShop, url: str, approved: bool
) -> None:
    shop = make_shop(REFUND, "Done.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    other = make_shop(store=url)
    [call_id] = [each.id for each in error.pending]
    await (other.agent.toolbox.approve if approved else other.agent.toolbox.deny)(call_id)

    decisions = {call_id: {"approved": not approved}}

    assert await shop.agent.async_resume(error.state, decisions) == "Done."
    assert shop.ran == {}
    assert other.ran == ({"refund A-17 10": 1} if approved else {})
    told = shop.model.requests[1].last
    assert told == "10 paid back for A-17" if approved else "a person said no" in told


async def test_a_call_approved_by_who_has_no_tools_runs_when_the_run_goes_on(
    make_shop: MakeShop, url: str
) -> None:
    shop = make_shop(REFUND, "Done.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    other = make_shop(store=url)
    other.agent.toolbox.remove("refund")
    receipt = await other.agent.toolbox.approve(error.pending[0].id)
    assert receipt.status is Status.PENDING

    assert await shop.agent.async_resume(error.run_id, deps="ann") == "Done."
    assert (shop.ran, shop.deps) == ({"refund A-17 10": 1}, ["ann"])


async def test_an_expired_call_is_denied(make_shop: MakeShop, url: str, execute: Execute) -> None:
    shop = make_shop(REFUND, "Too late.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    execute("UPDATE wieldy_calls SET expires_at = 1")

    assert await shop.agent.async_resume(error.state, yes(error)) == "Too late."
    assert shop.ran == {}
    assert "nobody decided in time" in shop.model.requests[1].last


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_tool_that_has_changed_meanwhile_refuses_the_pending_call(
    make_shop: MakeShop, url: str, elsewhere: bool
) -> None:
    first = make_shop(REFUND, store=url)
    error = await interrupted(first.agent.input("Pay back.").async_start())
    second = make_shop("I see.", store=url)
    box = second.agent.toolbox

    @box.tool(tags=[second.agent.tag], permission="confirm", on_conflict="override")
    async def refund(order: str, everything: bool) -> None:
        """Pay everything back."""
        second.ran["changed"] += 1

    if elsewhere:
        await box.approve(error.pending[0].id)

    assert await second.agent.async_resume(error.state, yes(error)) == "I see."
    assert second.ran == {}
    assert "not as it was" in second.model.requests[0].last


async def test_a_second_who_resumes_the_same_run_is_told_so(make_shop: MakeShop, url: str) -> None:
    gate = asyncio.Event()
    shop = make_shop(REFUND, Answer("Paid.", gate=gate), store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    going = asyncio.create_task(shop.agent.async_resume(error.state, yes(error)))
    await shop.model.asked(2)
    other = make_shop("Twice!", store=url)

    with pytest.raises(RunBusy, match=error.run_id):
        await other.agent.async_resume(error.state, yes(error))
    gate.set()

    assert await going == "Paid."
    assert await other.agent.async_resume(error.run_id) == "Paid."
    assert other.ran == {} and shop.ran == {"refund A-17 10": 1}


async def test_many_who_resume_at_once_run_it_once(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    others = [make_shop("Paid.", store=url) for _ in range(6)]

    ends = await asyncio.gather(
        *(each.agent.async_resume(error.state, yes(error)) for each in others),
        return_exceptions=True,
    )

    assert "Paid." in ends
    assert all(isinstance(end, RunBusy | NotPending) for end in ends if end != "Paid.")
    assert sum(len(each.model.requests) for each in others) == 1
    assert sum((each.ran for each in others), start=type(shop.ran)()) == {"refund A-17 10": 1}


async def test_without_a_store_another_process_is_an_error(make_shop: MakeShop) -> None:
    shop = make_shop(REFUND)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    state = {**error.state, "process": "0" * 16}

    with pytest.raises(StateRefused, match=r"another process.*store"):
        await shop.agent.async_resume(state, yes(error))


async def test_without_a_store_a_state_is_used_once(make_shop: MakeShop) -> None:
    shop = make_shop(REFUND, "Paid.", "Twice!")
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    assert await shop.agent.async_resume(error.state, yes(error)) == "Paid."

    with pytest.raises(StateRefused, match="before"):
        await shop.agent.async_resume(error.state, yes(error))
    with pytest.raises(StateRefused, match="store"):
        await shop.agent.async_resume(error.run_id)


def _edit_turns(state: dict[str, Any]) -> None:
    state["run"]["turns"][0]["content"] = "Pay all of it."


def _edit_call(state: dict[str, Any]) -> None:
    state["run"]["calls"][0]["tool"] = "note"


def _edit_digest(state: dict[str, Any]) -> None:
    state["digest"] = "0" * 64


def _make_large(state: dict[str, Any]) -> None:
    state["run"]["turns"][0]["content"] = "x" * 10_000_000


@pytest.mark.parametrize("edit", [_edit_turns, _edit_call, _edit_digest, _make_large])
async def test_a_state_that_was_edited_is_refused(make_shop: MakeShop, edit: Any) -> None:
    shop = make_shop(REFUND, "Paid.")
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    state = json.loads(json.dumps(error.state))
    edit(state)

    with pytest.raises(StateRefused, match="changed"):
        await shop.agent.async_resume(state, yes(error))
    assert shop.ran == {}
    assert await shop.agent.async_resume(error.state, yes(error)) == "Paid."


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("", "id of a run"),
        ("{", "JSON"),
        ("[" * 100_000, "No run"),
        ({}, "no state"),
        ({"version": 2, "run_id": "x", "agent": "shop"}, "version 2"),
        ({"version": "1", "run_id": "x", "agent": "shop"}, "version"),
        ({"version": 1, "run_id": 7, "agent": "shop"}, "no state"),
        ([1], "object"),
        ({"version": 1, "run_id": "x", "agent": "shop"}, "No run"),
    ],
)
async def test_what_is_no_state_is_refused(
    make_shop: MakeShop, url: str, state: Any, said: str
) -> None:
    shop = make_shop(store=url)

    with pytest.raises((StateRefused, RunNotFound), match=said):
        await shop.agent.async_resume(state)


async def test_the_run_of_another_agent_is_refused_and_stays(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, "Paid.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    other = make_shop(store=url, name="bank")

    with pytest.raises(StateRefused, match=r"'shop'.*'bank'"):
        await other.agent.async_resume(error.state, yes(error))
    assert await shop.agent.async_resume(error.state, yes(error)) == "Paid."


async def test_with_a_store_the_row_is_the_truth(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, "Paid.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    state = {**error.state, "run": {"calls": [{"tool": "note"}]}}

    assert await shop.agent.async_resume(state, yes(error)) == "Paid."
    assert shop.ran == {"refund A-17 10": 1}


@pytest.mark.parametrize("stored", [True, False])
async def test_deps_reach_the_tools_and_are_given_again(
    make_shop: MakeShop, url: str, stored: bool
) -> None:
    shop = make_shop(REFUND, REFUND, "Paid.", **({"store": url} if stored else {}))
    error = await interrupted(shop.agent.input("Pay back.").async_start(deps="ann"))
    error = await interrupted(shop.agent.async_resume(error.state, yes(error), deps="bob"))
    await shop.agent.async_resume(error.state, yes(error), deps="cid")

    assert shop.deps == ["bob", "cid"]


async def test_calls_have_keys_of_run_round_and_index(make_shop: MakeShop, url: str) -> None:
    shop = make_shop([NOTE, NOTE], NOTE, "Done.", store=url)
    response = shop.agent.input("Go.").get_response()
    await response.async_get_data()

    entries = reversed(await shop.agent.toolbox.ledger.list())
    keys = sorted(str(entry.call.idempotency_key) for entry in entries)
    assert keys == [f"{response.run_id}:{place}" for place in ("0:0", "0:1", "1:0")]
    assert {e.call.scope.run for e in await shop.agent.toolbox.ledger.list()} == {response.run_id}


async def test_a_run_whose_model_failed_goes_on(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(NOTE, RuntimeError("away"), "Done.", store=url)
    response = shop.agent.input("Go.").get_response()
    with pytest.raises(RuntimeError, match="away"):
        await response.async_get_data()
    [run] = await shop.agent.toolbox.store.runs.list()
    assert (run.state, run.error) == ("failed", "away")

    assert await shop.agent.async_resume(response.run_id) == "Done."
    assert shop.ran == {"note hi": 1}


async def test_a_cancelled_run_goes_on(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(NOTE, Answer("x", gate=asyncio.Event()), "Done.", store=url)
    response = shop.agent.input("Go.").get_response()
    task = asyncio.create_task(response.async_get_data())
    await shop.model.asked(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    runs = shop.agent.toolbox.store.runs
    assert (await runs.until(response.run_id, lambda r: r.state != "running")).state == "cancelled"

    assert await shop.agent.async_resume(response.run_id) == "Done."
    assert shop.ran == {"note hi": 1}


async def test_the_events_of_a_decision_come_in_order(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, "Paid.", store=url)
    response = shop.agent.input("Pay back.").get_response()
    names = ("permission_request", "permission_result", "tool_start", "tool_complete")
    events: list[Any] = []
    with pytest.raises(RunInterrupted) as caught:
        async for pair in response.get_async_generator("specific", events=names):
            events.append(pair)  # noqa: PERF401 - the stream ends with an error
    [(name, asked)] = events
    parked = caught.value.pending[0]
    assert (name, asked["call_id"]) == ("permission_request", parked.id)
    assert (asked["permission_level"], asked["params"]) == ("confirm", {"order": "A-17"})
    assert (asked["type"], asked["agent"]) == ("tool_permission", "shop")

    again = shop.agent.resume_response(caught.value.state, yes(caught.value))
    after = [pair async for pair in again.get_async_generator("specific", events=names)]

    assert [name for name, _ in after] == list(names[1:])
    assert after[0][1]["approved"] is True
    assert (after[2][1]["success"], after[2][1]["error"]) == (True, None)
    assert after[2][1]["duration_ms"] >= 0


async def test_a_refused_call_has_a_result_and_neither_start_nor_end(
    make_shop: MakeShop, url: str
) -> None:
    shop = make_shop(REFUND, "Sorry.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start())
    decisions = {error.pending[0].id: {"approved": False, "reason": "no"}}
    response = shop.agent.resume_response(error.state, decisions)
    events = [(name, data) async for name, data in response.get_async_generator("all")]

    [result] = [data for name, data in events if name == "permission_result"]
    assert (result["approved"], result["reason"]) == (False, "no")
    assert not {"tool_start", "tool_complete"} & {name for name, _ in events}


async def test_a_run_is_in_the_store_before_its_first_event(make_shop: MakeShop, url: str) -> None:
    shop = make_shop("It is so.", store=url)
    runs, found = shop.agent.toolbox.store.runs, []

    async def begin(result: Any, settings: Any) -> Any:
        found.append(await runs.get(response.run_id))
        yield "begun", None

    shop.agent.extension_handlers.append("broadcast_prefixes", begin)
    response = shop.agent.input("Is it?").get_response()
    with pytest.raises(RunNotFound, match="nothing of it had begun"):
        await shop.agent.async_resume(response.run_id)
    async for event, _ in response.get_async_generator("all"):
        stored = await runs.get(response.run_id)
        assert stored is not None, event

    assert [run.id for run in found if run is not None] == [response.run_id]
    assert await shop.agent.async_resume(response.run_id) == "It is so."
