"""Runs that go on by themselves, in a process that keeps them."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.agent.runs.conftest import MakeShop, Shop
from tests.agent.runs.test_resuming import NOTE, REFUND, interrupted
from wieldy import Toolbox
from wieldy.agent import RunKeeper
from wieldy.store.runs import StoredRun
from wieldy.testing import Answer


async def ended(shop: Shop, run_id: str, state: str = "done") -> StoredRun:
    runs = shop.agent.toolbox.store.runs
    async with asyncio.timeout(120):
        return await runs.until(run_id, lambda run: run.state == state)


async def decide_elsewhere(
    url: str, decide: Callable[[Toolbox, str], Coroutine[Any, Any, Any]]
) -> None:
    """Decide on the one waiting call in a toolbox that has no tools, as the command does."""
    async with Toolbox(store=url) as box:
        (parked,) = await box.pending()
        await decide(box, parked.id)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_run_goes_on_by_itself_after_a_decision_in_another_process(
    make_shop: MakeShop, url: str, approved: bool
) -> None:
    first = make_shop(REFUND, store=url)
    error = await interrupted(first.agent.input("Pay back.").async_start())
    shop = make_shop("Settled.", store=url)
    told: list[str] = []

    async with RunKeeper(shop.agent, tell=told.append).keeping():
        if approved:
            await decide_elsewhere(url, lambda box, call_id: box.approve(call_id, by="ann"))
        else:
            await decide_elsewhere(url, lambda box, call_id: box.deny(call_id, by="ann"))
        run = await ended(shop, error.run_id)

    assert run.answer["text"] == "Settled."
    assert shop.ran == ({"refund A-17 10": 1} if approved else {})
    assert told == [
        f"Run {error.run_id} of shop was decided on, and goes on.",
        f"Run {error.run_id} of shop is done.",
    ]


async def test_a_run_that_nobody_decided_on_is_left_alone(make_shop: MakeShop, url: str) -> None:
    first = make_shop(REFUND, store=url)
    waiting = await interrupted(first.agent.input("Pay back.").async_start())
    crashed = make_shop(NOTE, Answer("x", gate=asyncio.Event()), store=url)
    response = crashed.agent.input("Go.").get_response()
    task = asyncio.create_task(response.async_get_data())
    await crashed.model.asked(2)
    response.hand_over()
    await asyncio.wait([task])
    await ended(crashed, response.run_id, "crashed")
    shop = make_shop("Done.", store=url)

    async with RunKeeper(shop.agent).keeping():
        # The run that crashed was found by the same look that left the other alone.
        assert (await ended(shop, response.run_id)).answer["text"] == "Done."

    assert shop.ran == {}
    stored = await shop.agent.toolbox.store.runs.get(waiting.run_id)
    assert stored is not None and stored.state == "interrupted"


async def test_runs_that_were_given_deps_go_on_only_where_deps_can_be_found(
    make_shop: MakeShop, url: str
) -> None:
    first = make_shop(REFUND, REFUND, store=url)
    given = await interrupted(first.agent.input("Pay back.").async_start(deps="ann"))
    none = await interrupted(first.agent.input("Pay back.").async_start())
    async with Toolbox(store=url) as box:
        for parked in await box.pending():
            await box.approve(parked.id)
    without, having = make_shop("Done.", store=url), make_shop("Done.", store=url)

    async with RunKeeper(without.agent).keeping():
        await ended(without, none.run_id)
    stored = await without.agent.toolbox.store.runs.get(given.run_id)
    assert stored is not None and stored.state == "interrupted"

    async def deps(run: StoredRun) -> str:
        return f"deps of {run.agent} {run.id}"

    async with RunKeeper(having.agent, deps).keeping():
        await ended(having, given.run_id)

    assert (without.deps, having.deps) == ([None], [f"deps of shop {given.run_id}"])


async def test_several_keepers_go_on_with_each_run_once(make_shop: MakeShop, url: str) -> None:
    count = 6
    first = make_shop(*[REFUND] * count, store=url)
    waiting = [
        (await interrupted(first.agent.input("Pay back.").async_start())).run_id
        for _ in range(count)
    ]
    shops = [make_shop(*["Done."] * count, store=url) for _ in range(3)]
    async with AsyncExitStack() as stack:
        for shop in shops:
            await stack.enter_async_context(RunKeeper(shop.agent, most=2).keeping())
        async with Toolbox(store=url) as box:
            for parked in await box.pending():
                await box.approve(parked.id)
        for run_id in waiting:
            await ended(shops[0], run_id)

    assert sum(shop.ran["refund A-17 10"] for shop in shops) == count
    assert sum(len(shop.model.requests) for shop in shops) == count


async def test_a_keeper_goes_on_with_so_many_runs_at_a_time(make_shop: MakeShop, url: str) -> None:
    first = make_shop(*[REFUND] * 3, store=url)
    waiting = [await interrupted(first.agent.input("Go.").async_start()) for _ in range(3)]
    async with Toolbox(store=url) as box:
        for parked in await box.pending():
            await box.approve(parked.id)
    gate = asyncio.Event()
    shop = make_shop(*[Answer("Done.", gate=gate)] * 3, store=url)

    async with RunKeeper(shop.agent, most=2).keeping():
        await shop.model.asked(2)
        assert sum(shop.ran.values()) == 2
        gate.set()
        for error in waiting:
            await ended(shop, error.run_id)
    assert sum(shop.ran.values()) == 3


async def test_a_run_that_fails_does_not_stop_the_others(make_shop: MakeShop, url: str) -> None:
    first = make_shop(REFUND, REFUND, store=url)
    failing = await interrupted(first.agent.input("Fail.").async_start())
    other = await interrupted(first.agent.input("Pay back.").async_start())
    async with Toolbox(store=url) as box:
        for parked in await box.pending():
            await box.approve(parked.id)
    shop = make_shop(OSError("the model is gone"), "Done.", store=url)

    async with RunKeeper(shop.agent, most=1).keeping():
        await ended(shop, failing.run_id, "failed")
        await ended(shop, other.run_id)


async def test_a_run_that_still_goes_on_when_its_keeper_ends_is_left_for_the_next(
    make_shop: MakeShop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_shop(REFUND, store=url)
    error = await interrupted(first.agent.input("Pay back.").async_start())
    await decide_elsewhere(url, lambda box, call_id: box.approve(call_id))
    slow = make_shop(Answer("x", gate=asyncio.Event()), store=url)
    monkeypatch.setattr("wieldy.agent.runs.run_keeper._GRACE", 0.01)

    async with RunKeeper(slow.agent).keeping():
        await slow.model.asked(1)
    await ended(slow, error.run_id, "crashed")
    quick = make_shop("Done.", store=url)
    async with RunKeeper(quick.agent).keeping():
        assert (await ended(quick, error.run_id)).answer["text"] == "Done."

    assert slow.ran == {"refund A-17 10": 1}
    assert quick.ran == {}


def test_an_agent_without_a_store_has_no_runs_to_keep(make_shop: MakeShop) -> None:
    with pytest.raises(ValueError, match="'shop' has no store"):
        RunKeeper(make_shop().agent)


async def test_recovering_calls_leaves_those_of_a_run_to_the_run(
    make_shop: MakeShop, url: str
) -> None:
    shop = make_shop(REFUND, "Done.", store=url)
    error = await interrupted(shop.agent.input("Pay back.").async_start(deps="ann"))
    await decide_elsewhere(url, lambda box, call_id: box.approve(call_id))

    assert await shop.agent.toolbox.recover() == []
    assert await shop.agent.async_resume(error.run_id, deps="bob") == "Done."
    assert shop.deps == ["bob"]
