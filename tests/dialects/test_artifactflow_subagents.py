"""`call_subagent`: valid names and instructions are routed, in an agent's run to the agent."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from wieldy import Call, Toolbox
from wieldy.agent import Agent, RunInterrupted
from wieldy.dialects.artifactflow import AgentToolkit, CallSubagentTool, ToolRegistry, ToolResult
from wieldy.testing import ScriptedModel

ROUTED = {"agent_name": "ann", "instruction": "Find tea."}


@pytest.mark.parametrize("agents", [["ann", "bob"], {"ann": None, "bob": None}, ("ann",), "ann"])
async def test_004_6_a_valid_call_gives_what_to_route_by(agents: Any) -> None:
    tool = CallSubagentTool(agents=agents)
    toolkit = AgentToolkit("lead")
    toolkit.add_tool(tool)

    assert await tool(**ROUTED) == ToolResult(True, data=ROUTED)
    assert await toolkit.execute_tool("call_subagent", ROUTED) == ToolResult(True, data=ROUTED)


@pytest.mark.parametrize(
    ("agents", "params", "said"),
    [
        (["ann"], {"agent_name": "eve", "instruction": "Go."}, "'eve'. Known agents: ann"),
        ([], {"agent_name": "eve", "instruction": "Go."}, "No agents"),
        (None, {"agent_name": "", "instruction": "Go."}, "Unknown agent"),
        (["ann"], {"agent_name": "ann", "instruction": " \n"}, "'ann' is empty"),
        (["ann"], {"agent_name": "ann"}, "Missing required parameter: instruction"),
        (["ann"], {"agent_name": "ann", "instruction": {"a": 1}}, "instruction"),
    ],
)
async def test_004_6_what_can_not_be_routed_is_an_error(
    agents: Any, params: dict[str, Any], said: str
) -> None:
    toolkit = AgentToolkit("lead")
    toolkit.add_tool(CallSubagentTool(agents=agents))

    for result in (
        await CallSubagentTool(agents=agents)(**params),
        await toolkit.execute_tool("call_subagent", params),
    ):
        assert (result.success, result.data) == (False, None)
        assert said in (result.error or "")


async def test_004_6_the_agents_of_a_registry_are_valid() -> None:
    registry = ToolRegistry()
    registry.register_tool_to_library(CallSubagentTool())
    lead = registry.create_agent_toolkit("lead", ["call_subagent"])
    assert not (await lead.execute_tool("call_subagent", ROUTED)).success

    registry.create_agent_toolkit("ann", [])

    assert await lead.execute_tool("call_subagent", ROUTED) == ToolResult(True, data=ROUTED)


class Team:
    """A lead that calls a subagent by its name, on one toolbox."""

    def __init__(self, store: str | None, lead: list[Any], ann: list[Any]) -> None:
        self.ran: list[str] = []
        self.ann = Agent(ScriptedModel(ann), name="ann", tool_strategy="native")
        self.ann.toolbox.add(self.buy, permission="confirm", tags=[self.ann.tag])
        self.box = Toolbox(store=store)
        registry = ToolRegistry(self.box)
        registry.register_tool_to_library(CallSubagentTool(agents={"ann": self.ann}))
        self.model = ScriptedModel(lead)
        self.lead = Agent(self.model, name="lead", tool_strategy="xml", toolbox=self.box)
        self.lead.use_tools("call_subagent")

    async def buy(self, thing: str) -> str:
        """Buy a thing."""
        self.ran.append(thing)
        return f"bought {thing}"


CALL = (
    "<tool_call><name>call_subagent</name><params><agent_name>ann</agent_name>"
    "<instruction><![CDATA[Find tea.]]></instruction></params></tool_call>"
)
UNKNOWN = CALL.replace("ann", "eve")


@pytest.fixture
async def teams(tmp_path: Path) -> AsyncIterator[Any]:
    """Makes teams on one store; their toolboxes are closed at the end."""
    made: list[Team] = []

    def make(lead: list[Any], ann: list[Any]) -> Team:
        made.append(Team(f"sqlite:///{tmp_path}/team.db", lead, ann))
        return made[-1]

    yield make
    for team in made:
        await team.box.close()


async def test_004_6_the_agent_loop_routes_to_the_subagent_and_brings_its_answer_back(
    teams: Any,
) -> None:
    team = teams([UNKNOWN, CALL, "Tea it is."], ["Green tea."])

    assert await team.lead.input("What to drink?").async_start() == "Tea it is."

    assert "Unknown agent: 'eve'" in team.model.requests[1].last
    assert "Green tea." in team.model.requests[2].last
    model = team.ann.model
    assert isinstance(model, ScriptedModel) and model.requests[0].last == "Find tea."
    runs = {run.agent: run for run in await team.box.store.runs.list()}
    assert runs["ann"].parent == runs["lead"].id


async def test_004_6_a_subagent_that_fails_is_an_error_that_names_it(teams: Any) -> None:
    team = teams([CALL, "No tea."], [RuntimeError("out of tea")])

    assert await team.lead.input("What to drink?").async_start() == "No tea."
    assert "Agent 'ann' failed: out of tea" in team.model.requests[1].last


async def test_004_6_a_subagent_may_pause_and_go_on_in_another_process(teams: Any) -> None:
    first = teams([CALL], [Call("buy", {"thing": "tea"})])
    with pytest.raises(RunInterrupted) as caught:
        await first.lead.input("Shop.").async_start()
    [waiting] = caught.value.pending
    second = teams(["Done."], ["Bought."])

    answer = await second.lead.async_resume(caught.value.run_id, {waiting.id: {"approved": True}})

    assert (answer, first.ran, second.ran) == ("Done.", [], ["tea"])


async def test_an_agent_with_another_toolbox_is_refused() -> None:
    ann = Agent(ScriptedModel([]), name="ann", toolbox=Toolbox())
    with pytest.raises(ValueError, match="another toolbox"):
        ToolRegistry().register_tool_to_library(CallSubagentTool(agents={"ann": ann}))
