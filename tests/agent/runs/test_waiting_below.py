"""A run whose call waits for calls of its own tool: the decisions find their way down."""

from collections import Counter
from typing import Any

import pytest

from tests.agent.runs.conftest import Execute, MakeShop, Shop
from wieldy import Call, CallsNeeded, Context, Outcome, Status, WaitsForCalls
from wieldy.agent import RunInterrupted

TRIP = Call("book_trip", {"cities": ["Oslo", "Bergen"]})
TOUR = Call("book_tour", {})


def add_trips(shop: Shop) -> Shop:
    """A tool that refunds twice, and one above it."""

    async def book_trip(cities: list[str], ctx: Context) -> str:
        """Book a trip."""
        shop.ran["trip"] += 1
        if ctx.answers is None:
            raise CallsNeeded([await ctx.call("refund", {"order": each}) for each in cities])
        return ", ".join(ctx.answers.values())

    async def book_tour(ctx: Context) -> str:
        """Book a tour."""
        if ctx.answers is None:
            raise CallsNeeded([await ctx.call("book_trip", {"cities": ["Oslo"]})])
        return " and ".join(ctx.answers.values())

    for tool in (book_trip, book_tour):
        shop.agent.toolbox.add(tool, tags=[shop.agent.tag])
    return shop


async def interrupted(work: Any) -> RunInterrupted:
    with pytest.raises(RunInterrupted) as caught:
        await work
    return caught.value


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])
async def test_what_waits_below_is_pending_and_its_decisions_find_their_way_down(
    make_shop: MakeShop, url: str, kept: bool
) -> None:
    shop = add_trips(make_shop(TRIP, "Booked.", store=url if kept else None))
    error = await interrupted(shop.agent.input("Go.").async_start())
    oslo, bergen = error.pending
    assert [oslo.shown["order"], bergen.shown["order"]] == ["Oslo", "Bergen"]

    error = await interrupted(
        shop.agent.async_resume(error.state, {oslo.id: {"approved": True}}, deps="given again")
    )
    assert [each.id for each in error.pending] == [bergen.id]
    answer = await shop.agent.async_resume(error.state, {bergen.id: {"approved": False}})

    assert answer == "Booked."
    assert shop.ran == Counter({"trip": 2, "refund Oslo 10": 1})
    assert shop.deps == ["given again"]
    assert shop.model.requests[1].messages[-1]["content"] == "ok, denied"


async def test_calls_two_levels_down_go_on_in_another_process(
    make_shop: MakeShop, url: str
) -> None:
    first = add_trips(make_shop(TOUR, store=url))
    error = await interrupted(first.agent.input("Go.").async_start())
    second = add_trips(make_shop("Booked.", store=url))
    decisions = {each.id: {"approved": True} for each in error.pending}

    assert await second.agent.async_resume(error.run_id, decisions) == "Booked."

    assert (first.ran, second.ran) == ({"trip": 1}, {"trip": 1, "refund Oslo 10": 1})


async def test_what_was_decided_elsewhere_lets_the_run_go_on(make_shop: MakeShop, url: str) -> None:
    shop = add_trips(make_shop(TRIP, "Booked.", store=url))
    error = await interrupted(shop.agent.input("Go.").async_start())
    for parked in error.pending:
        await shop.agent.toolbox.approve(parked.id)
    assert shop.ran["trip"] == 1, "a call of a run goes on with the run"

    assert await shop.agent.async_resume(error.run_id) == "Booked."

    assert shop.ran == {"trip": 2, "refund Oslo 10": 1, "refund Bergen 10": 1}


async def test_the_call_above_can_only_be_denied(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    shop = add_trips(make_shop(TRIP, "I see.", store=url))
    error = await interrupted(shop.agent.input("Go.").async_start())
    above = error.pending[0].scope.parent
    assert above is not None

    with pytest.raises(WaitsForCalls):
        await shop.agent.async_resume(error.run_id, {above: {"approved": True}})
    assert await shop.agent.async_resume(error.run_id, {above: {"approved": False}}) == "I see."

    assert shop.ran == {"trip": 1}
    assert await shop.agent.toolbox.pending() == []


async def test_somebody_who_is_there_is_asked_about_each_call_below(
    make_shop: MakeShop, url: str
) -> None:
    shop = add_trips(make_shop(TOUR, "Booked.", store=url))
    asked = []

    async def decide(receipt: Outcome) -> Outcome:
        asked.append(receipt.call.tool)
        return await shop.agent.toolbox.approve(receipt.call.id)

    response = shop.agent.input("Go.").get_response(decide=decide)
    events = [event async for event in response.get_async_generator("all")]

    named = [data["tool_name"] for event, data in events if event == "permission_request"]
    assert (asked, named) == (["refund"], ["refund"])
    assert await response.async_get_text() == "Booked."
    entries = await shop.agent.toolbox.ledger.list()
    assert {entry.status for entry in entries} == {Status.OK}
