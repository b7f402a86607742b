"""The path of a call: what ends it, who is told, what is nested in what."""

import asyncio
import gc
import json
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from wieldy import (
    ActiveCall,
    Block,
    Call,
    Context,
    Handler,
    Image,
    Outcome,
    Progress,
    Scope,
    Status,
    Text,
    Toolbox,
    ToolFailed,
    ToolNotFound,
)

SOON = 120.0


async def read(items: AsyncIterator[Block | Progress | Outcome]) -> tuple[list[Any], Outcome]:
    """Everything that a stream shows, and its outcome."""
    shown = [item async for item in items]
    last = shown.pop()
    assert isinstance(last, Outcome)
    return shown, last


def box_with(*functions: Callable[..., Any], **options: Any) -> Toolbox:
    box = Toolbox(**options)
    for function in functions:
        box.add(function)
    return box


async def add(a: int, b: int = 2) -> int:
    return a + b


def add_blocking(a: int, b: int = 2) -> int:
    return a + b


async def broken() -> None:
    raise ValueError("no")


async def test_a_call_ends_ok_with_its_value_text_and_timing() -> None:
    outcome = await box_with(add).call("add", {"a": 1})

    assert outcome.status is Status.OK
    assert (outcome.value, outcome.text, outcome.error) == (3, "3", None)
    assert outcome.content == (Text("3"),)
    assert outcome.metadata["duration_ms"] >= 0
    assert outcome.unwrap() == 3


async def test_json_text_is_taken_as_arguments() -> None:
    assert (await box_with(add).call("add", '{"a": 1, "b": 4}')).value == 5


async def test_a_failing_tool_is_an_outcome_and_unwrap_raises_the_exception_itself() -> None:
    outcome = await box_with(broken).call("broken")

    assert outcome.status is Status.ERROR
    assert isinstance(outcome.error, ToolFailed)
    assert isinstance(outcome.error.original, ValueError)
    assert outcome.text == "ValueError: no"
    with pytest.raises(ValueError) as raised:
        outcome.unwrap()
    assert raised.value is outcome.error.original


async def test_an_unknown_tool_is_an_error_that_names_the_near_ones() -> None:
    outcome = await box_with(add).call("ad")

    assert outcome.status is Status.ERROR
    assert isinstance(outcome.error, ToolNotFound)
    assert outcome.error.near == ("add",)


@pytest.mark.parametrize("name", [None, 3, ["add"], "", "\x00", "\ud800", "x" * 10_000])
async def test_no_tool_name_whatever_it_is_raises(name: Any) -> None:
    outcome = await box_with(add).call(name)

    assert outcome.status is Status.ERROR


@pytest.mark.parametrize("arguments", ["{", "[]", "null", b"\xff", 7, {"a": object()}, {1: 2}])
async def test_no_arguments_whatever_they_are_raise(arguments: Any) -> None:
    outcome = await box_with(add).call("add", arguments)

    assert outcome.status is Status.ERROR


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "é\U0001f600", "x" * 10_000_000])
async def test_strange_and_large_text_goes_through_unchanged(text: str) -> None:
    async def echo(text: str) -> str:
        return text

    box = box_with(echo)

    assert (await box.call("echo", {"text": text})).value == text
    if "\ud800" not in text:
        assert (await box.call("echo", json.dumps({"text": text}))).value == text


async def test_a_lone_surrogate_in_json_text_is_an_outcome() -> None:
    async def echo(text: str) -> str:
        return text

    outcome = await box_with(echo).call("echo", '{"text": "\\ud800"}')

    assert outcome.status in (Status.OK, Status.ERROR)


async def test_values_that_json_does_not_know_are_outcomes_with_text() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("not even this")

    async def odd() -> Any:
        return Odd()

    async def knot() -> Any:
        value: list[Any] = []
        value.append(value)
        return value

    async def deep() -> Any:
        value: list[Any] = []
        for _ in range(100_000):
            value = [value]
        return value

    box = box_with(odd, knot, deep)
    for name in ("odd", "knot", "deep"):
        outcome = await box.call(name)
        assert outcome.status is Status.OK
        assert isinstance(outcome.text, str)


async def test_a_thousand_calls_at_once_all_end() -> None:
    async def wait(number: int) -> int:
        await asyncio.sleep(0)
        return number

    box = box_with(wait, add_blocking)

    outcomes = await box.call_many([("wait", {"number": n}) for n in range(1000)])
    blocking = await box.call_many([("add_blocking", {"a": n}) for n in range(1000)])

    assert [outcome.value for outcome in outcomes] == list(range(1000))
    assert [outcome.value for outcome in blocking] == [n + 2 for n in range(1000)]


async def test_call_many_keeps_the_order_and_pairs_each_outcome_with_its_call() -> None:
    box = box_with(add, broken)
    call = Call("add", {"a": 5}, provider_id="p1")

    outcomes = await box.call_many([("add", {"a": 1}), ("broken", None), call, ("nope", None)])

    assert [outcome.status for outcome in outcomes] == ["ok", "error", "ok", "error"]
    assert [outcome.value for outcome in outcomes] == [3, None, 7, None]
    assert outcomes[2].call.provider_id == "p1"
    assert outcomes[2].call.id == call.id
    assert await box.call_many([]) == []


async def test_a_call_object_keeps_its_id_and_scope() -> None:
    async def who(context: Context) -> dict[str, str | None]:
        return context.scope.to_dict()

    scope = Scope(agent="a", session="s", caller="ann", run="r1")
    call = Call("who", scope=scope, id="mine")

    outcome = await box_with(who).call(call)

    assert outcome.call.id == "mine"
    assert outcome.value == scope.to_dict()


async def test_a_call_to_which_the_view_adds_nothing_is_run_as_it_is() -> None:
    async def who(context: Context) -> str | None:
        return context.scope.agent

    view = box_with(who).view(agent="a")
    complete, other = Call("who", scope=Scope("a", "s")), Call("who", scope=Scope("b", "s"))

    assert (await view.call(complete)).call is complete
    assert (await view.call(complete, session="s")).call is complete
    assert (await view.call(complete, session="t")).call.scope == Scope("a", "t")
    assert (await view.call(other)).value == "a"


async def test_nested_calls_inherit_their_scope_and_name_their_parent() -> None:
    box = Toolbox()

    @box.tool
    async def inner(context: Context) -> dict[str, str | None]:
        return context.scope.to_dict()

    @box.tool
    async def outer(context: Context) -> tuple[str, Any, Any]:
        beside = await asyncio.gather(box.call("inner"), box.call("inner", session="other"))
        return context.call_id, beside[0].value, beside[1].value

    @box.tool
    def outer_blocking(context: Context) -> tuple[str, Any]:
        return context.call_id, box.call_sync("inner").value

    view = box.view(agent="mailer", caller="ann")
    asked = Call("outer", scope=Scope(run="r1", caller="somebody else"))
    own, first, second = (await view.call(asked, session="s1")).unwrap()
    assert first == Scope("mailer", "s1", own, "ann", "r1").to_dict()
    assert second == Scope("mailer", "other", own, "ann", "r1").to_dict()

    own, first = (await view.call("outer_blocking", session="s2")).unwrap()
    assert first == Scope("mailer", "s2", own, "ann").to_dict()


async def test_a_call_after_a_nested_one_has_no_parent() -> None:
    box = Toolbox()

    @box.tool
    async def scope(context: Context) -> str | None:
        return context.scope.parent

    @box.tool
    async def outer() -> str | None:
        value: str | None = (await box.call("scope")).value
        return value

    assert (await box.call("outer")).value is not None
    assert (await box.call("scope")).value is None


@pytest.mark.parametrize("kind", ["async", "blocking", "gather", "stream"])
async def test_endless_recursion_ends_in_a_clear_error(kind: str) -> None:
    box = Toolbox()
    deepest = 0

    def count(depth: int) -> dict[str, int]:
        nonlocal deepest
        deepest = max(deepest, depth)
        return {"depth": depth + 1}

    @box.tool(name="async")
    async def by_await(depth: int) -> Any:
        return (await box.call("async", count(depth))).unwrap()

    @box.tool(name="blocking")
    def by_blocking(depth: int) -> Any:
        return box.call_sync("blocking", count(depth)).unwrap()

    @box.tool(name="gather")
    async def by_gather(depth: int) -> Any:
        outcomes = await box.call_many([("gather", count(depth))])
        return outcomes[0].unwrap()

    @box.tool(name="stream")
    async def by_stream(depth: int) -> Any:
        return (await read(box.stream("stream", count(depth))))[1].unwrap()

    outcome = await asyncio.wait_for(box.call(kind, {"depth": 0}), SOON)

    assert outcome.status is Status.ERROR
    assert outcome.text == "RecursionError: calls are nested more than 50 deep"
    assert deepest == 50


async def test_python_recursion_in_a_tool_is_an_error_outcome() -> None:
    async def down() -> int:
        return len([await down()])

    outcome = await box_with(down).call("down")

    assert isinstance(outcome.error, ToolFailed)
    assert isinstance(outcome.error.original, RecursionError)


# Observers


async def test_observers_of_both_kinds_hear_each_outcome_once_in_order() -> None:
    heard: list[tuple[str, Status]] = []

    async def told(outcome: Outcome) -> None:
        await asyncio.sleep(0)
        heard.append(("async", outcome.status))

    box = box_with(
        add, broken, observers=[lambda outcome: heard.append(("sync", outcome.status)), told]
    )
    await box.call("add", {"a": 1})
    await box.call("broken")
    await box.call("nope")

    assert [status for who, status in heard if who == "sync"] == ["ok", "error", "error"]
    assert [status for who, status in heard if who == "async"] == ["ok", "error", "error"]
    assert [who for who, _ in heard] == ["sync", "async"] * 3


async def test_failing_observers_change_nothing_and_the_others_still_hear(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Any] = []

    def raises(outcome: Outcome) -> None:
        raise RuntimeError("observer")

    async def raises_later(outcome: Outcome) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("observer")

    async def gives_up(outcome: Outcome) -> None:
        raise asyncio.CancelledError

    box = box_with(add, observers=[raises, raises_later, gives_up, heard.append])
    with caplog.at_level(logging.CRITICAL, "wieldy"):
        outcome = await box.call("add", {"a": 1})

    assert outcome.value == 3
    assert heard == [outcome]


async def test_all_observers_hear_though_the_caller_is_cancelled_while_one_listens() -> None:
    listening = asyncio.Event()
    heard: list[Status] = []

    async def slow(outcome: Outcome) -> None:
        listening.set()
        await asyncio.Event().wait()

    box = box_with(add, observers=[slow, lambda outcome: heard.append(outcome.status)])
    task = asyncio.create_task(box.call("add", {"a": 1}))
    await asyncio.wait_for(listening.wait(), SOON)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert heard == [Status.OK]


async def test_an_observer_may_call_tools_outside_of_the_call_it_hears_of() -> None:
    box: Toolbox
    parents: list[str | None] = []

    async def look(outcome: Outcome) -> None:
        if outcome.call.tool != "peek":
            parents.append((await box.call("peek")).value)

    box = Toolbox(observers=[look])

    @box.tool
    async def peek(context: Context) -> str | None:
        return context.scope.parent

    @box.tool
    async def stuck() -> None:
        await asyncio.Event().wait()

    box.add(add)
    await box.call("add", {"a": 1})
    task = asyncio.create_task(box.call("stuck"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert parents == [None, None]


# Middleware


async def test_middleware_wraps_in_the_order_given() -> None:
    seen: list[str] = []

    def layer(name: str) -> Callable[[ActiveCall, Handler], Awaitable[Outcome]]:
        async def around(active: ActiveCall, proceed: Handler) -> Outcome:
            seen.append(f"{name} in")
            outcome = await proceed(active)
            seen.append(f"{name} out")
            return outcome

        return around

    async def note() -> None:
        seen.append("tool")

    await box_with(note, middleware=[layer("a"), layer("b")]).call("note")

    assert seen == ["a in", "b in", "tool", "b out", "a out"]


async def test_middleware_may_answer_itself_and_sees_the_arguments() -> None:
    async def answer(active: ActiveCall, proceed: Handler) -> Outcome:
        if active.arguments["a"] == 0:
            return Outcome(active.call, Status.OK, f"{active.tool.name} {active.values}")
        return await proceed(active)

    box = box_with(add, middleware=[answer])

    assert (await box.call("add", {"a": 0})).value == "add {'a': 0, 'b': 2}"
    assert (await box.call("add", '{"a": "0"}')).value == "add {'a': 0, 'b': 2}"
    assert (await box.call("add", {"a": 1})).value == 3


async def test_middleware_that_raises_is_an_error_outcome() -> None:
    async def raises(active: ActiveCall, proceed: Handler) -> Outcome:
        raise RuntimeError("middleware")

    heard: list[Outcome] = []
    outcome = await box_with(add, middleware=[raises], observers=[heard.append]).call(
        "add", {"a": 1}
    )

    assert outcome.status is Status.ERROR
    assert outcome.text == "RuntimeError: middleware"
    assert heard == [outcome]


async def test_middleware_that_gives_up_without_being_cancelled_is_an_error_outcome() -> None:
    async def gives_up(active: ActiveCall, proceed: Handler) -> Outcome:
        raise asyncio.CancelledError

    outcome = await box_with(add, middleware=[gives_up]).call("add", {"a": 1})

    assert outcome.status is Status.ERROR


@pytest.mark.parametrize("garbage", [None, 3, {"status": "ok"}])
async def test_middleware_that_gives_garbage_is_an_error_outcome(garbage: Any) -> None:
    async def gives(active: ActiveCall, proceed: Handler) -> Any:
        await proceed(active)
        return garbage

    outcome = await box_with(add, middleware=[gives]).call("add", {"a": 1})

    assert outcome.status is Status.ERROR
    assert "not an Outcome" in outcome.text


async def test_middleware_may_emit_and_note() -> None:
    async def note(active: ActiveCall, proceed: Handler) -> Outcome:
        await active.emit("before")
        active.note("seen", True)
        return await proceed(active)

    outcome = await box_with(add, middleware=[note]).call("add", {"a": 1})

    assert outcome.content == (Text("before"), Text("3"))
    assert outcome.metadata["seen"] is True
    assert outcome.value == 3


# Streams


async def test_a_stream_shows_blocks_and_progress_and_the_outcome_last() -> None:
    async def report(context: Context) -> str:
        await context.progress(1, 2, "half")
        await context.emit("first")
        await context.emit(Image(b"x"))
        return "end"

    shown, outcome = await read(box_with(report).stream("report"))

    assert [item.to_dict() for item in shown] == [
        {"type": "progress", "done": 1, "total": 2, "message": "half"},
        {"type": "text", "text": "first"},
        Image(b"x").to_dict(),
        {"type": "text", "text": "end"},
    ]
    assert outcome.value == "end"
    assert outcome.content == (Text("first"), Image(b"x"), Text("end"))


async def test_a_blocking_tool_streams_the_same() -> None:
    def report(context: Context) -> str:
        context.progress(1)
        context.emit("first")
        return "end"

    shown, outcome = await read(box_with(report).stream("report"))

    assert [item.type for item in shown] == ["progress", "text", "text"]
    assert outcome.content == (Text("first"), Text("end"))


async def test_a_stream_of_a_plain_tool_shows_its_result() -> None:
    shown, outcome = await read(box_with(add).stream("add", {"a": 1}))

    assert shown == [Text("3")]
    assert outcome.value == 3


@pytest.mark.parametrize("name", ["broken", "nope"])
async def test_a_stream_of_a_failing_call_gives_only_the_outcome(name: str) -> None:
    shown, outcome = await read(box_with(broken).stream(name))

    assert shown == []
    assert outcome.status is Status.ERROR


async def test_a_reader_that_leaves_early_interrupts_the_call() -> None:
    heard: list[Status] = []
    cleaned = asyncio.Event()

    async def endless() -> AsyncIterator[int]:
        try:
            for number in range(1_000_000):
                yield number
                await asyncio.sleep(0)
        finally:
            cleaned.set()

    box = box_with(endless, observers=[lambda outcome: heard.append(outcome.status)])
    stream = box.stream("endless")
    async for item in stream:
        if item == Text("3"):
            break
    await asyncio.wait_for(stream.aclose(), SOON)  # type: ignore[attr-defined]

    assert heard == [Status.INTERRUPTED]
    assert cleaned.is_set()


async def test_a_reader_that_just_breaks_interrupts_the_call_too() -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[int]:
        while True:
            yield 1

    def told(outcome: Outcome) -> None:
        assert outcome.status is Status.INTERRUPTED
        ended.set()

    box = box_with(endless, observers=[told])
    async for _ in box.stream("endless"):
        break

    await asyncio.wait_for(ended.wait(), SOON)


async def test_a_blocking_generator_stops_when_its_reader_leaves() -> None:
    ended = threading.Event()
    late = asyncio.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    def told(outcome: Outcome) -> None:
        if outcome.metadata.get("late"):
            late.set()

    box = box_with(endless, observers=[told])
    stream = box.stream("endless")
    async for _ in stream:
        break
    await asyncio.wait_for(stream.aclose(), SOON)  # type: ignore[attr-defined]

    await asyncio.wait_for(late.wait(), SOON)
    assert ended.is_set()


async def test_a_cancelled_reader_interrupts_the_call_and_stays_cancelled() -> None:
    heard: list[Status] = []
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    box = box_with(wait, observers=[lambda outcome: heard.append(outcome.status)])
    task = asyncio.create_task(read(box.stream("wait")))
    await asyncio.wait_for(started.wait(), SOON)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert heard == [Status.INTERRUPTED]


async def test_an_interrupted_stream_ends_with_the_interrupted_outcome() -> None:
    async def wait(context: Context) -> None:
        await context.emit(context.call_id)
        await asyncio.Event().wait()

    box = box_with(wait)
    items: list[Any] = []
    async for item in box.stream("wait"):
        items.append(item)
        if isinstance(item, Text):
            assert await box.interrupt(item.text)

    assert items[-1].status is Status.INTERRUPTED
    assert items[-1].content[0] == items[0]


async def test_each_sentence_of_an_outcome_told_to_observers_is_what_the_caller_gets() -> None:
    heard: list[Outcome] = []
    box = box_with(add, observers=[heard.append])

    _, outcome = await read(box.stream("add", {"a": 1}))

    assert heard == [outcome]


async def test_keyboard_interrupts_go_on_after_observers_heard() -> None:
    heard: list[Status] = []

    async def stop() -> None:
        raise KeyboardInterrupt

    box = box_with(stop, observers=[lambda outcome: heard.append(outcome.status)])
    coroutine = box.call("stop")

    # Driven in this task: one that ends in a KeyboardInterrupt would end the loop of the test.
    with pytest.raises(KeyboardInterrupt):
        await coroutine
    assert heard == [Status.INTERRUPTED]


def test_a_call_that_is_thrown_away_with_its_loop_is_told_as_interrupted() -> None:
    heard: list[Status] = []

    async def wait() -> None:
        await asyncio.Event().wait()

    box = box_with(wait, observers=[lambda outcome: heard.append(outcome.status)])

    async def main() -> None:
        coroutine = box.call("wait")
        coroutine.send(None)
        coroutine.close()

    asyncio.run(main())

    assert heard == [Status.INTERRUPTED]


async def test_a_call_leaves_nothing_for_the_garbage_collector() -> None:
    box = Toolbox()

    @box.tool
    async def rest() -> None:
        await asyncio.sleep(0)

    @box.tool
    def work() -> None: ...

    async def call_all(name: str) -> None:
        await asyncio.gather(*(box.call(name) for _ in range(500)))
        await asyncio.sleep(0)

    for name in ("rest", "work"):
        await call_all(name)
        gc.collect()
        # What other tests have loaded is not looked through again.
        gc.freeze()
        gc.disable()
        try:
            await call_all(name)
            # A ring for each call would be a thousand; threads of other tests leave some too.
            assert gc.collect() < 500, name
        finally:
            gc.enable()
            gc.unfreeze()
