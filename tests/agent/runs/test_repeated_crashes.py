"""Runs that end their process each time they continue: tried again, and in the end given up."""

import asyncio
import logging

import pytest

from tests.agent.runs.conftest import Execute, MakeShop, Shop
from tests.agent.runs.test_resuming import NOTE, REFUND, interrupted
from tests.agent.runs.test_run_keeper import ended
from tests.mcp.waiting import until
from wieldy import Status
from wieldy.agent import RunKeeper, ServedAgent
from wieldy.core.run_errors import RunCancelled
from wieldy.store.left_runs import MAX_TRIES
from wieldy.store.runs import Runs, StoredRun
from wieldy.testing import Answer

DIED = "UPDATE wieldy_runs SET state = 'crashed', owner = NULL, changed_at = 0"


async def left_running(shop: Shop) -> str:
    """A run whose model has been asked for the second time, and does not answer."""
    response = shop.agent.input("Go.").get_response()
    task = asyncio.create_task(response.async_get_data())
    await shop.model.asked(2)
    response.hand_over()
    await asyncio.wait([task])
    return (await ended(shop, response.run_id, "crashed")).id


async def crash(runs: Runs, run_id: str, execute: Execute, times: int) -> StoredRun:
    """Continue a run in processes that die at once."""
    for _ in range(times):
        _, claim = await runs.take(run_id)
        assert claim is not None
        execute(DIED)
    found = await runs.get(run_id)
    assert found is not None
    return found


@pytest.mark.parametrize("times", [MAX_TRIES - 1, MAX_TRIES])
async def test_a_run_that_ends_its_process_again_and_again_is_given_up(
    make_shop: MakeShop,
    url: str,
    execute: Execute,
    caplog: pytest.LogCaptureFixture,
    times: int,
) -> None:
    first = make_shop(NOTE, Answer("x", gate=asyncio.Event()), store=url)
    run_id = await left_running(first)
    run = await crash(first.agent.toolbox.store.runs, run_id, execute, times)
    assert run.tries == times
    shop = make_shop("Done.", store=url)

    with caplog.at_level(logging.ERROR, "wieldy.agent"):
        async with RunKeeper(shop.agent).keeping():
            state = "failed" if times == MAX_TRIES else "done"
            run = await ended(shop, run_id, state)
            # The log comes after the row.
            await until(lambda: state == "done" or "is given up" in caplog.text)

    if state == "failed":
        assert "died 5 times in a row before its next step" in (run.error or "")
        assert shop.model.requests == []
        # A person may still try.
        assert await shop.agent.async_resume(run_id) == "Done."


async def test_a_run_that_crashed_again_is_tried_after_a_pause(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    first = make_shop(NOTE, Answer("x", gate=asyncio.Event()), store=url)
    crashed = await left_running(first)
    runs = first.agent.toolbox.store.runs
    await crash(runs, crashed, execute, 1)
    execute("UPDATE wieldy_runs SET changed_at = 1e12")
    other = await left_running(make_shop(NOTE, Answer("x", gate=asyncio.Event()), store=url))
    shop = make_shop("Done.", store=url)

    async with RunKeeper(shop.agent).keeping():
        await ended(shop, other)

    run = await runs.get(crashed)
    assert run is not None and run.state == "crashed"


async def test_a_step_in_between_and_leaving_on_purpose_count_the_tries_anew(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    shop = make_shop(NOTE, Answer("x", gate=asyncio.Event()), store=url)
    run_id = await left_running(shop)
    runs = shop.agent.toolbox.store.runs
    run = await crash(runs, run_id, execute, 3)
    _, claim = await runs.take(run_id)
    assert claim is not None
    await runs.save(claim, run.steps, "{}")
    execute(DIED)
    after_step = await runs.get(run_id)
    await crash(runs, run_id, execute, 2)
    _, claim = await runs.take(run_id)
    assert claim is not None
    await runs.leave(claim, "crashed")
    after_leaving = await runs.get(run_id)

    assert after_step is not None and after_leaving is not None
    assert (run.tries, after_step.tries, after_leaving.tries) == (3, 0, 0)


async def test_a_server_that_starts_does_not_run_an_agent_that_ended_it_again_and_again(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    first = make_shop(NOTE, Answer("x", gate=asyncio.Event()), store=url)
    box = ServedAgent(first.agent).box
    calling = asyncio.create_task(box.call("shop", {"query": "Go."}))
    await first.model.asked(2)
    [run] = await box.store.runs.list()
    execute("DELETE FROM wieldy_owners")
    execute("UPDATE wieldy_calls SET state = 'unknown' WHERE tool = 'shop'")
    execute(DIED)
    await crash(box.store.runs, run.id, execute, MAX_TRIES)
    shop = make_shop("Done.", store=url)
    restarted = ServedAgent(shop.agent).box

    assert await restarted.recover() == []

    assert shop.model.requests == []
    calling.cancel()
    await asyncio.wait([calling])


async def test_a_denied_call_cancels_the_run_inside_it(make_shop: MakeShop, url: str) -> None:
    shop = make_shop(REFUND, "never", store=url)
    served = ServedAgent(shop.agent)
    box = served.box
    receipt = await box.call("shop", {"query": "Go."})

    async with served.keep_runs().keeping():
        await box.deny(receipt.call.id)
        [run] = await box.store.runs.list()
        # A keeper that looks now finds nothing to continue.
        assert await box.store.runs.left.find("shop") == []

    assert (run.state, shop.ran, len(shop.model.requests)) == ("cancelled", {}, 1)
    assert (await box.outcome(receipt.call.id)).status is Status.DENIED
    assert await box.pending() == []


async def test_a_keeper_leaves_a_run_that_was_cancelled_after_it_was_found(
    make_shop: MakeShop, url: str
) -> None:
    shop = make_shop(REFUND, "never", store=url)
    box = ServedAgent(shop.agent).box
    receipt = await box.call("shop", {"query": "Go."})
    [found] = await box.store.runs.left.find("shop")
    await box.deny(receipt.call.id)

    with pytest.raises(RunCancelled):
        await shop.agent.take_up(found.id).async_get_text()

    [run] = await box.store.runs.list()
    assert (run.state, shop.ran, len(shop.model.requests)) == ("cancelled", {}, 1)


COUNTED = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)"


async def test_a_run_is_found_behind_any_number_of_runs_that_wait(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    first = make_shop(REFUND, NOTE, Answer("x", gate=asyncio.Event()), store=url)
    await interrupted(first.agent.input("Pay back.").async_start())
    for table, own, others in (
        ("runs", "id", "agent, state, claim, steps, changed_at, request, created_at"),
        ("run_steps", "run", "number, at, body"),
    ):
        execute(
            f"{COUNTED} INSERT INTO wieldy_{table} ({own}, {others}) "
            f"SELECT {own} || '-' || i, {others} FROM wieldy_{table}, n"
        )
    first.model.requests.clear()
    crashed = await left_running(first)
    shop = make_shop("Done.", store=url)

    async with RunKeeper(shop.agent).keeping():
        await ended(shop, crashed)

    assert execute("SELECT count(*) FROM wieldy_runs WHERE state = 'interrupted'") == "10002"
    assert len(shop.model.requests) == 1
