"""Stopping calls: the awaiting task, one named call, and both at once."""

import asyncio
import gc
import random
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wieldy
from wieldy import (
    ActiveCall,
    CallInterrupted,
    Context,
    Handler,
    Outcome,
    Status,
    Toolbox,
    ToolFailed,
)
from wieldy.core.task import run_in_copy, time_limit

SOON = 120.0
SOURCE = Path(wieldy.__file__).parent


def own_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


class Stuck:
    """A box with a tool that waits until it is stopped, and a record of what was told."""

    def __init__(self) -> None:
        self.heard: list[Outcome] = []
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.box = Toolbox(observers=[self.heard.append])
        self.box.add(self.wait, "wait")

    async def wait(self, context: Context) -> None:
        self.started.put_nowait(context.call_id)
        await asyncio.Event().wait()

    async def next_id(self) -> str:
        return await asyncio.wait_for(self.started.get(), SOON)

    @property
    def statuses(self) -> list[Status]:
        return [outcome.status for outcome in self.heard]


async def test_cancelling_the_caller_records_interrupted_before_it_raises_again() -> None:
    stuck = Stuck()
    at_raise: list[Status] = []

    async def caller() -> None:
        try:
            await stuck.box.call("wait")
        except asyncio.CancelledError:
            at_raise.extend(stuck.statuses)
            raise

    task = asyncio.create_task(caller())
    await stuck.next_id()
    task.cancel("enough")

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert at_raise == stuck.statuses == [Status.INTERRUPTED]
    assert task.cancelled()


async def test_an_interrupted_call_gives_its_caller_the_outcome() -> None:
    stuck = Stuck()
    task = asyncio.create_task(stuck.box.call("wait"))
    call_id = await stuck.next_id()

    assert await stuck.box.interrupt(call_id)
    outcome = await asyncio.wait_for(task, SOON)

    assert outcome.status is Status.INTERRUPTED
    assert outcome.call.id == call_id
    assert isinstance(outcome.error, CallInterrupted)
    assert stuck.heard == [outcome]
    with pytest.raises(CallInterrupted):
        outcome.unwrap()


async def test_interrupting_what_does_not_run_is_false() -> None:
    stuck = Stuck()
    assert not await stuck.box.interrupt("nobody")

    outcome = await stuck.box.call("nope")

    assert not await stuck.box.interrupt(outcome.call.id)


async def test_an_interruption_leaves_the_task_as_it_was() -> None:
    stuck = Stuck()
    counts: list[int] = []

    async def caller() -> str:
        counts.append(own_task().cancelling())
        outcome = await stuck.box.call("wait")
        counts.append(own_task().cancelling())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return outcome.status

    task = asyncio.create_task(caller())
    await stuck.box.interrupt(await stuck.next_id())

    assert await asyncio.wait_for(task, SOON) == "interrupted"
    assert counts == [0, 0]


async def test_a_task_that_was_being_cancelled_before_stays_so() -> None:
    stuck = Stuck()
    counts: list[int] = []

    async def caller() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await stuck.box.call("wait")
            counts.append(own_task().cancelling())

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    await stuck.box.interrupt(await stuck.next_id())

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert counts == [1]


async def test_a_timeout_around_an_interrupted_call_still_works() -> None:
    stuck = Stuck()

    async def caller() -> str:
        async with asyncio.timeout(SOON) as inner:
            outcome = await stuck.box.call("wait")
        assert not inner.expired()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        return outcome.status

    task = asyncio.create_task(caller())
    await stuck.box.interrupt(await stuck.next_id())

    assert await asyncio.wait_for(task, SOON) == "interrupted"


async def test_a_timeout_around_a_call_records_it_as_interrupted() -> None:
    stuck = Stuck()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await stuck.box.call("wait")

    assert stuck.statuses == [Status.INTERRUPTED]
    assert own_task().cancelling() == 0


@pytest.mark.parametrize("interrupt_first", [True, False])
async def test_when_both_come_in_one_tick_the_outer_cancellation_wins(
    interrupt_first: bool,
) -> None:
    stuck = Stuck()
    task = asyncio.create_task(stuck.box.call("wait"))
    call_id = await stuck.next_id()

    if not interrupt_first:
        task.cancel()
    await stuck.box.interrupt(call_id)
    if interrupt_first:
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert task.cancelled()
    assert task.cancelling() == 1
    assert stuck.statuses == [Status.INTERRUPTED]


async def test_interrupting_again_and_again_is_one_interruption() -> None:
    stuck = Stuck()
    task = asyncio.create_task(stuck.box.call("wait"))
    call_id = await stuck.next_id()

    assert [await stuck.box.interrupt(call_id) for _ in range(3)] == [True] * 3

    assert (await asyncio.wait_for(task, SOON)).status is Status.INTERRUPTED
    assert task.cancelling() == 0
    assert stuck.statuses == [Status.INTERRUPTED]


async def test_a_tool_that_interrupts_its_own_call_and_returns_leaves_no_stray() -> None:
    box = Toolbox()

    @box.tool
    async def stop_myself(context: Context) -> str:
        await box.interrupt(context.call_id)
        return "done already"

    outcome = await box.call("stop_myself")
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert outcome.value == "done already"
    assert own_task().cancelling() == 0


async def test_an_outer_cancellation_that_meets_a_finished_call_is_raised_and_told_once() -> None:
    heard: list[Status] = []
    box = Toolbox(observers=[lambda outcome: heard.append(outcome.status)])

    @box.tool
    async def stop_all(context: Context) -> str:
        await box.interrupt(context.call_id)
        own_task().cancel()
        return "done already"

    task = asyncio.create_task(box.call("stop_all"))

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert heard == [Status.OK]
    assert task.cancelling() == 1


async def test_an_interruption_that_races_with_the_end_never_strays() -> None:
    """Whatever tick it comes in, the caller's next await is its own."""
    box = Toolbox()
    ids: list[str] = []

    @box.tool
    async def brief(context: Context, ticks: int) -> str:
        ids.append(context.call_id)
        for _ in range(ticks):
            await asyncio.sleep(0)
        return "end"

    async def caller(ticks: int) -> Outcome:
        outcome = await box.call("brief", {"ticks": ticks})
        assert own_task().cancelling() == 0
        for _ in range(3):
            await asyncio.sleep(0)
        return outcome

    seen = set()
    for ticks in range(4):
        for delay in range(8):
            task = asyncio.create_task(caller(ticks))
            for _ in range(delay):
                await asyncio.sleep(0)
            running = bool(ids) and await box.interrupt(ids[-1])
            outcome = await asyncio.wait_for(task, SOON)
            seen.add(outcome.status)
            if not running:
                assert outcome.status is Status.OK
            ids.clear()
    assert seen == {Status.OK, Status.INTERRUPTED}


async def test_nested_calls_unwind_to_the_named_one_only() -> None:
    box = Toolbox()
    ids: dict[int, str] = {}
    deepest = asyncio.Event()

    @box.tool
    async def level(context: Context, n: int) -> list[Any]:
        ids[n] = context.call_id
        if n == 4:
            deepest.set()
            await asyncio.Event().wait()
        outcome = await box.call("level", {"n": n + 1})
        await asyncio.sleep(0)
        return [n, outcome.status, outcome.value]

    task = asyncio.create_task(box.call("level", {"n": 0}))
    await asyncio.wait_for(deepest.wait(), SOON)
    await box.interrupt(ids[2])

    outcome = await asyncio.wait_for(task, SOON)
    assert outcome.value == [0, "ok", [1, "interrupted", None]]
    assert task.cancelling() == 0


async def test_two_nested_calls_interrupted_in_one_tick_unwind_to_the_outer() -> None:
    box = Toolbox()
    heard: list[tuple[str, Status]] = []
    box = Toolbox(observers=[lambda o: heard.append((o.call.tool, o.status))])
    ids: dict[str, str] = {}
    ready = asyncio.Event()

    @box.tool
    async def inner(context: Context) -> None:
        ids["inner"] = context.call_id
        ready.set()
        await asyncio.Event().wait()

    @box.tool
    async def middle(context: Context) -> Any:
        ids["middle"] = context.call_id
        return (await box.call("inner")).status

    @box.tool
    async def outer() -> Any:
        return (await box.call("middle")).status

    task = asyncio.create_task(box.call("outer"))
    await asyncio.wait_for(ready.wait(), SOON)
    await box.interrupt(ids["inner"])
    await box.interrupt(ids["middle"])

    assert (await asyncio.wait_for(task, SOON)).value == "interrupted"
    assert heard == [("inner", "interrupted"), ("middle", "interrupted"), ("outer", "ok")]


async def test_calls_beside_the_interrupted_one_go_on() -> None:
    stuck = Stuck()

    @stuck.box.tool
    async def both() -> list[str]:
        quick = asyncio.create_task(stuck.box.call("quick"))
        slow = await stuck.box.call("wait")
        return [slow.status, (await quick).value]

    @stuck.box.tool
    async def quick() -> str:
        await asyncio.sleep(0)
        return "q"

    task = asyncio.create_task(stuck.box.call("both"))
    await stuck.box.interrupt(await stuck.next_id())

    assert (await asyncio.wait_for(task, SOON)).value == ["interrupted", "q"]


async def test_interrupting_a_call_stops_what_it_gathers() -> None:
    stuck = Stuck()
    parent: list[str] = []

    @stuck.box.tool
    async def both(context: Context) -> None:
        parent.append(context.call_id)
        await stuck.box.call_many([("wait", None), ("wait", None)])

    task = asyncio.create_task(stuck.box.call("both"))
    await stuck.next_id()
    await stuck.next_id()
    await stuck.box.interrupt(parent[0])

    assert (await asyncio.wait_for(task, SOON)).status is Status.INTERRUPTED
    assert [(o.call.tool, o.status) for o in stuck.heard] == [
        ("wait", "interrupted"),
        ("wait", "interrupted"),
        ("both", "interrupted"),
    ]


async def test_cancelling_call_many_records_every_call() -> None:
    stuck = Stuck()
    task = asyncio.create_task(stuck.box.call_many([("wait", None)] * 5))
    for _ in range(5):
        await stuck.next_id()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert stuck.statuses == [Status.INTERRUPTED] * 5


async def test_a_call_can_be_interrupted_from_another_thread() -> None:
    stuck = Stuck()
    task = asyncio.create_task(stuck.box.call("wait"))
    call_id = await stuck.next_id()

    found = await asyncio.to_thread(lambda: asyncio.run(stuck.box.interrupt(call_id)))

    assert found
    assert (await asyncio.wait_for(task, SOON)).status is Status.INTERRUPTED
    assert task.cancelling() == 0


async def test_a_blocking_tool_that_is_interrupted_is_left_behind_and_its_end_is_told() -> None:
    go, began = threading.Event(), asyncio.Event()
    late: asyncio.Queue[Outcome] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    ids: list[str] = []
    heard: list[Outcome] = []

    def told(outcome: Outcome) -> None:
        heard.append(outcome)
        if outcome.metadata.get("late"):
            late.put_nowait(outcome)

    box = Toolbox(observers=[told])

    @box.tool
    def block(context: Context) -> str:
        ids.append(context.call_id)
        loop.call_soon_threadsafe(began.set)
        go.wait(SOON)
        return f"cancelled={context.cancelled}"

    task = asyncio.create_task(box.call("block"))
    await asyncio.wait_for(began.wait(), SOON)
    await box.interrupt(ids[0])
    outcome = await asyncio.wait_for(task, SOON)
    go.set()
    end = await asyncio.wait_for(late.get(), SOON)

    assert (outcome.status, outcome.metadata["abandoned"]) == ("interrupted", True)
    assert (end.status, end.value, end.call.id) == ("ok", "cancelled=True", ids[0])
    assert heard == [outcome, end]


async def test_a_tool_that_raises_cancelled_error_by_itself_is_an_error_outcome() -> None:
    box = Toolbox()

    @box.tool
    async def plain() -> None:
        raise asyncio.CancelledError("mine")

    @box.tool
    async def with_context(context: Context) -> None:
        raise asyncio.CancelledError("mine")

    @box.tool
    def blocking() -> None:
        raise asyncio.CancelledError("mine")

    @box.tool
    async def other_task() -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    for name in ("plain", "with_context", "blocking", "other_task"):
        outcome = await box.call(name)
        assert outcome.status is Status.ERROR
        assert isinstance(outcome.error, ToolFailed)
        assert isinstance(outcome.error.original, asyncio.CancelledError)
        assert own_task().cancelling() == 0


async def test_a_tool_that_swallows_its_interruption_ends_as_it_likes() -> None:
    box = Toolbox()
    ids: asyncio.Queue[str] = asyncio.Queue()

    @box.tool(retries=1, idempotent=True)
    async def stubborn(context: Context) -> str:
        ids.put_nowait(context.call_id)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "still here"

    async def caller() -> tuple[Any, int]:
        outcome = await box.call("stubborn")
        await asyncio.sleep(0)
        return outcome.value, own_task().cancelling()

    task = asyncio.create_task(caller())
    call_id = await asyncio.wait_for(ids.get(), SOON)
    await box.interrupt(call_id)

    assert await asyncio.wait_for(task, SOON) == ("still here", 0)


async def test_a_tool_that_fails_while_it_is_interrupted_is_not_tried_again() -> None:
    box = Toolbox()
    ids: asyncio.Queue[str] = asyncio.Queue()

    @box.tool(retries=3, idempotent=True)
    async def clumsy(context: Context) -> None:
        ids.put_nowait(context.call_id)
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    task = asyncio.create_task(box.call("clumsy"))
    call_id = await asyncio.wait_for(ids.get(), SOON)
    await box.interrupt(call_id)
    outcome = await asyncio.wait_for(task, SOON)

    assert outcome.text == "ValueError: while cleaning up"
    assert ids.empty()
    assert task.cancelling() == 0


async def test_cleanup_in_a_tool_may_await_and_call_tools() -> None:
    stuck = Stuck()
    cleaned: list[Any] = []

    @stuck.box.tool
    async def careful(context: Context) -> None:
        stuck.started.put_nowait(context.call_id)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append((await stuck.box.call("clean")).value)

    @stuck.box.tool
    async def clean() -> str:
        await asyncio.sleep(0)
        return "clean"

    task = asyncio.create_task(stuck.box.call("careful"))
    await stuck.box.interrupt(await stuck.next_id())

    assert (await asyncio.wait_for(task, SOON)).status is Status.INTERRUPTED
    assert cleaned == ["clean"]


async def test_an_interruption_during_a_middleware_ends_the_call() -> None:
    ids: asyncio.Queue[str] = asyncio.Queue()

    async def hold(active: ActiveCall, proceed: Handler) -> Outcome:
        ids.put_nowait(active.call.id)
        await asyncio.Event().wait()
        return await proceed(active)

    box = Toolbox(middleware=[hold])

    @box.tool
    async def never() -> None:
        raise AssertionError

    task = asyncio.create_task(box.call("never"))
    call_id = await asyncio.wait_for(ids.get(), SOON)
    await box.interrupt(call_id)

    assert (await asyncio.wait_for(task, SOON)).status is Status.INTERRUPTED


async def test_an_interruption_while_observers_listen_comes_too_late() -> None:
    listening, go = asyncio.Event(), asyncio.Event()
    ids: asyncio.Queue[str] = asyncio.Queue()

    async def slow(outcome: Outcome) -> None:
        ids.put_nowait(outcome.call.id)
        listening.set()
        await go.wait()

    box = Toolbox(observers=[slow])

    @box.tool
    async def wait(context: Context) -> None:
        ids.put_nowait(context.call_id)
        await asyncio.Event().wait()

    task = asyncio.create_task(box.call("wait"))
    call_id = await asyncio.wait_for(ids.get(), SOON)
    await box.interrupt(call_id)
    await asyncio.wait_for(listening.wait(), SOON)

    assert not await box.interrupt(call_id)
    go.set()
    assert (await asyncio.wait_for(task, SOON)).status is Status.INTERRUPTED


async def test_a_task_group_around_an_interrupted_call_goes_on() -> None:
    stuck = Stuck()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(stuck.box.call("wait"))
        await stuck.box.interrupt(await stuck.next_id())

    assert call.result().status is Status.INTERRUPTED


async def test_a_failing_neighbour_in_a_task_group_interrupts_the_call() -> None:
    stuck = Stuck()

    async def fail() -> None:
        await stuck.next_id()
        raise ValueError("neighbour")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await stuck.box.call("wait")

    assert stuck.statuses == [Status.INTERRUPTED]
    assert own_task().cancelling() == 0


@pytest.mark.parametrize("seed", range(6))
async def test_any_mix_of_stops_ends_every_call_exactly_once(seed: int) -> None:
    """Interrupts, cancellations, timeouts and normal ends at random, on nested calls."""
    choose = random.Random(seed)
    told: dict[str, list[Status]] = {}
    begun: list[str] = []
    box = Toolbox(observers=[lambda o: told.setdefault(o.call.id, []).append(o.status)])

    async def body(context: Context, depth: int, ticks: int) -> str:
        begun.append(context.call_id)
        for _ in range(ticks):
            await asyncio.sleep(0)
        if depth:
            await box.call(choose.choice(["plain", "timed"]), {"depth": depth - 1, "ticks": ticks})
        return "end"

    box.add(body, "plain")
    box.add(body, "timed", timeout=0.001)

    async def caller() -> None:
        arguments = {"depth": choose.randrange(4), "ticks": choose.randrange(30)}
        await box.call(choose.choice(["plain", "timed"]), arguments)
        assert own_task().cancelling() == 0
        await asyncio.sleep(0)

    tasks = [asyncio.create_task(caller()) for _ in range(60)]
    actions: list[Callable[[], Any]] = [
        lambda: choose.choice(tasks).cancel(),
        lambda: begun and asyncio.create_task(box.interrupt(choose.choice(begun))),
    ]
    kept = []
    while not all(task.done() for task in tasks):
        kept.append(choose.choice(actions)())
        await asyncio.sleep(0)
    done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SOON)

    assert {type(each) for each in done} <= {type(None), asyncio.CancelledError}
    assert set(begun) <= set(told)
    assert {len(statuses) for statuses in told.values()} == {1}


async def test_a_coroutine_in_a_copied_context_gets_the_errors_of_what_it_awaits() -> None:
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    loop.call_soon(first.set_exception, LookupError("first"))
    loop.call_soon(second.set_result, "second")

    async def wait_for_both() -> list[Any]:
        with pytest.raises(LookupError, match="first"):
            await first
        return [await second, own_task()]

    assert await run_in_copy(wait_for_both()) == ["second", own_task()]


def test_an_error_in_a_copied_context_is_freed_without_the_garbage_collector() -> None:
    class Known(Exception):
        pass

    async def outer() -> None:
        await run_in_copy(asyncio.sleep(0))

    gc.disable()
    try:
        waiting = outer()
        waiting.send(None)
        try:
            waiting.throw(Known())
        except Known as error:
            kept = weakref.ref(error)
        del waiting
        assert kept() is None
    finally:
        gc.enable()


def test_a_coroutine_in_a_copied_context_is_closed_with_the_one_that_awaits_it() -> None:
    ended = list[str]()

    async def inner() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append("inner")

    async def outer() -> None:
        await run_in_copy(inner())

    waiting = outer()
    waiting.send(None)
    waiting.close()
    assert ended == ["inner"]


async def test_a_time_limit_ends_in_a_task_that_was_asked_to_stop_before() -> None:
    ended: list[str] = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                async with time_limit(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                ended.append("in time")
            raise

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["in time"]


async def test_a_time_limit_lets_another_cancellation_through() -> None:
    async def work() -> None:
        async with time_limit(120):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_every_time_limit_holds_in_such_a_task() -> None:
    found = [path for path in SOURCE.rglob("*.py") if "asyncio.timeout(" in path.read_text()]
    assert [path.name for path in found] == ["task.py"]
