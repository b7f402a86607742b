"""An agent with many tools sees a few, and in its next round what it has loaded."""

import re
from pathlib import Path
from typing import Any

import pytest

from wieldy import Call, Toolbox
from wieldy.agent import Agent, Budget, ChatSessionExtension, RunInterrupted
from wieldy.testing import ScriptedModel
from wieldy.tools.tool_search import add_search_tools
from wieldy.wire.prompt import render_call

SHOWN = ["search_tools", "load_tools"]


def fill(box: Toolbox) -> Toolbox:
    for number in range(20):
        box.add(lambda: 0, name=f"count_{number}", description=f"Count to {number}.")
    box.add(lambda to: f"sent to {to}", name="send_mail", description="Send an email.")
    add_search_tools(box)
    return box


class Talker(ChatSessionExtension, Agent):
    """An agent that keeps conversations."""


def make_agent(
    box: Toolbox, *answers: Any, tool_strategy: str = "native"
) -> tuple[Talker, ScriptedModel]:
    model = ScriptedModel(answers)
    agent = Talker(model, toolbox=box, tool_strategy=tool_strategy, name="talker")
    return agent.use_tools(box.names), model


SEARCH = Call("search_tools", {"query": "send an email"})
LOAD = Call("load_tools", {"names": ["send_mail"]})
SEND = Call("send_mail", {"to": "ann"})


async def test_the_next_round_has_what_was_loaded_and_the_rest_stays_the_same() -> None:
    async with Toolbox() as box:
        agent, model = make_agent(fill(box), [SEARCH], [LOAD], [SEND], "Done.")

        answer = await agent.input("Write to ann.").async_start()

        assert answer == "Done."
        more = [*SHOWN, "send_mail"]
        assert [each.tool_names for each in model.requests] == [SHOWN, SHOWN, more, more]
        first, last = model.requests[0].body["tools"], model.requests[-1].body["tools"]
        assert last[: len(first)] == first
        assert "sent to ann" in str(model.requests[-1].body["messages"])


async def test_a_run_without_a_session_starts_with_a_few_tools_again() -> None:
    async with Toolbox() as box:
        agent, model = make_agent(fill(box), [LOAD], "Loaded.", "Again.")

        await agent.input("Load it.").async_start()
        await agent.input("And now?").async_start()

        assert model.requests[-1].tool_names == SHOWN


@pytest.mark.parametrize("stored", [False, True])
async def test_a_conversation_keeps_what_it_loaded(tmp_path: Path, stored: bool) -> None:
    store = f"sqlite:///{tmp_path}/store.db" if stored else None
    async with Toolbox(store=store) as box:
        agent, model = make_agent(fill(box), [LOAD], "Loaded.", "Again.")
        await agent.async_activate_chat_session("ann")
        await agent.input("Load it.").async_start()
        await agent.input("And now?").async_start()

        assert model.requests[-1].tool_names == [*SHOWN, "send_mail"]
    if stored:
        async with Toolbox(store=store) as box:
            agent, model = make_agent(fill(box), "Hello.")
            await agent.async_activate_chat_session("ann")
            await agent.input("Still there?").async_start()

            assert model.requests[-1].tool_names == [*SHOWN, "send_mail"]


async def test_with_calls_in_text_the_answer_tells_of_the_loaded_tool() -> None:
    said = [
        render_call("load_tools", {"names": ["send_mail"]}, "xml"),
        render_call("send_mail", {"to": "ann"}, "xml"),
    ]
    async with Toolbox() as box:
        agent, model = make_agent(fill(box), *said, "Done.", tool_strategy="xml")

        assert await agent.input("Write to ann.").async_start() == "Done."

        messages = [request.body["messages"] for request in model.requests]
        assert messages[0] == messages[1][: len(messages[0])]
        assert "send_mail" not in str(messages[0])
        described = re.findall("Send an email", str(messages[-1]))
        assert len(described) == 1


async def test_a_tool_that_is_not_loaded_can_be_called_by_name() -> None:
    async with Toolbox() as box:
        agent, model = make_agent(fill(box), [SEND], "Done.")

        await agent.input("Write to ann.").async_start()

        assert "sent to ann" in str(model.requests[-1].body["messages"])


async def test_what_was_sent_is_shown_as_it_was_and_what_would_be_sent_as_it_is() -> None:
    async with Toolbox() as box:
        agent, _ = make_agent(fill(box), [LOAD], "Loaded.")
        before = agent.input("Load it.").explain()

        await agent.input("Load it.").async_start()
        after = agent.explain()

        def names(body: dict[str, Any]) -> list[str]:
            return [each["function"]["name"] for each in body["tools"]]

        assert [names(each) for each in before.requests] == [SHOWN]
        assert [names(each) for each in after.requests] == [SHOWN, [*SHOWN, "send_mail"]]


def judged(call: Call) -> dict[str, Any]:
    command = {"purpose": call.tool, "tool_name": call.tool, "tool_kwargs": call.arguments}
    return {"use_tool": True, "tool_command": command}


async def test_the_judge_searches_loads_and_then_uses_the_tool() -> None:
    async with Toolbox() as box:
        said = [judged(SEARCH), judged(LOAD), judged(SEND), "Done."]
        agent, model = make_agent(fill(box), *said, tool_strategy="judge")

        assert await agent.input("Write to ann.").async_start() == "Done."

        first, second, third, last = (request.text for request in model.requests)
        assert "count_7" not in first + second + third
        assert ("send_mail" in first, "Send an email" in second) == (False, True)
        assert "kwargs" in third
        assert third.count("Send an email") >= 2
        assert "sent to ann" in last
        assert "search_tools" in last


@pytest.mark.parametrize(("budget", "rounds"), [(None, 5), (Budget(rounds=2), 2)])
async def test_the_judge_asks_no_more_than_the_rounds_allow(
    budget: Budget | None, rounds: int
) -> None:
    async with Toolbox() as box:
        said = [judged(SEARCH)] * rounds + ["I could not find it."]
        agent, model = make_agent(fill(box), *said, tool_strategy="judge")
        agent.budget = budget

        assert await agent.input("Write to ann.").async_start() == "I could not find it."

        assert len(model.requests) == rounds + 1


async def test_the_judge_of_a_conversation_lists_what_was_loaded_before() -> None:
    async with Toolbox() as box:
        said = [judged(LOAD), {"use_tool": False}, "Loaded.", judged(SEND), "Done."]
        agent, model = make_agent(fill(box), *said, tool_strategy="judge")
        await agent.async_activate_chat_session("ann")
        await agent.input("Load it.").async_start()
        assert await agent.input("Write to ann.").async_start() == "Done."

        assert "Send an email" in model.requests[3].text
        assert "count_7" not in model.requests[3].text


async def test_a_judged_run_goes_on_elsewhere_after_a_search(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    async with Toolbox(store=store) as box:
        box.rules.ask("send_mail")
        said = [judged(LOAD), judged(SEND)]
        agent, _ = make_agent(fill(box), *said, tool_strategy="judge")
        with pytest.raises(RunInterrupted) as stopped:
            await agent.input("Write to ann.").async_start()
    async with Toolbox(store=store) as box:
        agent, model = make_agent(fill(box), "Done.", tool_strategy="judge")
        decisions = {each.id: {"approved": True} for each in stopped.value.pending}
        assert await agent.async_resume(stopped.value.run_id, decisions) == "Done."

        assert "sent to ann" in model.requests[-1].text


@pytest.mark.parametrize("strategy", ["native", "xml"])
async def test_a_run_that_goes_on_elsewhere_offers_what_it_had_loaded(
    tmp_path: Path, strategy: str
) -> None:
    store = f"sqlite:///{tmp_path}/store.db"

    def answers(*calls: Call) -> list[Any]:
        if strategy == "native":
            return [[call] for call in calls]
        return [render_call(each.tool, each.arguments, "xml") for each in calls]  # type: ignore[arg-type]

    async with Toolbox(store=store) as box:
        box.rules.ask("send_mail")
        agent, _ = make_agent(fill(box), *answers(LOAD, SEND), tool_strategy=strategy)
        with pytest.raises(RunInterrupted) as stopped:
            await agent.input("Write to ann.").async_start()
    async with Toolbox(store=store) as box:
        agent, model = make_agent(fill(box), "Done.", tool_strategy=strategy)
        decisions = {each.id: {"approved": True} for each in stopped.value.pending}
        assert await agent.async_resume(stopped.value.run_id, decisions) == "Done."

        sent = model.requests[-1]
        assert "sent to ann" in sent.text
        if strategy == "native":
            assert sent.tool_names == [*SHOWN, "send_mail"]
