"""An agent as a tool of a server: its pauses are questions to the client."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from pydantic import BaseModel

import wieldy.mcp
from tests.mcp.clients import MODES, Mode, Person, text_of
from wieldy import Call, Context, InputNeeded, Toolbox
from wieldy.agent import Agent, ServedAgent
from wieldy.store.runs import StoredRun
from wieldy.testing import Answer, ScriptedModel

REFUND = Call("refund", {"order": "A-17"})


class Desk:
    """A served agent that pays back, and what its tools did."""

    def __init__(self, *answers: Any, deps: Any = None, **options: Any) -> None:
        self.ran: list[str] = []
        self.deps: list[Any] = []
        self.model = ScriptedModel(answers)
        self.agent = Agent(self.model, name="desk", tool_strategy="native", **options)
        tags = [self.agent.tag]
        self.agent.toolbox.add(self.refund, tags=tags, permission="confirm")
        self.agent.toolbox.add(self.ship, tags=tags)
        self.served = ServedAgent(self.agent, deps)

    async def refund(self, order: str, ctx: Context) -> str:
        """Pay an order back."""
        self.ran.append(f"refund {order}")
        self.deps.append(ctx.deps)
        return f"paid {order}"

    async def ship(self, order: str, ctx: Context) -> str:
        """Ship an order."""
        await ctx.progress(1, 2, "packing")
        if ctx.answers is None:
            raise InputNeeded.form("Where to?")
        self.ran.append(f"ship {order}")
        return f"shipped to {ctx.answers['answer']['content']}"

    def server(self, **options: Any) -> Any:
        return wieldy.mcp.server(self.served.box, view=self.served.view, **options)


@pytest.fixture(params=["memory", "store"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    yield {} if request.param == "memory" else {"store": f"sqlite:///{tmp_path}/desk.db"}


async def test_only_the_agent_is_offered(options: dict[str, Any]) -> None:
    desk = Desk("Hello.", **options)
    async with desk.agent, Client(desk.server()) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("desk", {"query": "Say hello."})
        with pytest.raises(Exception, match="refund"):
            await client.call_tool("refund", {"order": "A-17"})

    assert (tool.name, set(tool.input_schema["properties"])) == ("desk", {"query", "resume_call"})
    assert tool.input_schema["required"] == ["query"]
    assert text_of(result) == "Hello."
    assert "Say hello." in desk.model.requests[0].text
    assert desk.ran == []


async def test_an_input_model_is_the_schema() -> None:
    class Question(BaseModel):
        topic: str
        words: int = 100

    class Writer(Agent):
        InputModel = Question

    agent = Writer(ScriptedModel(["Tea."]), name="writer")
    served = ServedAgent(agent)
    async with Client(wieldy.mcp.server(served.box, view=served.view)) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("writer", {"topic": "tea"})

    assert list(tool.input_schema["properties"]) == ["topic", "words", "resume_call"]
    assert text_of(result) == "Tea."


@pytest.mark.parametrize("mode", MODES)
async def test_a_pause_is_a_question_to_the_client(mode: Mode, options: dict[str, Any]) -> None:
    desk = Desk([REFUND, Call("refund", {"order": "B-2"})], "Both are paid.", **options)
    person = Person()
    async with (
        desk.agent,
        Client(desk.server(), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk", {"query": "Pay back."})

    assert (text_of(result), result.is_error) == ("Both are paid.", False)
    assert desk.ran == ["refund A-17", "refund B-2"]
    assert person.asked[0].splitlines() == [
        "desk asks: May refund run?",
        "Arguments:",
        '  order = "A-17"',
        "It needs approval: the tool asks for confirmation",
    ]
    assert "B-2" in person.asked[1]


@pytest.mark.parametrize("mode", MODES)
async def test_a_no_is_told_to_the_agent(mode: Mode, options: dict[str, Any]) -> None:
    desk = Desk(REFUND, "I may not.", **options)
    person = Person(approve=False, reason="too much")
    async with (
        desk.agent,
        Client(desk.server(), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk", {"query": "Pay back."})

    assert (text_of(result), desk.ran) == ("I may not.", [])
    assert "too much" in desk.model.requests[1].text


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_tool_of_the_agent_asks_is_asked(mode: Mode, options: dict[str, Any]) -> None:
    desk = Desk(Call("ship", {"order": "A-17"}), "It is on its way.", **options)
    person = Person(answer="Oslo")
    async with (
        desk.agent,
        Client(desk.server(), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk", {"query": "Ship."})

    assert text_of(result) == "It is on its way."
    assert person.asked == ["desk asks: ship wants to know:\nWhere to?"]
    assert "Oslo" in desk.model.requests[1].text


@pytest.mark.parametrize("mode", MODES)
async def test_several_pauses_of_one_run_are_asked_one_after_the_other(
    mode: Mode, options: dict[str, Any]
) -> None:
    desk = Desk(REFUND, Call("refund", {"order": "B-2"}), "Paid twice.", **options)
    person = Person()
    async with (
        desk.agent,
        Client(desk.server(), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk", {"query": "Pay back."})

    assert (text_of(result), len(person.asked), len(desk.ran)) == ("Paid twice.", 2, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", [REFUND, Call("ship", {"order": "A-17"})])
async def test_a_client_that_cannot_be_asked_is_told_and_comes_back(
    mode: Mode, call: Call, options: dict[str, Any]
) -> None:
    desk = Desk(call, "Settled.", **options)
    box = desk.agent.toolbox
    async with desk.agent, Client(desk.server(), mode=mode) as client:
        told = await client.call_tool("desk", {"query": "Go."})
        (parked,) = await box.pending()
        words = text_of(told)
        found = re.search(r"resume_call='(\w+)'", words)
        assert found is not None
        again = {"query": "Go.", "resume_call": found[1]}
        still = await client.call_tool("desk", again)
        if call is REFUND:
            await box.approve(parked.id, by="ann")
        else:
            await box.answer(parked.id, {"answer": {"content": "Oslo"}})
        ended = await client.call_tool("desk", again)
        twice = await client.call_tool("desk", again)

    assert told.is_error and still.is_error
    assert "A person has to agree" in words and "wieldy" not in words
    assert f"Run {parked.scope.run} of desk has not ended" in words
    assert text_of(still) == words
    assert (text_of(ended), ended.is_error) == ("Settled.", False)
    assert text_of(twice) == "Settled."
    assert len(desk.ran) == 1
    assert len(desk.model.requests) == 2


async def test_nobody_comes_back_to_what_is_not_theirs(options: dict[str, Any]) -> None:
    desk = Desk(REFUND, **options)
    other = await desk.agent.toolbox.call("refund", {"order": "Z"})
    async with desk.agent, Client(desk.server()) as client:
        for asked in (other.call.id, "nonsense", ""):
            result = await client.call_tool("desk", {"query": "Go.", "resume_call": asked})
            assert result.is_error
            assert "no call" in text_of(result)
    assert desk.model.requests == []


async def test_without_elicitation_the_client_is_not_asked(options: dict[str, Any]) -> None:
    desk = Desk(REFUND, **options)
    person = Person()
    server = desk.server(elicitation=False)
    async with desk.agent, Client(server, elicitation_callback=person) as client:
        result = await client.call_tool("desk", {"query": "Go."})

    assert (person.asked, result.is_error, desk.ran) == ([], True, [])
    assert "A person has to agree" in text_of(result)


@pytest.mark.parametrize("mode", MODES)
async def test_a_question_that_is_closed_leaves_the_run_waiting(
    mode: Mode, options: dict[str, Any]
) -> None:
    desk = Desk(REFUND, **options)
    person = Person()
    person.action = "cancel"
    async with (
        desk.agent,
        Client(desk.server(), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("desk", {"query": "Go."})
        (parked,) = await desk.agent.toolbox.pending()

    assert result.is_error
    assert parked.id in text_of(result)
    assert desk.ran == []


@pytest.mark.parametrize("mode", MODES)
async def test_text_and_progress_are_notifications_also_after_a_pause(
    mode: Mode, options: dict[str, Any]
) -> None:
    desk = Desk(
        Answer("Let me see.", [Call("ship", {"order": "A"})]), "All is well now.", **options
    )
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    person = Person(answer="Oslo")
    async with (
        desk.agent,
        Client(desk.server(), mode=mode, elicitation_callback=person) as client,
    ):
        await client.call_tool("desk", {"query": "Go."}, progress_callback=hear)

    said = "".join(told)
    assert "Let me see." in said
    assert "ship: packing" in told
    assert "All is well now." in said


async def test_deps_come_from_the_function_of_the_file(options: dict[str, Any]) -> None:
    runs: list[StoredRun] = []

    def deps(run: StoredRun) -> str:
        runs.append(run)
        return f"deps of {run.agent}"

    desk = Desk(REFUND, "Done.", deps=deps, **options)
    async with (
        desk.agent,
        Client(desk.server(), elicitation_callback=Person()) as client,
    ):
        assert text_of(await client.call_tool("desk", {"query": "Go."})) == "Done."

    assert desk.deps == ["deps of desk"]
    assert len({run.id for run in runs}) == 1


async def test_a_run_that_was_decided_elsewhere_goes_on_and_its_client_finds_the_answer(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/desk.db"
    desk = Desk(REFUND, "Paid.", deps=lambda run: "found", store=url)
    async with desk.agent, desk.served.keep_runs().keeping(), Client(desk.server()) as client:
        told = text_of(await client.call_tool("desk", {"query": "Go."}))
        async with Toolbox(store=url) as elsewhere:
            (parked,) = await elsewhere.pending()
            await elsewhere.approve(parked.id, by="ann")
        assert parked.scope.run is not None
        runs = desk.agent.toolbox.store.runs
        async with asyncio.timeout(120):
            await runs.until(parked.scope.run, lambda run: run.state == "done")
        found = re.search(r"resume_call='(\w+)'", told)
        assert found is not None
        async with asyncio.timeout(120):
            result = await client.call_tool("desk", {"query": "Go.", "resume_call": found[1]})

    assert text_of(result) == "Paid."
    assert (desk.ran, desk.deps) == (["refund A-17"], ["found"])


def test_an_agent_without_a_name_or_with_a_field_of_ours_is_refused() -> None:
    class Input(BaseModel):
        resume_call: str

    class Odd(Agent):
        InputModel = Input

    with pytest.raises(ValueError, match=r"Agent\(name="):
        ServedAgent(Agent(ScriptedModel([])))
    with pytest.raises(ValueError, match="Rename the field"):
        ServedAgent(Odd(ScriptedModel([]), name="odd"))
    clash = Agent(ScriptedModel([]), name="clash")
    clash.toolbox.add(lambda: None, name="clash")
    with pytest.raises(ValueError, match="its own name"):
        ServedAgent(clash)
