"""Limits on calls: of everybody, of each caller, of one caller, and of some tools of each."""

import asyncio
import gc
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Call, CallLimit, Context, Outcome, Scope, Status, Toolbox, TooManyCalls
from wieldy.core.limits.call_counters import CallCounter
from wieldy.core.limits.call_limits import CallLimits


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool
    def add(a: int) -> int:
        return a

    @box.tool
    def sub(a: int) -> int:
        return a

    return box


async def call_as(box: Toolbox, caller: str | None, tool: str = "add", a: Any = 1) -> str:
    """How a call of somebody ends: "ok", the limit that refused it, or another status."""
    outcome = await box.call(Call(tool, {"a": a}, Scope(caller=caller)))
    error = outcome.error
    return error.limit if isinstance(error, TooManyCalls) else outcome.status.value


async def test_each_caller_counts_by_themselves_and_by_tool(box: Toolbox) -> None:
    box.call_limits.replace(
        [
            CallLimit(tools="*", caller="*", rate="3/h"),
            CallLimit(tools="a*", caller="*", rate="2/h"),
            CallLimit(tools="*", caller="bob", rate="1/h"),
            CallLimit(tools="sub", rate="3/h"),
        ]
    )
    limit = 'limits.caller.tools."a*"'
    assert [await call_as(box, "ann") for _ in range(3)] == ["ok", "ok", limit]
    assert [await call_as(box, "ann", "sub") for _ in range(2)] == ["ok", "limits.caller"]
    # What is said of bob holds in place of what is for each, and only of that.
    assert [await call_as(box, "bob") for _ in range(2)] == ["ok", "limits.callers.bob"]
    assert [await call_as(box, None) for _ in range(3)] == ["ok", "ok", limit]
    assert [await call_as(box, "cal", "sub") for _ in range(3)] == [
        "ok",
        "ok",
        'limits.tools."sub"',
    ]
    assert box.call_limits.count_refused() == {
        "limits.caller": 1,
        limit: 2,
        "limits.callers.bob": 1,
        'limits.tools."sub"': 1,
    }


async def test_a_refusal_says_which_limit_and_when_to_try_again(box: Toolbox) -> None:
    box.call_limits.add("add", caller="*", rate="1/h")
    await box.call("add", {"a": 1})
    outcome = await box.call("add", {"a": 1})
    assert outcome.status is Status.ERROR
    assert outcome.text == (
        "The call of add was not made: 1 call may be made in 3600 s "
        '(limits.caller.tools."add"). Try again in 3600 s.'
    )
    assert isinstance(outcome.error, TooManyCalls)
    assert 3590 < outcome.error.retry_after <= 3600
    [state] = (await box.explain_permission("add", {"a": 1})).limits
    assert (state.started, state.rate, state.running) == (1, (1, 3600.0), 0)
    assert 3590 < state.retry_after <= 3600
    assert str(state).startswith('limits.caller.tools."add": 1 of 1 calls in 3600 s, free in')


async def test_arguments_that_do_not_fit_count_too(box: Toolbox) -> None:
    box.call_limits.add("add", rate="2/h")
    assert [await call_as(box, "ann", a="x") for _ in range(3)] == [
        "error",
        "error",
        'limits.tools."add"',
    ]


async def test_as_many_run_at_once_as_may_and_others_are_refused(box: Toolbox) -> None:
    entered, leave = asyncio.Semaphore(0), asyncio.Event()

    @box.tool
    async def hold(context: Context) -> str:
        entered.release()
        await leave.wait()
        return "held"

    box.call_limits.add("hold", caller="*", concurrent=2)
    box.call_limits.add("hold", concurrent=3)

    def start(caller: str) -> "asyncio.Task[Outcome]":
        return asyncio.create_task(box.call(Call("hold", {}, Scope(caller=caller))))

    running = [start("ann"), start("ann"), start("bob")]
    for _ in running:
        await entered.acquire()
    refused = [await start(name) for name in ("ann", "bob")]
    names = [each.error.limit for each in refused if isinstance(each.error, TooManyCalls)]
    assert names == ['limits.caller.tools."hold"', 'limits.tools."hold"']
    # One that is cancelled or ends makes room.
    running[0].cancel()
    await asyncio.wait(running[:1])
    running.append(start("ann"))
    await entered.acquire()
    leave.set()
    assert [(await each).value for each in running[1:]] == ["held"] * 3
    assert (await start("ann")).value == "held"


async def test_calls_inside_count_but_do_not_refuse_each_other(box: Toolbox) -> None:
    @box.tool
    async def outer(context: Context) -> list[str]:
        inner = [await context.call("add", {"a": each}) for each in range(3)]
        return [each.status.value for each in inner]

    box.call_limits.add(caller="*", concurrent=1, rate="3/h")
    assert (await box.call(Call("outer", {}, Scope(caller="ann")))).value == ["ok", "ok", "error"]


async def test_a_call_that_was_approved_is_not_refused(box: Toolbox) -> None:
    box.rules.ask("add")
    box.call_limits.add("add", rate="1/h", concurrent=1)
    receipt = await box.call("add", {"a": 7})
    assert receipt.status is Status.PENDING
    assert await call_as(box, "ann") == 'limits.tools."add"'
    assert (await box.approve(receipt.call.id)).value == 7


async def test_limits_that_stay_keep_their_counters(box: Toolbox) -> None:
    same, other = CallLimit(tools="add", rate="1/h"), CallLimit(tools="sub", rate="1/h")
    box.call_limits.replace([same, other])
    assert [await call_as(box, "ann", tool) for tool in ("add", "sub")] == ["ok", "ok"]
    box.call_limits.replace([CallLimit(tools="sub", rate="2/h"), same])
    assert await call_as(box, "ann", "add") == 'limits.tools."add"'
    assert await call_as(box, "ann", "sub") == "ok"
    box.call_limits.replace([])
    assert await call_as(box, "ann", "add") == "ok"
    assert len(box.call_limits) == 0


async def test_what_is_refused_is_observed_and_not_recorded(tmp_path: Path) -> None:
    seen: list[Outcome] = []
    async with Toolbox(store=f"sqlite:///{tmp_path}/calls.db", observers=[seen.append]) as box:
        box.add(lambda: 1, name="one")
        box.call_limits.add("one", rate="1/h")
        for _ in range(3):
            await box.call("one")
        assert len(await box.ledger.list()) == 1
        assert [each.status.value for each in seen] == ["ok", "error", "error"]


def test_a_forked_child_counts_from_nothing(box: Toolbox) -> None:
    box.call_limits.add("add", rate="1/h")
    assert box.call_sync("add", {"a": 1}).ok
    child = os.fork()
    if child == 0:
        os._exit(0 if box.call_limits.find_states("add", [None])[0].started == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"rate": "often"},
        {"rate": "0/s"},
        {"concurrent": 0},
        {"concurrent": True},
        {"concurrent": 1.5},
        {"rate": "1/s", "tools": ""},
        {"rate": "1/s", "caller": ""},
    ],
)
def test_a_limit_that_can_not_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"limit|rate|concurrent"):
        CallLimits(lambda: None).add(**wrong)


def test_ten_thousand_callers_take_little_memory() -> None:
    counter = CallCounter(600, 60.0, 4)
    tracemalloc.start()
    try:
        for number in range(12_000):
            for step in range(3):
                counter.note_start(number, number * 0.001 + step * 0.0001)
        gc.collect()
        assert len(counter) == 10_000
        assert tracemalloc.get_traced_memory()[0] < 40_000_000
        assert counter.usage(0, 12.0) == (0, 0)
        # Those who are gone are forgotten as others come.
        for number in range(6_000):
            counter.note_start(f"new {number}", 1000.0)
        assert len(counter) == 6_000
    finally:
        tracemalloc.stop()


@given(
    st.integers(1, 40),
    st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=300),
)
def test_no_window_has_more_starts_than_may_be(count: int, steps: list[float]) -> None:
    counter, now, started = CallCounter(count, 10.0, None), 100.0, list[float]()
    for step in steps:
        now += step / 10
        wait = counter.wait_for_start("ann", now)
        assert wait <= 10.0
        if wait > 0:
            # Whoever waits as long as they are told may start.
            now += wait + 1e-6
            assert counter.wait_for_start("ann", now) == 0
        counter.note_start("ann", now)
        started.append(now)
    for first in started:
        assert len([each for each in started if first <= each < first + 10.0]) <= count
