"""The events of one call: when a person is asked, when its tool is entered, and when it ends."""

import asyncio
from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from wieldy import Call, Context, InputNeeded, Limits, Outcome
from wieldy.agent import Agent
from wieldy.agent.response import Response
from wieldy.testing import ScriptedModel

EVENTS = ("permission_request", "permission_result", "tool_start", "tool_output", "tool_complete")


async def read_names(response: Response) -> list[str]:
    return [name async for name, _ in response.get_async_generator("specific", events=EVENTS)]


def square(n: int) -> int:
    """Square a number, in another process."""
    return n * n


async def test_the_start_is_told_while_a_tool_that_shows_nothing_runs(
    make_agent: MakeAgent,
) -> None:
    agent, _ = make_agent(Call("wait", {}), "Done.", tool_strategy="native")
    heard = asyncio.Event()

    @agent.tool_func
    async def wait() -> str:
        # It would wait for ever if the start were told only with its end.
        async with asyncio.timeout(120):
            await heard.wait()
        return "waited"

    names = []
    stream = agent.input("Go.").get_response().get_async_generator("specific", events=EVENTS)
    async for name, _ in stream:
        names.append(name)
        heard.set()

    assert names == ["tool_start", "tool_complete"]


@pytest.mark.parametrize("kind", ["thread", "process", "inline", "generator", "retried", "limited"])
async def test_the_start_is_told_once_whatever_way_a_tool_runs(kind: str) -> None:
    agent = Agent(ScriptedModel([Call("square", {"n": 2}), "Done."]), tool_strategy="native")
    failed: list[int] = []

    async def parts(n: int) -> Any:
        yield f"{n}"

    async def flaky(n: int) -> int:
        failed.append(n)
        if len(failed) == 1:
            raise ConnectionError("not yet")
        return n

    function: Any = {"generator": parts, "retried": flaky}.get(kind, square)
    limits: dict[str, Limits] = {
        "thread": Limits(isolation="thread"),
        "process": Limits(isolation="process"),
        "inline": Limits(isolation="inline"),
        "retried": Limits(retries=1, retry_unsafe=True),
        "limited": Limits(timeout=60, concurrency=1),
    }
    agent.toolbox.add(function, name="square", tags=[agent.tag], limits=limits.get(kind, Limits()))

    async with agent:
        names = await read_names(agent.input("Go.").get_response())

    shown = ["tool_output"] if kind == "generator" else []
    assert names == ["tool_start", *shown, "tool_complete"]


@pytest.mark.parametrize(
    "call",
    [Call("missing", {}), Call("square", {"n": "no number"}), Call("guarded", {})],
    ids=["unknown tool", "bad arguments", "denied"],
)
async def test_a_call_that_never_reaches_its_function_has_no_start(
    make_agent: MakeAgent, call: Call
) -> None:
    agent, _ = make_agent(call, "Done.", tool_strategy="native")
    agent.use_tools(square)
    agent.toolbox.add(lambda: None, name="guarded", tags=[agent.tag], permission="deny")

    assert await read_names(agent.input("Go.").get_response()) == []


async def test_who_decides_at_once_hears_of_the_start_before_the_tool_ends(
    make_agent: MakeAgent,
) -> None:
    agent, _ = make_agent(Call("wipe", {}), "Done.", tool_strategy="native")
    heard = asyncio.Event()

    async def wipe() -> str:
        async with asyncio.timeout(120):
            await heard.wait()
        return "wiped"

    async def agree(receipt: Outcome) -> Outcome:
        return await agent.toolbox.approve(receipt.call.id, by="ann")

    agent.toolbox.add(wipe, tags=[agent.tag], permission="confirm")
    names = []
    response = agent.input("Go.").get_response(decide=agree)
    async for name, _ in response.get_async_generator("specific", events=EVENTS):
        names.append(name)
        if name == "tool_start":
            heard.set()

    assert names == ["permission_request", "permission_result", "tool_start", "tool_complete"]


async def test_a_judged_call_has_events_only_where_a_person_is_asked() -> None:
    judged = {
        "use_tool": True,
        "tool_command": {"purpose": "p", "tool_name": "wipe", "tool_kwargs": {}},
    }
    agent = Agent(ScriptedModel([judged, "Done.", judged, "Done."]))

    async def agree(receipt: Outcome) -> Outcome:
        return await agent.toolbox.approve(receipt.call.id)

    async def wipe() -> str:
        return "wiped"

    agent.toolbox.add(wipe, tags=[agent.tag], permission="confirm")
    assert await read_names(agent.input("Go.").get_response(decide=agree)) == [
        "permission_request",
        "permission_result",
        "tool_start",
        "tool_complete",
    ]
    agent.toolbox.add(wipe, tags=[agent.tag], permission="auto", on_conflict="override")
    assert await read_names(agent.input("Go.").get_response()) == []


async def test_a_tool_that_asks_is_entered_before_it_asks(make_agent: MakeAgent) -> None:
    agent, _ = make_agent(Call("ship", {}), "Done.", tool_strategy="native")

    @agent.tool_func
    async def ship(ctx: Context) -> str:
        if ctx.answers is None:
            raise InputNeeded.form("Where to?")
        return "shipped"

    async def answer(receipt: Outcome) -> Outcome:
        return await agent.toolbox.answer(receipt.call.id, {"answer": {"content": "Oslo"}})

    names = await read_names(agent.input("Go.").get_response(decide=answer))

    assert names == ["tool_start", "permission_request", "permission_result", "tool_complete"]


async def test_a_handler_that_fails_on_the_start_ends_the_run_and_not_the_call() -> None:
    agent = Agent(ScriptedModel([Call("note", {}), "Done."]), tool_strategy="native")
    ran = []

    @agent.tool_func
    async def note() -> str:
        ran.append("note")
        return "noted"

    def fail(*_: Any) -> None:
        raise OSError("no disk")

    agent.extension_handlers.append("broadcast_suffixes", fail, event="tool_start")
    with pytest.raises(OSError, match="no disk"):
        await agent.input("Go.").async_start()
    assert ran == ["note"]
