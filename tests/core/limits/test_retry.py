"""Trying again, only where that does no harm."""

import asyncio
import threading
from typing import Any

import pytest

from tests.core.impatient import pauses_of
from wieldy import Context, Limits, Outcome, ServiceError, Status, Text, Toolbox

SOON = 120.0
BRIEF = 0.02


class Flaky:
    """Fails a number of times before it works."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.attempts: list[int] = []

    async def work(self, context: Context) -> str:
        self.attempts.append(context.attempt)
        if self.left:
            self.left -= 1
            raise OSError("flaky")
        return "worked"


async def run(flaky: Flaky, **options: Any) -> Outcome:
    box = Toolbox()
    box.add(flaky.work, "work", **options)
    return await asyncio.wait_for(box.call("work"), SOON)


@pytest.mark.parametrize("trait", ["read_only", "idempotent"])
async def test_a_harmless_tool_is_tried_again(trait: str) -> None:
    flaky = Flaky(2)

    outcome = await run(flaky, retries=2, **{trait: True})

    assert outcome.value == "worked"
    assert flaky.attempts == [1, 2, 3]
    assert outcome.metadata["attempts"] == 3


async def test_a_tool_that_works_at_once_notes_no_attempts() -> None:
    outcome = await run(Flaky(0), retries=2, read_only=True)

    assert "attempts" not in outcome.metadata


async def test_a_tool_that_may_do_harm_is_tried_once() -> None:
    flaky = Flaky(1)

    outcome = await run(flaky, retries=3)

    assert outcome.text == "OSError: flaky"
    assert flaky.attempts == [1]


async def test_other_tools_are_tried_again_when_told_so() -> None:
    flaky = Flaky(1)

    outcome = await run(flaky, limits=Limits(retries=1, retry_unsafe=True))

    assert outcome.value == "worked"
    assert flaky.attempts == [1, 2]


async def test_after_the_last_attempt_its_error_is_the_outcome() -> None:
    flaky = Flaky(9)

    outcome = await run(flaky, retries=1, read_only=True)

    assert outcome.text == "OSError: flaky"
    assert outcome.metadata["attempts"] == 2
    assert flaky.attempts == [1, 2]


async def test_a_rule_made_meanwhile_keeps_it_from_being_tried_again() -> None:
    box = Toolbox()
    entered: list[int] = []

    @box.tool(read_only=True, retries=3)
    async def look() -> None:
        """Look, and find that it is forbidden now."""
        entered.append(1)
        box.rules.deny("look", reason="it was enough")
        raise OSError("flaky")

    outcome = await asyncio.wait_for(box.call("look"), SOON)
    assert (outcome.status, len(entered)) == (Status.ERROR, 1)
    assert outcome.metadata["not_retried"] == "it was enough"
    assert (await box.call("look")).status is Status.DENIED


async def test_a_rule_that_was_there_before_does_not_matter() -> None:
    flaky = Flaky(1)
    box = Toolbox()
    box.rules.deny("other")
    box.rules.allow("work")
    box.add(flaky.work, "work", permission="confirm", read_only=True, retries=1)
    assert (await asyncio.wait_for(box.call("work"), SOON)).value == "worked"


async def test_wrong_arguments_are_not_tried_again() -> None:
    box = Toolbox()

    @box.tool(retries=3, read_only=True)
    async def never(n: int) -> None:
        raise AssertionError

    outcome = await box.call("never", {"n": "x"})

    assert "attempts" not in outcome.metadata


@pytest.mark.parametrize("kind", ["emit", "yield", "blocking"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_nothing_is_tried_again_after_the_first_block(kind: str, streaming: bool) -> None:
    box = Toolbox()
    attempts: list[str] = []

    async def emit(context: Context) -> None:
        attempts.append(kind)
        await context.emit("shown")
        raise OSError

    async def give() -> Any:
        attempts.append(kind)
        yield "shown"
        raise OSError

    def blocking(context: Context) -> None:
        attempts.append(kind)
        context.emit("shown")
        raise OSError

    chosen: dict[str, Any] = {"emit": emit, "yield": give, "blocking": blocking}
    box.add(chosen[kind], "work", retries=3, read_only=True)
    if streaming:
        items = [item async for item in box.stream("work")]
        outcome = items[-1]
        assert items[:-1] == [Text("shown")]
        assert isinstance(outcome, Outcome)
    else:
        outcome = await box.call("work")

    assert attempts == [kind]
    assert outcome.content == (Text("shown"), Text("OSError"))


async def test_progress_alone_does_not_forbid_another_attempt() -> None:
    box = Toolbox()
    attempts: list[int] = []

    @box.tool(retries=1, read_only=True)
    async def work(context: Context) -> None:
        attempts.append(context.attempt)
        await context.progress(1)
        raise OSError

    await box.call("work")

    assert attempts == [1, 2]


async def test_a_timeout_is_tried_again_and_each_attempt_has_its_own_time() -> None:
    box = Toolbox()
    attempts: list[int] = []

    @box.tool(retries=1, read_only=True, timeout=BRIEF)
    async def work(context: Context) -> str:
        attempts.append(context.attempt)
        if context.attempt == 1:
            await asyncio.Event().wait()
        return "second"

    outcome = await asyncio.wait_for(box.call("work"), SOON)

    assert outcome.value == "second"
    assert attempts == [1, 2]


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_attempt_left_in_a_thread_can_not_write_into_the_next(streaming: bool) -> None:
    first_may_go, first_ended = threading.Event(), threading.Event()

    def told(outcome: Outcome) -> None:
        if outcome.metadata.get("late"):
            first_ended.set()

    box = Toolbox(observers=[told])

    @box.tool(retries=1, read_only=True, timeout=0.5)
    def work(context: Context) -> str:
        if context.attempt == 1:
            first_may_go.wait(SOON)
            context.emit("from the first")
            return "first"
        first_may_go.set()
        first_ended.wait(SOON)
        context.emit("from the second")
        return "second"

    if streaming:
        items = [item async for item in box.stream("work")]
        outcome = items[-1]
        assert items[:-1] == [Text("from the second"), Text("second")]
        assert isinstance(outcome, Outcome)
    else:
        outcome = await asyncio.wait_for(box.call("work"), SOON)

    assert outcome.value == "second"
    assert outcome.content == (Text("from the second"), Text("second"))
    assert "abandoned" not in outcome.metadata


async def test_what_a_failed_attempt_left_running_on_the_loop_can_not_write_either() -> None:
    box = Toolbox()
    second = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    @box.tool(retries=1, read_only=True)
    async def work(context: Context) -> str:
        async def later() -> None:
            await second.wait()
            await context.emit("from the first")

        if context.attempt == 1:
            tasks.append(asyncio.create_task(later()))
            raise OSError
        second.set()
        await tasks[0]
        return "second"

    items = [item async for item in box.stream("work")]

    assert items[:-1] == [Text("second")]


async def test_a_call_can_be_stopped_while_it_pauses_between_attempts() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])
    failed = asyncio.Event()
    ids: list[str] = []

    @box.tool(retries=50, read_only=True)
    async def work(context: Context) -> None:
        ids.append(context.call_id)
        asyncio.get_running_loop().call_soon(failed.set)
        raise OSError

    task = asyncio.create_task(box.call("work"))
    await asyncio.wait_for(failed.wait(), SOON)
    await box.interrupt(ids[0])
    outcome = await asyncio.wait_for(task, SOON)

    assert outcome.status is Status.INTERRUPTED
    assert len(ids) == 1
    assert heard == [outcome]


async def test_what_an_interrupted_attempt_showed_is_in_the_outcome() -> None:
    box = Toolbox()
    ids: list[str] = []
    shown = asyncio.Event()

    @box.tool(retries=1, read_only=True)
    async def work(context: Context) -> None:
        ids.append(context.call_id)
        await context.emit("shown")
        shown.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(box.call("work"))
    await asyncio.wait_for(shown.wait(), SOON)
    await box.interrupt(ids[0])
    outcome = await asyncio.wait_for(task, SOON)

    assert outcome.content[0] == Text("shown")


def test_pauses_grow_up_to_a_limit_and_are_never_quite_the_same() -> None:
    box = Toolbox()
    flaky = Flaky(100)
    box.add(flaky.work, "work", retries=12, read_only=True)

    pauses = pauses_of(box.call("work"))

    longest = [min(0.1 * 2**n, 10.0) for n in range(12)]
    assert len(pauses) == 12
    for pause, most in zip(pauses, longest, strict=True):
        assert most / 2 <= pause <= most
    assert len(set(pauses)) == 12


async def test_nested_calls_of_a_retried_tool_know_their_parent() -> None:
    box = Toolbox()

    @box.tool
    async def inner(context: Context) -> str | None:
        return context.scope.parent

    @box.tool(retries=1, read_only=True)
    async def outer(context: Context) -> bool:
        if context.attempt == 1:
            raise OSError
        return bool((await box.call("inner")).value == context.call_id)

    assert (await box.call("outer")).value is True


@pytest.mark.parametrize(
    ("error", "attempts", "pauses"),
    [
        (ServiceError("no", status=404), 1, []),
        (ServiceError("busy", temporary=True, retry_after=7), 3, [7, 7]),
        (ServiceError("busy", temporary=True, retry_after=3600), 1, []),
    ],
)
def test_who_was_asked_says_whether_and_when_to_ask_again(
    error: ServiceError, attempts: int, pauses: list[float]
) -> None:
    box = Toolbox()
    seen: list[int] = []

    @box.tool(retries=2, read_only=True)
    async def ask() -> None:
        seen.append(1)
        raise error

    assert pauses_of(box.call("ask")) == pauses
    assert len(seen) == attempts
