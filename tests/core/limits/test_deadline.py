"""Timeouts: of coroutines, of threads that are left behind, of generators."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from wieldy import CallTimeout, Context, Outcome, Status, Text, Toolbox

SOON = 120.0
BRIEF = 0.02


class Heard:
    """What observers were told, with a place to wait for the late end."""

    def __init__(self) -> None:
        self.all: list[Outcome] = []
        self._late = threading.Event()

    def __call__(self, outcome: Outcome) -> None:
        self.all.append(outcome)
        if outcome.metadata.get("late"):
            self._late.set()

    async def late(self) -> Outcome:
        assert await asyncio.to_thread(self._late.wait, SOON)
        return self.all[-1]


async def test_a_coroutine_that_takes_too_long_is_cancelled_and_times_out() -> None:
    heard = Heard()
    box = Toolbox(observers=[heard])
    cleaned = asyncio.Event()

    @box.tool(timeout=BRIEF)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    outcome = await asyncio.wait_for(box.call("slow"), SOON)

    assert outcome.status is Status.TIMEOUT
    assert outcome.text == "slow did not finish within 0.02 s."
    assert isinstance(outcome.error, CallTimeout)
    assert "abandoned" not in outcome.metadata
    assert cleaned.is_set()
    assert heard.all == [outcome]
    with pytest.raises(TimeoutError):
        outcome.unwrap()


async def test_a_call_in_time_is_not_touched() -> None:
    box = Toolbox()

    @box.tool(timeout=SOON)
    async def quick() -> int:
        await asyncio.sleep(0)
        return 1

    assert [(await box.call("quick")).value for _ in range(3)] == [1, 1, 1]


async def test_a_timeout_leaves_the_task_as_it_was() -> None:
    box = Toolbox()

    @box.tool(timeout=BRIEF)
    async def slow() -> None:
        await asyncio.Event().wait()

    async def caller() -> int:
        await box.call("slow")
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return task.cancelling()

    assert await asyncio.wait_for(asyncio.create_task(caller()), SOON) == 0


async def test_calls_that_began_at_different_times_come_due_in_turn() -> None:
    box = Toolbox()

    @box.tool(timeout=BRIEF)
    async def slow() -> None:
        await asyncio.Event().wait()

    @box.tool
    async def later() -> str:
        await asyncio.sleep(BRIEF / 2)
        return (await box.call("slow")).status

    outcomes = await asyncio.wait_for(
        box.call_many([("slow", None), ("later", None), ("slow", None)]), SOON
    )

    assert [o.status for o in outcomes] == ["timeout", "ok", "timeout"]
    assert outcomes[1].value == "timeout"


async def test_a_tool_that_swallows_its_timeout_leaves_no_stray_cancellation() -> None:
    box = Toolbox()

    @box.tool(timeout=BRIEF)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "went on"
        return "never"

    async def caller() -> tuple[Any, int]:
        outcome = await box.call("stubborn")
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return outcome.value, task.cancelling()

    assert await asyncio.wait_for(asyncio.create_task(caller()), SOON) == ("went on", 0)


class Stubborn:
    """A tool that swallows every cancellation until somebody lets it end."""

    def __init__(self) -> None:
        self.swallowed = 0
        self.shown = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, context: Context) -> str:
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.swallowed += 1
        await context.emit("too late to be seen")
        self.shown.set()
        return "ended after all"


@pytest.mark.parametrize("recorded", [False, True])
async def test_a_coroutine_that_swallows_its_timeout_is_left_behind_and_its_end_is_told(
    recorded: bool, tmp_path: Path
) -> None:
    heard, tool = Heard(), Stubborn()
    store = f"sqlite:///{tmp_path / 'calls.db'}" if recorded else None
    async with Toolbox(observers=[heard], store=store) as box:
        box.add(tool, "stubborn", timeout=BRIEF)

        outcome = await asyncio.wait_for(box.call("stubborn"), SOON)

        assert (outcome.status, outcome.metadata["abandoned"]) == ("timeout", True)
        assert (outcome.text, tool.swallowed) == ("stubborn did not finish within 0.02 s.", 1)
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        tool.may_end.set()
        late = await heard.late()
        assert (late.status, late.value, late.content) == (
            "ok",
            "ended after all",
            (Text("ended after all"),),
        )
        assert late.metadata == {"abandoned": True, "late": True}
        assert heard.all == [outcome, late]


async def test_a_coroutine_left_behind_may_end_with_an_error() -> None:
    heard = Heard()
    box = Toolbox(observers=[heard])
    may_fail = asyncio.Event()

    @box.tool(timeout=BRIEF)
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_fail.wait()
            raise ValueError("no luck")

    outcome = await asyncio.wait_for(box.call("stubborn"), SOON)
    may_fail.set()
    late = await heard.late()

    assert (outcome.status, late.status, late.text) == ("timeout", "error", "ValueError: no luck")


async def test_the_end_of_what_a_coroutine_does_after_its_timeout_is_waited_for_a_short_while() -> (
    None
):
    heard, cleaned = Heard(), False
    box = Toolbox(observers=[heard])

    @box.tool(timeout=BRIEF)
    async def slow() -> None:
        nonlocal cleaned
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            cleaned = True

    outcome = await asyncio.wait_for(box.call("slow"), SOON)

    assert (outcome.status, cleaned) == ("timeout", True)
    assert "abandoned" not in outcome.metadata
    assert heard.all == [outcome]


async def test_a_generator_that_swallows_its_timeout_is_left_behind() -> None:
    heard, may_end = Heard(), asyncio.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=BRIEF)
    async def stubborn() -> AsyncIterator[str]:
        yield "seen"
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()
        yield "not seen"

    outcome = await asyncio.wait_for(box.call("stubborn"), SOON)
    may_end.set()
    late = await heard.late()

    assert (outcome.status, outcome.metadata["abandoned"]) == ("timeout", True)
    assert outcome.content[0] == Text("seen")
    assert late.metadata["late"] is True


async def test_a_caller_that_is_cancelled_while_its_tool_swallows_is_cancelled() -> None:
    heard, tool, swallowed = Heard(), Stubborn(), asyncio.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=SOON / 100)
    async def stubborn() -> None:
        while not tool.may_end.is_set():
            try:
                await tool.may_end.wait()
            except asyncio.CancelledError:
                swallowed.set()

    caller = asyncio.create_task(box.call("stubborn"))
    await asyncio.wait_for(swallowed.wait(), SOON)
    caller.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(caller, SOON)
    assert [outcome.status for outcome in heard.all] == ["interrupted"]
    tool.may_end.set()
    assert (await heard.late()).metadata["late"] is True


async def test_a_call_inside_one_that_was_left_behind_never_cancels_the_caller() -> None:
    heard, may_end, inner_ended = Heard(), asyncio.Event(), asyncio.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=0.5)
    async def inner() -> None:
        await may_end.wait()

    @box.tool(timeout=BRIEF)
    async def outer(context: Context) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        told = await context.call("inner")
        inner_ended.set()
        return told.status

    outcome = await asyncio.wait_for(box.call("outer"), SOON)
    assert outcome.metadata["abandoned"] is True
    # This one begins later, so the timeout of the call that was left behind has come by its end.
    assert (await box.call("inner")).status is Status.TIMEOUT
    may_end.set()
    await asyncio.wait_for(inner_ended.wait(), SOON)

    assert (await heard.late()).value == "ok"


async def test_a_cancelled_caller_of_a_tool_with_a_timeout_is_interrupted() -> None:
    heard = Heard()
    box = Toolbox(observers=[heard])
    began = asyncio.Event()

    @box.tool(timeout=SOON)
    async def slow() -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(box.call("slow"))
    await asyncio.wait_for(began.wait(), SOON)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert [outcome.status for outcome in heard.all] == [Status.INTERRUPTED]


async def test_an_outer_timeout_ends_the_calls_nested_in_it() -> None:
    heard = Heard()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=SOON)
    async def inner() -> None:
        await asyncio.Event().wait()

    @box.tool(timeout=BRIEF)
    async def outer() -> None:
        await box.call("inner")

    outcome = await asyncio.wait_for(box.call("outer"), SOON)

    assert outcome.status is Status.TIMEOUT
    assert [o.status for o in heard.all] == [Status.INTERRUPTED, Status.TIMEOUT]


async def test_an_inner_timeout_is_a_value_for_the_outer_tool() -> None:
    box = Toolbox()

    @box.tool(timeout=BRIEF)
    async def inner() -> None:
        await asyncio.Event().wait()

    @box.tool(timeout=SOON)
    async def outer() -> str:
        return (await box.call("inner")).status

    assert (await asyncio.wait_for(box.call("outer"), SOON)).value == "timeout"


async def test_a_thread_that_times_out_is_reported_as_abandoned_and_its_end_is_told() -> None:
    heard, go = Heard(), threading.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=BRIEF)
    def block() -> str:
        go.wait(SOON)
        return "late result"

    outcome = await asyncio.wait_for(box.call("block"), SOON)
    assert heard.all == [outcome]
    go.set()
    late = await heard.late()

    assert (outcome.status, outcome.metadata["abandoned"]) == ("timeout", True)
    assert (late.status, late.value) == ("ok", "late result")
    assert late.metadata == {"abandoned": True, "late": True}
    assert late.call is outcome.call
    assert heard.all == [outcome, late]


async def test_the_late_end_of_a_thread_may_be_an_error() -> None:
    heard, go = Heard(), threading.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=BRIEF)
    def block() -> None:
        go.wait(SOON)
        raise asyncio.CancelledError("late trouble")

    await asyncio.wait_for(box.call("block"), SOON)
    go.set()
    late = await heard.late()

    assert (late.status, late.text) == ("error", "CancelledError: late trouble")


def test_the_late_end_is_told_to_both_kinds_of_observers_though_the_loop_is_gone() -> None:
    go, heard = threading.Event(), threading.Semaphore(0)
    late: list[str] = []

    def told(outcome: Outcome) -> None:
        if outcome.metadata.get("late"):
            late.append(outcome.value)
            heard.release()

    async def told_later(outcome: Outcome) -> None:
        await asyncio.sleep(0)
        told(outcome)

    box = Toolbox(observers=[told, told_later])

    @box.tool(timeout=BRIEF)
    def block() -> str:
        go.wait(SOON)
        return "late result"

    outcome = asyncio.run(box.call("block"))
    go.set()

    assert outcome.status is Status.TIMEOUT
    assert heard.acquire(timeout=SOON)
    assert heard.acquire(timeout=SOON)
    assert late == ["late result"] * 2


async def test_what_a_left_thread_emits_is_in_no_outcome() -> None:
    heard, go = Heard(), threading.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=BRIEF)
    def block(context: Context) -> str:
        context.emit("in time")
        go.wait(SOON)
        context.emit("too late")
        return "never"

    outcome = await asyncio.wait_for(box.call("block"), SOON)
    before = outcome.content
    go.set()
    late = await heard.late()

    assert before == (Text("in time"), Text("block did not finish within 0.02 s."))
    assert outcome.content == before
    assert late.status is Status.ERROR


async def test_what_a_left_thread_emits_reaches_no_stream() -> None:
    heard, go = Heard(), threading.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=BRIEF)
    def block() -> Iterator[str]:
        yield "in time"
        go.wait(SOON)
        yield "too late"

    items = [item async for item in box.stream("block")]
    go.set()
    await heard.late()

    assert items[0] == Text("in time")
    assert [type(item).__name__ for item in items] == ["Text", "Outcome"]


async def test_generators_time_out_and_keep_what_they_showed() -> None:
    box = Toolbox()
    closed = asyncio.Event()

    @box.tool(timeout=BRIEF)
    async def slow() -> AsyncIterator[str]:
        try:
            yield "first"
            await asyncio.Event().wait()
            yield "never"
        finally:
            closed.set()

    outcome = await asyncio.wait_for(box.call("slow"), SOON)

    assert outcome.status is Status.TIMEOUT
    assert outcome.content[0] == Text("first")
    assert closed.is_set()


async def test_a_blocking_generator_that_times_out_is_closed_on_its_own_thread() -> None:
    heard, go, closed = Heard(), threading.Event(), threading.Event()
    box = Toolbox(observers=[heard])

    @box.tool(timeout=BRIEF)
    def slow() -> Iterator[str]:
        try:
            yield "first"
            go.wait(SOON)
            yield "never"
        finally:
            closed.set()

    outcome = await asyncio.wait_for(box.call("slow"), SOON)
    go.set()
    await heard.late()

    assert outcome.status is Status.TIMEOUT
    assert outcome.metadata["abandoned"] is True
    assert closed.is_set()


async def test_waiting_for_a_turn_does_not_count() -> None:
    box = Toolbox()

    @box.tool(timeout=1.0, concurrency=1)
    async def turn() -> int:
        await asyncio.sleep(0.01)
        return 1

    outcomes = await asyncio.wait_for(box.call_many([("turn", None)] * 5), SOON)

    assert [outcome.value for outcome in outcomes] == [1] * 5


def test_one_tool_times_out_on_loops_of_many_threads() -> None:
    box = Toolbox()

    @box.tool(timeout=BRIEF)
    async def slow() -> None:
        await asyncio.Event().wait()

    statuses: list[str] = []

    def run() -> None:
        statuses.extend(asyncio.run(box.call("slow")).status for _ in range(3))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)

    assert statuses == ["timeout"] * 24


async def test_a_call_that_waits_for_a_worker_times_out_without_ever_running() -> None:
    heard, go, began = Heard(), threading.Event(), threading.Event()
    box = Toolbox(observers=[heard], threads=1)
    ran: list[str] = []

    @box.tool
    def hold() -> None:
        began.set()
        go.wait(SOON)

    @box.tool(timeout=BRIEF)
    def quick() -> None:
        ran.append("quick")

    holding = asyncio.create_task(box.call("hold"))
    assert await asyncio.to_thread(began.wait, SOON)
    outcome = await asyncio.wait_for(box.call("quick"), SOON)
    go.set()
    await asyncio.wait_for(holding, SOON)
    await asyncio.wait_for(box.call("hold"), SOON)

    assert outcome.status is Status.TIMEOUT
    assert "abandoned" not in outcome.metadata
    assert ran == []
