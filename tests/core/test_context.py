"""What a tool learns from its context and shows through it."""

import asyncio
import threading
from typing import Any

from wieldy import Block, Call, Context, Image, Notice, Outcome, Progress, Text, Toolbox

SOON = 120.0


async def test_both_kinds_of_tools_learn_who_calls() -> None:
    box = Toolbox()

    def facts(context: Context) -> dict[str, Any]:
        return {
            "id": context.call_id,
            "tool": context.tool,
            "agent": context.scope.agent,
            "session": context.scope.session,
            "deps": context.deps,
            "attempt": context.attempt,
            "cancelled": context.cancelled,
        }

    async def facts_later(context: Context) -> dict[str, Any]:
        return facts(context)

    box.add(facts)
    box.add(facts_later)
    for name in ("facts", "facts_later"):
        outcome = await box.view(agent="ann").call(name, deps={"db": 1}, session="s")
        assert outcome.value == {
            "id": outcome.call.id,
            "tool": name,
            "agent": "ann",
            "session": "s",
            "deps": {"db": 1},
            "attempt": 1,
            "cancelled": False,
        }


async def test_deps_are_for_one_call_alone() -> None:
    box = Toolbox()

    @box.tool
    async def deps(context: Context) -> Any:
        return context.deps

    @box.tool
    async def outer(context: Context) -> Any:
        return [context.deps, (await box.call("deps")).value]

    assert (await box.call("outer", deps="mine")).value == ["mine", None]
    assert [o.value for o in await box.call_many([("deps", None)] * 2, deps=7)] == [7, 7]
    assert box.call_sync("deps", deps="sync").value == "sync"
    assert (await box.call("deps")).value is None


async def test_the_context_is_not_an_argument() -> None:
    box = Toolbox()

    @box.tool
    async def peek(context: Context, n: int) -> str:
        return type(context).__name__

    assert list(box.schemas("openai")[0]["function"]["parameters"]["properties"]) == ["n"]
    assert (await box.call("peek", {"n": 1})).value == "Context"
    assert (await box.call("peek", {"n": 1, "context": "mine"})).value != "mine"


async def test_emitted_items_come_first_and_the_value_stays_itself() -> None:
    box = Toolbox()

    @box.tool
    async def show(context: Context) -> dict[str, int]:
        await context.emit("text")
        await context.emit({"a": 1})
        await context.emit([Image(b"x"), Text("y")])
        await context.emit(None)
        context.emit("not awaited")
        await context.progress(1)
        return {"n": 1}

    @box.tool
    def show_blocking(context: Context) -> None:
        context.emit("one")
        context.progress(0.5, message="half")
        context.emit("two")

    outcome = await box.call("show")
    assert outcome.value == {"n": 1}
    assert outcome.content == (
        Text("text"),
        Text('{"a":1}'),
        Image(b"x"),
        Text("y"),
        Text("not awaited"),
        Text('{"n":1}'),
    )

    outcome = await box.call("show_blocking")
    assert outcome.value is None
    assert outcome.content == (Text("one"), Text("two"))


async def test_what_was_emitted_before_a_failure_is_kept() -> None:
    box = Toolbox()

    @box.tool
    async def show(context: Context) -> None:
        await context.emit("one")
        raise ValueError("then this")

    outcome = await box.call("show")

    assert outcome.content == (Text("one"), Text("ValueError: then this"))


async def test_a_tool_may_emit_from_threads_of_its_own() -> None:
    box = Toolbox()

    @box.tool
    async def show(context: Context) -> None:
        await asyncio.to_thread(lambda: context.emit("from a thread"))

    assert (await box.call("show")).content == (Text("from a thread"),)
    items = [item async for item in box.stream("show")]
    assert items[0] == Text("from a thread")


async def test_an_inline_tool_may_emit_in_a_stream() -> None:
    box = Toolbox()

    @box.tool(isolation="inline")
    def show(context: Context) -> None:
        for number in range(200):
            context.emit(str(number))

    items = [item async for item in box.stream("show")]

    assert items[:-1] == [Text(str(number)) for number in range(200)]


async def test_a_blocking_tool_can_see_that_going_on_is_useless() -> None:
    box = Toolbox()
    began, seen = threading.Event(), threading.Event()

    @box.tool
    def patient(context: Context) -> None:
        began.set()
        pause = threading.Event()
        while not context.cancelled:
            pause.wait(0.001)
        seen.set()

    task = asyncio.create_task(box.call("patient"))
    assert await asyncio.to_thread(began.wait, SOON)
    task.cancel()
    await asyncio.wait([task], timeout=SOON)

    assert await asyncio.to_thread(seen.wait, SOON)


async def test_emitting_after_the_end_adds_nothing() -> None:
    box = Toolbox()
    tasks: list[asyncio.Task[None]] = []
    go = asyncio.Event()

    @box.tool
    async def leaves_something(context: Context) -> str:
        async def later() -> None:
            await go.wait()
            assert context.cancelled
            await context.emit("too late")
            await context.progress(1)

        tasks.append(asyncio.create_task(later()))
        await context.emit("one")
        return "end"

    outcome = await box.call("leaves_something")
    go.set()
    await asyncio.wait_for(tasks[0], SOON)

    assert outcome.content == (Text("one"), Text("end"))


async def test_progress_is_shown_and_is_not_content() -> None:
    box = Toolbox()

    @box.tool
    async def work(context: Context) -> None:
        await context.progress(3, 10, "working")

    *shown, outcome = [item async for item in box.stream("work")]

    (progress,) = shown
    assert isinstance(progress, Progress)
    assert (progress.done, progress.total, progress.message) == (3, 10, "working")
    assert isinstance(outcome, Outcome)
    assert outcome.content == ()


async def test_a_notice_is_shown_and_is_not_content() -> None:
    box = Toolbox()

    @box.tool
    async def work(context: Context) -> None:
        await context.notice("slow today", "warning", "work")

    *shown, outcome = [item async for item in box.stream("work")]

    (notice,) = shown
    assert isinstance(notice, Notice)
    assert notice.to_dict() == {
        "type": "notice",
        "level": "warning",
        "logger": "work",
        "message": "slow today",
    }
    assert isinstance(outcome, Outcome)
    assert outcome.content == ()


class _Watching:
    """An observer that wants to hear what running calls show, and fails at the first."""

    def __init__(self) -> None:
        self.shown_items: list[tuple[str, Any]] = []

    def __call__(self, outcome: Outcome) -> None:
        self.shown_items.append((outcome.call.tool, outcome.status.value))

    def shown(self, call: Call, item: Block | Progress) -> None:
        self.shown_items.append((call.tool, item))
        raise RuntimeError("an observer can't change what happens")


async def test_an_observed_call_tells_observers_what_it_shows_before_its_outcome() -> None:
    watching = _Watching()
    box = Toolbox(observers=[lambda outcome: None, watching])

    @box.tool
    async def work(context: Context) -> str:
        await context.emit("part")
        return "whole"

    outcome = await box.call_observed(Call("work", {}))

    assert outcome.text == "partwhole"
    assert watching.shown_items == [("work", Text("part")), ("work", "ok")]
