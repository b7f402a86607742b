"""So many calls at once, per tool and per key."""

import asyncio
import gc
import os
import random
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

from wieldy import Context, Limits, Outcome, Status, Toolbox

SOON = 120.0


class Meter:
    """How many are inside at once, counted across threads."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


async def test_no_more_calls_run_at_once_than_allowed() -> None:
    box, meter = Toolbox(), Meter()

    @box.tool(concurrency=3)
    async def work() -> None:
        with meter:
            await asyncio.sleep(0)

    await asyncio.wait_for(box.call_many([("work", None)] * 50), SOON)

    assert meter.most == 3


async def test_blocking_tools_are_limited_too() -> None:
    box, meter = Toolbox(), Meter()
    both = threading.Barrier(2)

    @box.tool(concurrency=2)
    def work() -> None:
        with meter:
            both.wait(SOON)

    await asyncio.wait_for(box.call_many([("work", None)] * 20), SOON)

    assert meter.most == 2


async def test_each_key_has_its_own_slots() -> None:
    box = Toolbox()
    meters = {"a": Meter(), "b": Meter()}
    together = Meter()
    both = asyncio.Barrier(2)

    @box.tool(limits=Limits(concurrency=1, key=lambda arguments: arguments["user"]))
    async def work(user: str) -> None:
        with meters[user], together:
            await both.wait()

    calls = [("work", {"user": user}) for user in "abababab"]
    await asyncio.wait_for(box.call_many(calls), SOON)

    assert (meters["a"].most, meters["b"].most, together.most) == (1, 1, 2)


@pytest.mark.parametrize("key", [lambda arguments: arguments["nope"], lambda arguments: []])
async def test_a_key_that_can_not_be_had_is_an_error_outcome(key: Any) -> None:
    box = Toolbox()

    @box.tool(concurrency=1, key=key)
    async def work() -> None: ...

    for _ in range(2):
        assert (await asyncio.wait_for(box.call("work"), SOON)).status is Status.ERROR


async def test_waiting_calls_come_in_their_order() -> None:
    box = Toolbox()
    order: list[int] = []

    @box.tool(concurrency=1)
    async def work(n: int) -> None:
        order.append(n)
        await asyncio.sleep(0)

    await asyncio.wait_for(box.call_many([("work", {"n": n}) for n in range(20)]), SOON)

    assert order == list(range(20))


def test_slots_are_shared_by_the_loops_of_different_threads() -> None:
    box, meter = Toolbox(), Meter()
    done: list[int] = []

    @box.tool(concurrency=2)
    async def work() -> int:
        with meter:
            await asyncio.sleep(0.0005)
        return 1

    async def many() -> None:
        outcomes = await asyncio.wait_for(box.call_many([("work", None)] * 60), SOON)
        done.extend(outcome.value for outcome in outcomes)

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)

    assert done == [1] * 180
    assert meter.most == 2


@pytest.mark.parametrize("kind", ["async", "blocking", "gather"])
async def test_a_tool_that_calls_itself_does_not_wait_for_itself(kind: str) -> None:
    box = Toolbox()

    @box.tool(concurrency=1, name="async")
    async def by_await(n: int) -> Any:
        return n if n == 0 else (await box.call("async", {"n": n - 1})).unwrap()

    @box.tool(concurrency=1, name="blocking")
    def by_blocking(n: int) -> Any:
        return n if n == 0 else box.call_sync("blocking", {"n": n - 1}).unwrap()

    @box.tool(concurrency=1, name="gather")
    async def by_gather(n: int) -> Any:
        if n == 0:
            return 0
        outcomes = await box.call_many([("gather", {"n": n - 1})] * 2)
        return sum(outcome.unwrap() for outcome in outcomes)

    outcomes = await asyncio.wait_for(box.call_many([(kind, {"n": 4})] * 3), SOON)

    assert [outcome.value for outcome in outcomes] == [0, 0, 0]


async def test_work_left_behind_by_an_ended_call_has_no_share_in_its_slot() -> None:
    box, meter = Toolbox(), Meter()
    left: list[asyncio.Task[Any]] = []

    @box.tool(concurrency=1)
    async def work(again: bool) -> None:
        if again:
            left.extend(asyncio.create_task(calls()) for _ in range(5))
            return
        with meter:
            await asyncio.sleep(0)

    async def calls() -> None:
        await ended.wait()
        await box.call("work", {"again": False})

    ended = asyncio.Event()
    await box.call("work", {"again": True})
    ended.set()
    await asyncio.wait_for(asyncio.gather(*left), SOON)

    assert meter.most == 1


async def test_a_failing_or_timed_out_call_gives_its_slot_back() -> None:
    box = Toolbox()

    @box.tool(concurrency=1)
    async def fail() -> None:
        raise ValueError

    @box.tool(concurrency=1, timeout=0.005)
    async def slow() -> None:
        await asyncio.Event().wait()

    for name, status in (("fail", "error"), ("slow", "timeout")):
        outcomes = await asyncio.wait_for(box.call_many([(name, None)] * 3), SOON)
        assert [outcome.status for outcome in outcomes] == [status] * 3


async def test_a_waiting_call_can_be_interrupted() -> None:
    box = Toolbox()
    began, go = asyncio.Event(), asyncio.Event()

    @box.tool(concurrency=1)
    async def work() -> None:
        began.set()
        await go.wait()

    first = asyncio.create_task(box.call("work"))
    await asyncio.wait_for(began.wait(), SOON)
    second = asyncio.create_task(box.call("work"))
    third = asyncio.create_task(box.call("work"))
    await asyncio.sleep(0)
    second.cancel()
    go.set()

    assert (await asyncio.wait_for(first, SOON)).ok
    assert (await asyncio.wait_for(third, SOON)).ok
    assert second.cancelled()


@pytest.mark.parametrize("seed", range(5))
async def test_no_slot_is_lost_or_made_by_cancelling_at_random(seed: int) -> None:
    choose = random.Random(seed)
    box, meter = Toolbox(), Meter()

    async def work(ticks: int) -> int:
        with meter:
            for _ in range(ticks):
                await asyncio.sleep(0)
        return ticks

    box.add(work, concurrency=3)
    for _ in range(5):
        tasks = [
            asyncio.create_task(box.call("work", {"ticks": choose.randrange(5)})) for _ in range(40)
        ]
        for _ in range(30):
            choose.choice(tasks).cancel()
            if choose.random() < 0.7:
                await asyncio.sleep(0)
        await asyncio.wait(tasks, timeout=SOON)
        assert all(task.done() for task in tasks)
        assert meter.inside == 0
    meter.most = 0
    after = await asyncio.wait_for(box.call_many([("work", {"ticks": 3})] * 12), SOON)

    assert [outcome.value for outcome in after] == [3] * 12
    assert meter.most == 3


def test_no_slot_is_lost_by_cancelling_on_two_loops_at_once() -> None:
    box, meter = Toolbox(), Meter()

    async def work() -> None:
        with meter:
            await asyncio.sleep(0)

    box.add(work, concurrency=2)

    async def storm(seed: int) -> None:
        choose = random.Random(seed)
        for _ in range(20):
            tasks = [asyncio.create_task(box.call("work")) for _ in range(10)]
            for _ in range(6):
                choose.choice(tasks).cancel()
                await asyncio.sleep(0)
            _, stuck = await asyncio.wait(tasks, timeout=SOON)
            assert not stuck

    failures: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            asyncio.run(storm(seed))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * SOON)
    meter.most = 0
    asyncio.run(asyncio.wait_for(_calls(box), SOON))

    assert failures == []
    assert meter.most == 2


async def _calls(box: Toolbox) -> None:
    await box.call_many([("work", None)] * 6)


async def test_a_limit_outlives_a_change_of_the_rules() -> None:
    box, meter = Toolbox(), Meter()
    go = asyncio.Event()

    @box.tool(concurrency=1)
    async def work(context: Context) -> None:
        with meter:
            await go.wait()

    first = asyncio.create_task(box.call("work"))
    await asyncio.sleep(0)
    box.rules.allow("work")
    second = asyncio.create_task(box.call("work"))
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait_for(asyncio.gather(first, second), SOON)

    assert meter.most == 1


def test_the_slot_of_a_call_whose_loop_was_closed_is_free_again() -> None:
    box = Toolbox()

    @box.tool(concurrency=1)
    async def hold(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    async def begin() -> "asyncio.Task[Outcome]":
        task = asyncio.create_task(box.call("hold", {"seconds": 1000}))
        await asyncio.sleep(0.01)
        return task

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(begin())
    loop.close()

    async def again() -> Outcome:
        return await asyncio.wait_for(box.call("hold", {"seconds": 0}), 120)

    assert asyncio.run(again()).text == "done"
    left._log_destroy_pending = False  # type: ignore[attr-defined]
    assert asyncio.run(box.interrupt("nobody")) is False
    seen = weakref.ref(left)
    del left
    gc.collect()
    assert seen() is None


def test_an_exclusive_call_does_not_wait_for_one_whose_loop_was_closed() -> None:
    box = Toolbox()

    @box.tool
    async def hold() -> None:
        await asyncio.sleep(1000)

    @box.tool(exclusive=True)
    async def alone() -> str:
        return "done"

    async def begin() -> "asyncio.Task[Outcome]":
        task = asyncio.create_task(box.call("hold"))
        await asyncio.sleep(0.01)
        return task

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(begin())
    loop.close()

    async def again() -> Outcome:
        return await asyncio.wait_for(box.call("alone"), 120)

    assert asyncio.run(again()).text == "done"
    left._log_destroy_pending = False  # type: ignore[attr-defined]


async def test_a_blocking_call_that_stops_the_holder_of_its_slot_fails_and_says_so() -> None:
    box = Toolbox()

    @box.tool(concurrency=1)
    async def fetch(u: str) -> str:
        await asyncio.sleep(0.01)
        return u

    @box.tool
    async def report() -> Any:
        return box.call_sync("fetch", {"u": "b"}).value

    @box.tool
    async def text() -> Any:
        return box.call_sync("fetch", {"u": "b"}).text

    held, said = await asyncio.wait_for(
        asyncio.gather(box.call("fetch", {"u": "a"}), box.call("text")), 120
    )
    assert held.text == "a"
    assert said.text == (
        "RuntimeError: the slot of fetch is held by a call on the event loop that this blocking "
        "call stops; await box.call instead"
    )
    assert (await box.call("report")).text == "b"


async def test_a_blocking_call_that_stops_an_exclusive_call_fails_and_says_so() -> None:
    box = Toolbox()
    inside = asyncio.Event()

    @box.tool(exclusive=True)
    async def alone() -> str:
        inside.set()
        await asyncio.sleep(0.01)
        return "alone"

    @box.tool
    async def other() -> str:
        return "other"

    async def blocks() -> str:
        await inside.wait()
        return box.call_sync("other").text

    held, said = await asyncio.wait_for(asyncio.gather(box.call("alone"), blocks()), 120)
    assert held.text == "alone"
    assert "the event loop that this blocking call stops" in said


async def test_an_exclusive_blocking_call_that_stops_another_call_fails_and_says_so() -> None:
    box = Toolbox()
    inside = asyncio.Event()

    @box.tool(exclusive=True)
    async def alone() -> str:
        return "alone"

    @box.tool
    async def other() -> str:
        inside.set()
        await asyncio.sleep(0.01)
        return "other"

    async def blocks() -> str:
        await inside.wait()
        return box.call_sync("alone").text

    held, said = await asyncio.wait_for(asyncio.gather(box.call("other"), blocks()), 120)
    assert held.text == "other"
    assert "the event loop that this blocking call stops" in said


_FORKED = """
import asyncio, os, sys, threading
from wieldy import Toolbox

box = Toolbox()
inside, go = threading.Event(), threading.Event()

@box.tool(concurrency=1)
def hold(wait: bool) -> str:
    if wait:
        inside.set()
        go.wait(20)
    return "done"

@box.tool(exclusive=True)
def alone(wait: bool) -> str:
    return hold(wait)

for name in ("hold", "alone"):
    inside.clear(), go.clear()
    thread = threading.Thread(target=box.call_sync, args=(name, {"wait": True}))
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        answer = box.call_sync(name, {"wait": False}).text
        os._exit(0 if answer == "done" else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, (name, status)
    go.set()
    thread.join(10)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_while_a_slot_is_held_has_slots_of_its_own() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
