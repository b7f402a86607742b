"""Worker threads: how many, for whom, and what becomes of those left behind."""

import asyncio
import threading
from typing import Any

import pytest

from wieldy import Context, Outcome, Status, Toolbox

SOON = 120.0


class Meter:
    """How many are inside at once."""

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


class LateEnds:
    """An observer that waits for the ends of abandoned calls."""

    def __init__(self) -> None:
        self.ends: list[Outcome] = []
        self._told = threading.Semaphore(0)

    def __call__(self, outcome: Outcome) -> None:
        if outcome.metadata.get("late"):
            self.ends.append(outcome)
            self._told.release()

    async def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert await asyncio.to_thread(self._told.acquire, True, SOON)


async def test_no_more_functions_run_at_once_than_there_are_workers() -> None:
    box, meter = Toolbox(threads=3), Meter()
    three = threading.Barrier(3)

    @box.tool
    def work() -> None:
        with meter:
            three.wait(SOON)

    outcomes = await asyncio.wait_for(box.call_many([("work", None)] * 30), SOON)

    assert {outcome.status for outcome in outcomes} == {Status.OK}
    assert meter.most == 3


async def test_many_functions_that_block_run_at_once() -> None:
    box = Toolbox()
    together = threading.Barrier(32)

    @box.tool
    def work() -> int:
        return together.wait(SOON)

    outcomes = await asyncio.wait_for(box.call_many([("work", None)] * 32), SOON)

    assert sorted(outcome.value for outcome in outcomes) == list(range(32))


async def test_workers_are_used_again() -> None:
    box = Toolbox()

    @box.tool
    def where() -> int:
        return threading.get_ident()

    assert len({(await box.call("where")).value for _ in range(100)}) < 50


async def test_a_thread_left_behind_no_longer_counts() -> None:
    late = LateEnds()
    box, go = Toolbox(threads=2, observers=[late]), threading.Event()

    @box.tool(timeout=0.01)
    def block() -> None:
        go.wait(SOON)

    @box.tool
    def quick() -> str:
        return "quick"

    outcomes = await asyncio.wait_for(box.call_many([("block", None)] * 5), SOON)
    assert [outcome.status for outcome in outcomes] == ["timeout"] * 5
    quick_ones = await asyncio.wait_for(box.call_many([("quick", None)] * 5), SOON)
    go.set()
    await late.wait_for(sum("abandoned" in outcome.metadata for outcome in outcomes))

    assert [outcome.value for outcome in quick_ones] == ["quick"] * 5


async def test_threads_left_behind_do_not_make_room_twice() -> None:
    late = LateEnds()
    box, meter, go = Toolbox(threads=2, observers=[late]), Meter(), threading.Event()
    both = threading.Barrier(2)

    @box.tool(timeout=0.01)
    def block() -> None:
        go.wait(SOON)

    @box.tool
    def work() -> None:
        with meter:
            both.wait(SOON)

    outcomes = await asyncio.wait_for(box.call_many([("block", None)] * 2), SOON)
    go.set()
    await late.wait_for(sum("abandoned" in outcome.metadata for outcome in outcomes))
    await asyncio.wait_for(box.call_many([("work", None)] * 12), SOON)

    assert meter.most == 2


@pytest.mark.parametrize("rounds", [300])
async def test_cancelling_in_the_moment_of_the_end_makes_no_room_twice(rounds: int) -> None:
    late = LateEnds()
    told: list[Outcome] = []
    box, meter = Toolbox(threads=2, observers=[late, told.append]), Meter()
    both = threading.Barrier(2)

    @box.tool
    def quick(context: Context) -> None:
        pass

    @box.tool
    def work() -> None:
        with meter:
            both.wait(SOON)

    for number in range(rounds):
        task = asyncio.create_task(box.call("quick"))
        for _ in range(number % 6):
            await asyncio.sleep(0)
        if number % 2:
            # The worker goes on while the loop stands still, so that both ends meet.
            threading.Event().wait(0.0005)
        task.cancel()
        await asyncio.wait([task], timeout=SOON)
    abandoned = [o for o in told if "abandoned" in o.metadata and "late" not in o.metadata]
    await late.wait_for(len(abandoned))
    await asyncio.wait_for(box.call_many([("work", None)] * 12), SOON)

    assert {o.call.id for o in late.ends} == {o.call.id for o in abandoned}
    assert len(late.ends) == len(abandoned)
    assert meter.most == 2


async def test_a_waiting_call_that_is_cancelled_never_runs() -> None:
    box, began, go = Toolbox(threads=1), threading.Event(), threading.Event()
    ran: list[int] = []

    @box.tool
    def hold() -> None:
        began.set()
        go.wait(SOON)

    @box.tool
    def work(n: int) -> None:
        ran.append(n)

    holding = asyncio.create_task(box.call("hold"))
    assert await asyncio.to_thread(began.wait, SOON)
    tasks = [asyncio.create_task(box.call("work", {"n": n})) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait_for(asyncio.gather(holding, tasks[0], tasks[2]), SOON)

    assert tasks[1].cancelled()
    assert ran == [0, 2]


def test_workers_serve_loops_of_different_threads() -> None:
    box, meter = Toolbox(threads=2), Meter()

    @box.tool
    def work() -> int:
        with meter:
            threading.Event().wait(0.0005)
        return 1

    total: list[int] = []

    async def many() -> None:
        outcomes = await asyncio.wait_for(box.call_many([("work", None)] * 30), SOON)
        total.extend(outcome.value for outcome in outcomes)

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)

    assert total == [1] * 120
    assert meter.most <= 2


async def test_nested_calls_for_a_limited_tool_do_not_use_up_the_workers() -> None:
    box = Toolbox(threads=2)

    @box.tool(concurrency=1)
    def limited() -> str:
        return "limited"

    @box.tool
    def outer() -> Any:
        return box.call_sync("limited").value

    @box.tool
    def outer_by_run() -> Any:
        return asyncio.run(box.call("limited")).value

    names = ["outer", "limited", "outer_by_run"] * 30
    outcomes = await asyncio.wait_for(box.call_many([(name, None) for name in names]), SOON)

    assert [outcome.value for outcome in outcomes] == ["limited"] * 90


async def test_a_closed_box_can_still_be_called() -> None:
    async with Toolbox() as box:

        @box.tool
        def quick() -> int:
            return 1

        assert (await box.call("quick")).value == 1

    assert (await asyncio.wait_for(box.call("quick"), SOON)).value == 1


async def test_closing_ends_the_idle_workers() -> None:
    box = Toolbox()
    workers: list[threading.Thread] = []

    @box.tool
    def where() -> None:
        workers.append(threading.current_thread())

    await box.call("where")
    await box.close()

    await asyncio.to_thread(workers[0].join, SOON)
    assert not workers[0].is_alive()


def test_a_thread_whose_loop_is_gone_ends_quietly() -> None:
    late = LateEnds()
    box, began, go = Toolbox(observers=[late]), threading.Event(), threading.Event()

    @box.tool
    def block() -> str:
        began.set()
        go.wait(SOON)
        return "late"

    async def main() -> None:
        task = asyncio.create_task(box.call("block"))
        await asyncio.to_thread(began.wait, SOON)
        assert not task.done()

    asyncio.run(main())
    go.set()
    asyncio.run(late.wait_for(1))

    assert [outcome.value for outcome in late.ends] == ["late"]
