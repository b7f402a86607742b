"""A budget of seconds ends what is running when it is used up."""

import asyncio
import threading
from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from tests.agent.test_bad_models import OwnModel
from wieldy import Call, Context, Outcome, Status, Toolbox
from wieldy.agent import Agent, Budget, run_clock
from wieldy.testing import Answer, ScriptedModel
from wieldy.wire.stream_events import TextDelta

SOON = Budget(seconds=0.05)
USED_UP = "budget of 0.05 seconds is used up"


async def finish(agent: Agent) -> tuple[str, dict[str, Any]]:
    response = agent.input("Go.").get_response()
    async with asyncio.timeout(120):
        return await response.async_get_text(), await response.async_get_meta()


@pytest.mark.parametrize("strategy", ["native", "xml", "judge"])
@pytest.mark.parametrize("endless", [True, False])
async def test_a_request_that_takes_too_long_ends_the_run_with_what_was_said(
    strategy: str, endless: bool
) -> None:
    model = OwnModel(TextDelta("So far "), endless=endless, hangs=not endless)
    agent = Agent(model, tool_strategy=strategy, budget=SOON)

    text, meta = await finish(agent)

    assert text.startswith("So far ")
    assert meta["finish_reason"] == "out_of_time"
    assert model.closed == 1


async def test_calls_of_an_answer_that_was_cut_off_are_not_run(make_agent: MakeAgent) -> None:
    ran: list[str] = []
    never = Answer(["Let me see.", asyncio.Event()], [Call("note", {})])
    agent, model = make_agent(never, tool_strategy="native", budget=SOON)

    @agent.tool_func
    async def note() -> None:
        ran.append("note")

    text, _ = await finish(agent)

    assert (text, ran, len(model.requests)) == ("Let me see.", [], 1)


@pytest.mark.parametrize("strategy", ["native", "judge"])
@pytest.mark.parametrize("blocking", [True, False])
async def test_calls_that_take_too_long_are_interrupted_and_the_model_is_told(
    strategy: str, blocking: bool
) -> None:
    ended: list[Outcome] = []
    stop = threading.Event()
    box = Toolbox(observers=[ended.append])
    judged = {
        "use_tool": True,
        "tool_command": {"purpose": "p", "tool_name": "hang", "tool_kwargs": {}},
    }
    calls = judged if strategy == "judge" else [Call("hang", {}), Call("quick", {})]
    model = ScriptedModel([calls, "As far as I got."])
    agent = Agent(model, toolbox=box, tool_strategy=strategy, budget=SOON)

    async def hang() -> None:
        await asyncio.Event().wait()

    def hang_blocking() -> None:
        stop.wait(120)

    async def quick() -> str:
        return "quick result"

    box.add(hang_blocking if blocking else hang, name="hang", tags=[agent.tag])
    agent.use_tools(quick)
    try:
        text, meta = await finish(agent)
    finally:
        stop.set()

    assert (text, meta["finish_reason"]) == ("As far as I got.", "stop")
    status = {each.call.tool: each.status for each in ended if "late" not in each.metadata}
    assert status["hang"] is Status.INTERRUPTED
    assert "interrupted" in model.requests[1].text
    if strategy == "native":
        assert status["quick"] is Status.OK
        assert "quick result" in model.requests[1].text
        assert USED_UP in model.requests[1].last


async def test_the_last_answer_has_an_end_as_well(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_clock, "LAST_ANSWER", 0.05)
    last = Answer(["In short", asyncio.Event()])
    agent, model = make_agent(Call("hang", {}), last, tool_strategy="native", budget=SOON)

    @agent.tool_func
    async def hang() -> None:
        await asyncio.Event().wait()

    text, meta = await finish(agent)

    assert (text, meta["finish_reason"]) == ("In short", "out_of_time")
    assert USED_UP in model.requests[1].last


async def test_a_run_inside_a_tool_has_no_more_time_than_the_run_around_it(
    make_agent: MakeAgent,
) -> None:
    inner = OwnModel(TextDelta("half"), hangs=True)
    agent, model = make_agent(Call("ask", {}), "Done.", tool_strategy="native", budget=SOON)

    @agent.tool_func
    async def ask() -> Any:
        return await Agent(inner).input("Go.").async_start()

    assert (await finish(agent))[0] == "Done."
    assert inner.closed == 1
    assert USED_UP in model.requests[1].last


async def test_time_in_which_a_person_is_asked_does_not_count(make_agent: MakeAgent) -> None:
    agent, model = make_agent(
        Call("wipe", {}), "Done.", tool_strategy="native", budget=Budget(seconds=0.2)
    )
    began = asyncio.Event()

    async def wipe(ctx: Context) -> str:
        began.set()
        return "wiped"

    async def ponder(receipt: Outcome) -> Outcome:
        # Longer than the whole budget.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(began.wait(), 0.4)
        return await agent.toolbox.approve(receipt.call.id)

    agent.toolbox.add(wipe, tags=[agent.tag], permission="confirm")
    response = agent.input("Go.").get_response(decide=ponder)

    assert await response.async_get_text() == "Done."
    assert "used up" not in model.requests[1].text


async def test_a_call_that_was_approved_at_once_is_ended_when_time_is_up(
    make_agent: MakeAgent,
) -> None:
    agent, model = make_agent(Call("hang", {}), "Done.", tool_strategy="native", budget=SOON)

    async def hang() -> None:
        await asyncio.Event().wait()

    async def agree(receipt: Outcome) -> Outcome:
        return await agent.toolbox.approve(receipt.call.id)

    agent.toolbox.add(hang, tags=[agent.tag], permission="confirm")
    response = agent.input("Go.").get_response(decide=agree)
    async with asyncio.timeout(120):
        assert await response.async_get_text() == "Done."
    assert USED_UP in model.requests[1].last
