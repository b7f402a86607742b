"""An exclusive tool runs alone, and nobody waits forever because of it."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from wieldy import Status, Toolbox

SOON = 120.0


class Watch:
    """Notes whether anybody else was inside while an exclusive call was."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.clashes: list[list[str]] = []
        self._lock = threading.Lock()

    @contextmanager
    def inside_as(self, name: str) -> Iterator[None]:
        with self._lock:
            self.inside.append(name)
            if len(self.inside) > 1 and "alone" in self.inside:
                self.clashes.append(list(self.inside))
        try:
            yield
        finally:
            with self._lock:
                self.inside.remove(name)


def watched_box(threads: int = 40) -> tuple[Toolbox, Watch]:
    box, watch = Toolbox(threads=threads), Watch()

    @box.tool(exclusive=True)
    async def alone(ticks: int = 3) -> str:
        with watch.inside_as("alone"):
            for _ in range(ticks):
                await asyncio.sleep(0)
        return "alone"

    @box.tool
    async def shared(ticks: int = 3) -> str:
        with watch.inside_as("shared"):
            for _ in range(ticks):
                await asyncio.sleep(0)
        return "shared"

    @box.tool
    def shared_blocking() -> str:
        with watch.inside_as("shared"):
            threading.Event().wait(0.0005)
        return "shared"

    return box, watch


async def test_an_exclusive_tool_runs_alone() -> None:
    box, watch = watched_box()
    names = ["shared", "alone", "shared_blocking", "shared", "alone"] * 8

    outcomes = await asyncio.wait_for(box.call_many([(name, None) for name in names]), SOON)

    assert {outcome.status for outcome in outcomes} == {Status.OK}
    assert watch.clashes == []


async def test_ordinary_tools_run_beside_each_other() -> None:
    box, _ = watched_box()
    both = asyncio.Barrier(2)

    @box.tool
    async def meet() -> None:
        await both.wait()

    outcomes = await asyncio.wait_for(box.call_many([("meet", None)] * 2), SOON)

    assert [outcome.status for outcome in outcomes] == ["ok", "ok"]


async def test_it_runs_alone_across_loops() -> None:
    box, watch = watched_box()

    def other_loop() -> None:
        async def many() -> None:
            await box.call_many([("shared", None), ("alone", None)] * 20)

        asyncio.run(many())

    await asyncio.wait_for(asyncio.gather(*(asyncio.to_thread(other_loop) for _ in range(3))), SOON)

    assert watch.clashes == []


async def test_an_exclusive_call_that_waits_gets_its_turn() -> None:
    box, _ = watched_box()
    stop = asyncio.Event()

    async def keep_busy() -> None:
        while not stop.is_set():
            await box.call("shared")

    busy = [asyncio.create_task(keep_busy()) for _ in range(5)]
    await asyncio.sleep(0)
    outcome = await asyncio.wait_for(box.call("alone"), SOON)
    stop.set()
    await asyncio.wait_for(asyncio.gather(*busy), SOON)

    assert outcome.ok


async def test_ordinary_calls_get_their_turn_between_exclusive_ones() -> None:
    box, _ = watched_box()
    stop = asyncio.Event()

    async def keep_busy() -> None:
        while not stop.is_set():
            await box.call("alone")

    busy = [asyncio.create_task(keep_busy()) for _ in range(5)]
    await asyncio.sleep(0)
    outcome = await asyncio.wait_for(box.call("shared"), SOON)
    stop.set()
    await asyncio.wait_for(asyncio.gather(*busy), SOON)

    assert outcome.ok


@pytest.mark.parametrize("inner", ["shared", "alone", "shared_blocking"])
async def test_an_exclusive_tool_may_call_others(inner: str) -> None:
    box, _ = watched_box()

    @box.tool(exclusive=True)
    async def outer() -> list[Any]:
        one = await box.call(inner)
        more = await box.call_many([(inner, None)] * 3)
        return [one.value, *(outcome.value for outcome in more)]

    @box.tool(exclusive=True)
    def outer_blocking() -> Any:
        return box.call_sync(inner).value

    outcomes = await asyncio.wait_for(
        box.call_many([("outer", None), ("outer_blocking", None)] * 3), SOON
    )

    assert {outcome.status for outcome in outcomes} == {Status.OK}


async def test_others_wait_while_an_exclusive_tool_calls_others() -> None:
    box, watch = watched_box()

    @box.tool(exclusive=True)
    async def outer() -> None:
        with watch.inside_as("alone"):
            await box.call("quiet")
            await asyncio.sleep(0)

    @box.tool
    async def quiet() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    await asyncio.wait_for(box.call_many([("outer", None), ("shared", None)] * 5), SOON)

    assert watch.clashes == []


@pytest.mark.parametrize("count", [2, 3, 50])
async def test_ordinary_tools_that_each_call_an_exclusive_one_do_not_wait_forever(
    count: int,
) -> None:
    box, watch = watched_box()

    @box.tool
    async def outer() -> Any:
        await asyncio.sleep(0)
        return (await box.call("alone")).value

    outcomes = await asyncio.wait_for(box.call_many([("outer", None)] * count), SOON)

    assert [outcome.value for outcome in outcomes] == ["alone"] * count
    assert watch.clashes == []


@pytest.mark.parametrize("way", ["call_sync", "asyncio_run"])
async def test_blocking_tools_that_each_call_an_exclusive_one_do_not_use_up_the_workers(
    way: str,
) -> None:
    box, watch = watched_box(threads=4)

    @box.tool
    def call_sync() -> Any:
        return box.call_sync("alone").value

    @box.tool
    def asyncio_run() -> Any:
        return asyncio.run(box.call("alone")).value

    outcomes = await asyncio.wait_for(box.call_many([(way, None)] * 30), SOON)

    assert [outcome.value for outcome in outcomes] == ["alone"] * 30
    assert watch.clashes == []


async def test_a_limited_tool_that_calls_an_exclusive_one_does_not_wait_forever() -> None:
    box, watch = watched_box()

    @box.tool(concurrency=1)
    async def limited() -> Any:
        return (await box.call("alone")).value

    outcomes = await asyncio.wait_for(box.call_many([("limited", None)] * 5), SOON)

    assert [outcome.value for outcome in outcomes] == ["alone"] * 5
    assert watch.clashes == []


async def test_an_exclusive_tool_may_call_a_limited_one_that_others_queue_for() -> None:
    box, watch = watched_box()

    @box.tool(concurrency=1)
    async def limited(ticks: int = 2) -> str:
        for _ in range(ticks):
            await asyncio.sleep(0)
        return "limited"

    @box.tool(exclusive=True)
    async def outer() -> list[Any]:
        return [o.value for o in await box.call_many([("limited", None)] * 3)]

    @box.tool
    async def ordinary() -> Any:
        return (await box.call("limited")).value

    names = ["limited", "outer", "ordinary", "limited", "alone", "outer", "ordinary"] * 4
    outcomes = await asyncio.wait_for(box.call_many([(name, None) for name in names]), SOON)

    assert {outcome.status for outcome in outcomes} == {Status.OK}
    assert watch.clashes == []


async def test_limited_tools_on_few_workers_with_exclusive_ones_all_end() -> None:
    box, watch = watched_box(threads=2)

    @box.tool(concurrency=1)
    def limited() -> str:
        return "limited"

    @box.tool
    def through_limited() -> Any:
        return box.call_sync("limited").value

    @box.tool(concurrency=2)
    def through_alone() -> Any:
        return box.call_sync("alone").value

    names = ["through_limited", "limited", "through_alone", "shared_blocking", "alone"] * 8
    outcomes = await asyncio.wait_for(box.call_many([(name, None) for name in names]), SOON)

    assert {outcome.status for outcome in outcomes} == {Status.OK}
    assert watch.clashes == []


async def test_a_waiting_exclusive_call_that_is_cancelled_lets_the_others_through() -> None:
    box, _ = watched_box()
    began, go = asyncio.Event(), asyncio.Event()

    @box.tool
    async def hold() -> None:
        began.set()
        await go.wait()

    holding = asyncio.create_task(box.call("hold"))
    await asyncio.wait_for(began.wait(), SOON)
    waiting = asyncio.create_task(box.call("alone"))
    behind = asyncio.create_task(box.call("shared"))
    await asyncio.sleep(0)
    waiting.cancel()

    assert (await asyncio.wait_for(behind, SOON)).ok
    go.set()
    assert (await asyncio.wait_for(holding, SOON)).ok
    assert (await asyncio.wait_for(box.call("alone"), SOON)).ok


async def test_a_tool_becomes_exclusive_also_when_others_were_called_before() -> None:
    box, watch = Toolbox(), Watch()

    async def body(name: str) -> None:
        with watch.inside_as(name):
            await asyncio.sleep(0)

    box.add(body, "first")
    await box.call("first", {"name": "shared"})
    box.add(body, "second", exclusive=True)
    calls = [("first", {"name": "shared"}), ("second", {"name": "alone"})] * 5
    await asyncio.wait_for(box.call_many(calls), SOON)

    assert watch.clashes == []


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_is_nested_and_cancelled_everything_ends_and_the_gate_stays_whole(
    seed: int,
) -> None:
    choose = random.Random(seed)
    box, watch = watched_box(threads=3)

    async def nest(depth: int) -> None:
        for _ in range(choose.randrange(3)):
            await asyncio.sleep(0)
        if depth:
            names = [choose.choice(TOOLS) for _ in range(choose.randrange(1, 3))]
            await box.call_many([(name, _arguments(name, depth - 1)) for name in names])

    def nest_blocking(depth: int) -> None:
        if depth:
            name = choose.choice(TOOLS)
            box.call_sync(name, _arguments(name, depth - 1))

    box.add(nest, "nest")
    box.add(nest, "nest_alone", exclusive=True)
    box.add(nest, "nest_limited", concurrency=1)
    box.add(nest, "nest_timed", timeout=0.02)
    box.add(nest_blocking, "nest_blocking")

    tasks = []
    for _ in range(25):
        name = choose.choice(TOOLS)
        tasks.append(asyncio.create_task(box.call(name, _arguments(name, 3))))
        if choose.random() < 0.3:
            choose.choice(tasks).cancel()
        await asyncio.sleep(0)
    _, stuck = await asyncio.wait(tasks, timeout=SOON)
    assert not stuck
    assert watch.clashes == []

    for name in ("alone", "shared", "nest_limited"):
        arguments = _arguments(name, 0)
        assert (await asyncio.wait_for(box.call(name, arguments), SOON)).ok


TOOLS = (
    "alone",
    "shared",
    "nest",
    "nest_alone",
    "nest_limited",
    "nest_timed",
    "nest_blocking",
)


def _arguments(name: str, depth: int) -> dict[str, int]:
    return {"depth": depth} if name.startswith("nest") else {}
