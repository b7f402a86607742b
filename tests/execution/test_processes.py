"""Tools in processes: the same outcomes, streams, context and errors as anywhere else."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from wieldy import (
    Call,
    Context,
    DefinitionError,
    InputNeeded,
    Limits,
    Outcome,
    Secret,
    Status,
    Toolbox,
    tool,
)
from wieldy.core.block import Progress, Text
from wieldy.execution.shipping import UnknownError

tenant: ContextVar[str] = ContextVar("tenant")


def where() -> int:
    """The process that runs this."""
    return os.getpid()


async def where_async() -> int:
    """The process that runs this, on its loop."""
    await asyncio.sleep(0)
    return os.getpid()


class Plain:
    """A class without state."""

    def method(self) -> int:
        return os.getpid()

    @classmethod
    def of_class(cls) -> int:
        return os.getpid()

    @staticmethod
    def of_nobody() -> int:
        return os.getpid()

    def __call__(self) -> int:
        return os.getpid()


def closure() -> Any:
    box: list[int] = []

    def inner() -> int:
        return os.getpid() + len(box)

    return inner


CALLABLE: dict[str, Any] = {
    "function": where,
    "coroutine_function": where_async,
    "method": Plain().method,
    "method_of_class": Plain.of_class,
    "static_method": Plain.of_nobody,
    "object": Plain(),
    "closure": closure(),
    "lambda": lambda: os.getpid(),
    "partial": partial(lambda extra: os.getpid() + extra, 0),
    "lambda_that_gives_a_coroutine": lambda: where_async(),
}


async def test_whatever_can_be_called_runs_in_another_process(box: Toolbox) -> None:
    for name, function in CALLABLE.items():
        box.add(function, name=name, isolation="process")

        outcome = await box.call(name)

        assert outcome.value == outcome.metadata["pid"] != os.getpid(), name
        assert outcome.metadata["isolation"] == "process"
        assert outcome.metadata["cpu_ms"] >= 0
        assert outcome.metadata["peak_bytes"] > 1_000_000


async def test_a_worker_is_warm_for_the_next_call(box: Toolbox) -> None:
    box.add(where, isolation="process")
    box.add(where_async, isolation="process")

    first = [(await box.call("where")).value for _ in range(5)]

    assert {*first, (await box.call("where_async")).value} == {first[0]}


async def test_calls_run_side_by_side_up_to_the_number_of_processes(box: Toolbox) -> None:
    box.add(where, isolation="process")

    outcomes = await box.call_many([("where", None)] * 20)

    assert len({outcome.value for outcome in outcomes}) == 2


class Point(BaseModel):
    x: int


@dataclass
class Pair:
    one: Any
    two: Any


async def test_values_cross_as_what_they_are(box: Toolbox) -> None:
    class Local(BaseModel):
        y: int

    @box.tool(isolation="process")
    def both(point: Point, local: Local, word: Secret) -> Pair:
        return Pair(point, (local, type(word).__name__))

    outcome = await box.call("both", {"point": {"x": 1}, "local": {"y": 2}, "word": "s3cret-word"})

    assert outcome.value == Pair(Point(x=1), (Local(y=2), "Secret"))
    assert type(outcome.value.two[0]) is Local


class Refused(Exception):
    """An exception whose constructor takes other things than it keeps."""

    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"refused: {why}")
        self.code = code


def refuse() -> None:
    raise Refused(7, why="no") from KeyError("cause")


def ask_system() -> None:
    open("/nowhere/at/all")  # noqa: SIM115


def stop() -> None:
    raise StopIteration("over")


def leave() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (refuse, Refused),
        (ask_system, FileNotFoundError),
        (stop, StopIteration),
        (leave, SystemExit),
    ],
)
async def test_what_a_tool_raises_comes_back_as_it_was(
    box: Toolbox, function: Any, kind: type[BaseException]
) -> None:
    box.add(function, name="there", isolation="process")
    box.add(function, name="here", isolation="inline")

    there, here = await box.call("there"), await box.call("here")

    assert (there.status, there.text) == (here.status, here.text) == ("error", here.text)
    with pytest.raises(kind) as caught:
        there.unwrap()
    assert "In the worker:" in str(caught.value.__notes__)


async def test_an_exception_keeps_its_facts_and_its_cause(box: Toolbox) -> None:
    box.add(refuse, isolation="process")

    with pytest.raises(Refused) as caught:
        (await box.call("refuse")).unwrap()

    assert caught.value.code == 7
    assert isinstance(caught.value.__cause__, KeyError)


async def test_an_exception_that_cannot_be_sent_is_told_in_its_words(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def fail() -> None:
        error = ValueError("with a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    outcome = await box.call("fail")

    assert outcome.text == "UnknownError: ValueError: with a lock"
    with pytest.raises(UnknownError):
        outcome.unwrap()


async def test_generators_stream_as_they_yield(box: Toolbox, tmp_path: Any) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)

    @box.tool(isolation="process")
    def count() -> Iterator[str]:
        yield "one"
        with open(go) as waiting:
            yield waiting.read()

    seen: list[Any] = []
    async for item in box.stream("count"):
        seen.append(item)
        if len(seen) == 1:
            await asyncio.to_thread(go.write_text, "two")

    *blocks, outcome = seen
    assert blocks == [Text("one"), Text("two")]
    assert outcome.value == ["one", "two"]
    assert outcome.content == (Text("one"), Text("two"))


async def test_async_generators_and_returned_values_cross(box: Toolbox) -> None:
    @box.tool(isolation="process")
    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    @box.tool(isolation="process")
    def summed() -> Any:
        yield 1
        yield 2
        return 3

    assert (await box.call("numbers")).value == [0, 1, 2]
    outcome = await box.call("summed")
    assert (outcome.value, outcome.text) == (3, "12")


async def test_a_slow_reader_is_waited_for_and_gets_everything_in_order(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def many() -> Iterator[str]:
        for number in range(2000):
            yield f"{number} {'x' * 1000}"

    seen: list[Any] = [item async for item in box.stream("many")]

    assert [item.text.split()[0] for item in seen[:-1]] == [str(each) for each in range(2000)]


async def test_progress_blocks_and_reports_cross(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def work(ctx: Context) -> str:
        ctx.progress(1, 2, "half")
        ctx.emit("shown")
        ctx.report(0.5, model="m")
        return f"{ctx.tool} {ctx.attempt} {ctx.deps['user']} {ctx.scope.session}"

    seen: list[Any] = [
        item async for item in box.stream("work", deps={"user": "ann"}, session="s1")
    ]

    assert isinstance(seen[0], Progress)
    assert (seen[0].done, seen[0].total, seen[0].message) == (1, 2, "half")
    outcome = seen[-1]
    assert seen[1] == Text("shown")
    assert outcome.value == "work 1 ann s1"
    assert (outcome.metadata["cost"], outcome.metadata["meta"]) == (0.5, {"model": "m"})


async def test_deps_that_cannot_be_sent_are_an_error_only_where_they_are_used(
    box: Toolbox,
) -> None:
    @box.tool(isolation="process")
    def uses(ctx: Context) -> Any:
        return ctx.deps

    @box.tool(isolation="process")
    def leaves(ctx: Context) -> str:
        return ctx.call_id

    lock = threading.Lock()

    assert "deps can't be sent to a process" in (await box.call("uses", deps=lock)).text
    assert (await box.call("leaves", deps=lock)).ok


async def test_log_lines_reach_the_loggers_of_this_process(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    @box.tool(isolation="process")
    def speak() -> None:
        logger = logging.getLogger("shop.orders")
        logger.debug("not asked for")
        logger.warning("sold %d", 3, extra={"held": threading.Lock()})
        try:
            raise ValueError("oops")
        except ValueError:
            logger.exception("broken")

    await box.call("speak")
    with caplog.at_level(logging.DEBUG, "shop.orders"):
        await box.call("speak")

    said = [(each.name, each.getMessage()) for each in caplog.records if each.name == "shop.orders"]
    lines = [("shop.orders", "sold 3"), ("shop.orders", "broken")]
    assert said == [*lines, ("shop.orders", "not asked for"), *lines]
    assert "ValueError: oops" in caplog.text
    assert {each.process for each in caplog.records} != {os.getpid()}


async def test_context_variables_cross_and_their_changes_do_not_come_back(box: Toolbox) -> None:
    local: ContextVar[str] = ContextVar("local", default="nothing")
    unsendable: ContextVar[Any] = ContextVar("unsendable")

    @box.tool(isolation="process")
    def read() -> list[str]:
        found = [tenant.get(), local.get()]
        tenant.set("other")
        local.set("other")
        return found

    tenant.set("acme")
    local.set("here")
    unsendable.set(threading.Lock())

    assert [(await box.call("read")).value for _ in range(2)] == [["acme", "here"]] * 2
    assert tenant.get() == "acme"


async def test_a_nested_call_crosses_back_to_the_engine(box: Toolbox) -> None:
    seen: list[tuple[int, str | None]] = []

    @box.tool
    async def inner(number: int, ctx: Context) -> int:
        seen.append((os.getpid(), ctx.scope.parent))
        return number * 2

    @box.tool(isolation="process")
    def blocking(ctx: Context) -> list[Any]:
        first = box.call_sync("inner", {"number": 1})
        second = ctx.call_sync("inner", {"number": 2})
        return [first.value, second.value, first.call.scope.parent == ctx.call_id, "inner" in box]

    @box.tool(isolation="process")
    async def on_loop(ctx: Context) -> list[Any]:
        outcomes = await box.view(names="inner").call_many([("inner", {"number": 3})] * 12)
        streamed: list[Any] = [item async for item in box.stream("inner", {"number": 4})]
        through = await ctx.call("inner", {"number": 5})
        return [*(each.value for each in outcomes), streamed[-1].value, through.value]

    assert (await box.call("blocking")).value == [2, 4, True, True]
    assert (await box.call("on_loop")).value == [6] * 12 + [8, 10]
    assert {pid for pid, _ in seen} == {os.getpid()}
    assert all(parent is not None for _, parent in seen)


async def test_context_calls_other_tools_wherever_the_function_runs(box: Toolbox) -> None:
    @box.tool
    def double(number: int) -> int:
        return number * 2

    @box.tool
    def in_thread(ctx: Context) -> Any:
        return ctx.call_sync("double", {"number": 1}).value

    @box.tool
    async def on_loop(ctx: Context) -> Any:
        return (await ctx.call("double", {"number": 2})).value

    assert [(await box.call(name)).value for name in ("in_thread", "on_loop")] == [2, 4]


async def test_a_nested_failure_and_a_nested_outcome_cross(box: Toolbox) -> None:
    @box.tool
    def fails() -> None:
        raise Refused(1, why="inner")

    @box.tool(isolation="process")
    def outer() -> Outcome:
        outcome = box.call_sync("fails")
        assert outcome.status is Status.ERROR
        return outcome

    outcome = await box.call("outer")

    assert outcome.text == "Refused: refused: inner"


async def test_calls_nested_in_processes_do_not_wait_for_those_that_hold_them(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def deep(level: int) -> list[int]:
        below = box.call_sync("deep", {"level": level - 1}).value if level else []
        return [os.getpid(), *below]

    outcomes = await box.call_many([("deep", {"level": 3})] * 3)

    assert [len(set(outcome.value)) for outcome in outcomes] == [4] * 3


async def test_a_tool_may_pause_for_input_in_a_process(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def ask(ctx: Context) -> Any:
        if ctx.answers is None:
            raise InputNeeded.form("Sure?", state={"step": 1})
        return [ctx.answers, ctx.state]

    parked = await box.call("ask")
    assert parked.status is Status.PENDING
    answered = await box.answer(parked.call.id, {"answer": {"action": "accept"}})

    assert answered.value == [{"answer": {"action": "accept"}}, {"step": 1}]


async def test_secrets_are_covered_in_what_a_process_says(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def tell(word: Secret, ctx: Context) -> str:
        ctx.emit(f"<{word.get_secret_value()}>")
        raise ValueError(word.get_secret_value())

    outcome = await box.call("tell", {"word": "hunter2-hunter2"})

    assert "hunter2" not in outcome.text + str(outcome.content)


def test_a_blocking_caller_is_served_too() -> None:
    box = Toolbox(processes=1)
    box.add(where, isolation="process")

    async def close() -> None:
        await box.close()

    assert box.call_sync("where").value != os.getpid()
    assert asyncio.run(_called(box)) != os.getpid()
    asyncio.run(close())


async def _called(box: Toolbox) -> Any:
    return (await box.call("where")).value


class Stateful:
    """An instance with something to change."""

    def __init__(self) -> None:
        self.count = 0

    @tool(isolation="process")
    def method(self) -> int:
        self.count += 1
        return self.count

    def __call__(self) -> int:
        return self.count


class Slotted:
    """The same without a dict."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def method(self) -> int:
        return self.count


def holds_lock() -> Any:
    lock = threading.Lock()

    def locked() -> None:
        with lock:
            pass

    return locked


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Stateful().method, "attributes .count., and what a process changes in them"),
        (Stateful(), "attributes .count."),
        (partial(Stateful().method), "attributes .count."),
        (Slotted().method, "attributes .count."),
        (holds_lock(), "can't be sent to a process: 'lock': cannot pickle '_thread.lock' object"),
    ],
)
def test_what_cannot_be_sent_is_refused_when_it_is_added(function: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        Toolbox().add(function, name="made", isolation="process")


def test_a_preset_that_cannot_be_sent_is_refused_when_it_is_added() -> None:
    with pytest.raises(DefinitionError, match="the preset 'lock'"):
        Toolbox().add(
            lambda lock: None,
            name="made",
            isolation="process",
            presets={"lock": threading.Lock()},
        )


def test_memory_is_a_limit_of_processes() -> None:
    with pytest.raises(ValueError, match='needs isolation="process"'):
        Limits(memory="512MB")


@pytest.mark.parametrize("memory", ["", "512", "-1MB", "1XB", 0, True, 1.5, "inf MB"])
def test_a_size_that_is_none_is_refused(memory: Any) -> None:
    with pytest.raises(ValueError, match="memory must be bytes or text"):
        Limits(memory=memory, isolation="process")


def hold_until_told(pipe: str) -> str:
    """Return what is written into a pipe."""
    with open(pipe) as told:
        return told.read()


@pytest.mark.parametrize("verdict", ["deny", "allow"])
async def test_a_standing_rule_made_while_a_call_waits_for_its_process_is_read_before_it_runs(
    verdict: str, tmp_path: Path
) -> None:
    pipes = [str(tmp_path / name) for name in "ab"]
    for pipe in pipes:
        os.mkfifo(pipe)
    async with Toolbox(processes=1, store=f"sqlite:///{tmp_path}/s.db") as box:
        box.add(hold_until_told, limits=Limits(isolation="process"))
        running = [asyncio.create_task(box.call("hold_until_told", {"pipe": pipes[0]}))]
        # To open a pipe waits for whoever reads it.
        first = await asyncio.to_thread(open, pipes[0], "w")
        call = Call("hold_until_told", {"pipe": pipes[1]})
        running.append(asyncio.create_task(box.call(call)))
        async for entry in box.ledger.follow(state="started", last=5):
            if entry.call.id == call.id:
                break
        for _ in range(20):
            await asyncio.sleep(0)
        await getattr(box.standing, verdict)("hold_until_told", where={"pipe": pipes[1]})
        first.close()
        if verdict == "allow":
            (await asyncio.to_thread(open, pipes[1], "w")).close()

        _, outcome = await asyncio.gather(*running)
        assert outcome.status is (Status.DENIED if verdict == "deny" else Status.OK)
