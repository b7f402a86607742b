"""One toolbox and all four dialects: each tool from each side, with the caller's own habits."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.dialects.conftest import make_stall
from wieldy import Outcome, Secret, Status, Toolbox
from wieldy.dialects.agently import AgentlyToolManager
from wieldy.dialects.agentscope import TextBlock, Toolkit, ToolResponse, ToolUseBlock
from wieldy.dialects.artifactflow import (
    AgentToolkit,
    BaseTool,
    ToolParameter,
    ToolPermission,
    ToolRegistry,
    ToolResult,
)
from wieldy.dialects.sage import MCPRegistry

NAMES = ("agently", "agentscope", "sage", "artifactflow", "plain", "mcp")


class Double:
    """SAGE's tool object."""

    name = "sage"
    description = "Double a number."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }

    def call(self, arguments: dict[str, Any]) -> int:
        return doubled(arguments["n"])


class DoubleTool(BaseTool):
    """ArtifactFlow's tool class."""

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter("n", "integer", "the number")]

    async def execute(self, n: int) -> ToolResult:
        return ToolResult(True, data=doubled(n))


def doubled(n: int) -> int:
    """Double a number."""
    if n < 0:
        raise ValueError("it is negative")
    return n * 2


async def responding(n: int) -> ToolResponse:
    """Double a number."""
    return ToolResponse([TextBlock(type="text", text=str(doubled(n)))])


class Everybody:
    """Four dialects over one toolbox, and what their users see of a call."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.box = Toolbox(observers=[self.outcomes.append])
        self.agently = AgentlyToolManager(toolbox=self.box)
        self.agentscope = Toolkit(toolbox=self.box)
        self.sage = MCPRegistry(validate=True, toolbox=self.box)
        self.library = ToolRegistry(toolbox=self.box)

    async def register(self) -> None:
        kwargs = {"n": (int, "the number")}
        self.agently.register("agently", "Double a number.", kwargs, doubled)
        responding.__name__ = "agentscope"
        self.agentscope.register_tool_function(responding)
        self.sage.register(Double())
        self.library.register_tool_to_library(DoubleTool("artifactflow", "Double a number."))
        self.box.add(doubled, name="plain")
        server = make_stall()
        server.add_tool(doubled, name="mcp", structured_output=False)
        await self.box.add_mcp(server, allow="mcp")

    @property
    def artifactflow(self) -> AgentToolkit:
        return self.library.create_agent_toolkit("agent", NAMES)

    async def by_agently(self, name: str, arguments: Any) -> Any:
        return await self.agently.async_call_tool(name, arguments)

    async def by_agentscope(self, name: str, arguments: Any) -> Any:
        block = ToolUseBlock(type="tool_use", id="1", name=name, input=arguments)
        chunks = [chunk async for chunk in await self.agentscope.call_tool_function(block)]
        assert chunks[-1].is_last
        return "".join(str(item.get("text")) for item in chunks[-1].content)

    async def by_sage(self, name: str, arguments: Any) -> Any:
        return await self.sage.acall(name, arguments)

    async def by_artifactflow(self, name: str, arguments: Any) -> ToolResult:
        return await self.artifactflow.execute_tool(name, arguments)


@pytest.fixture
async def all_four() -> AsyncIterator[Everybody]:
    everybody = Everybody()
    await everybody.register()
    async with everybody.box:
        yield everybody


def plain(value: Any) -> str:
    """What a value says, whoever wraps it."""
    if isinstance(value, ToolResult):
        value = value.data
    if isinstance(value, ToolResponse):
        value = value.content[0].get("text")
    return str(value)


@pytest.mark.parametrize("name", NAMES)
async def test_every_tool_is_called_from_every_dialect(all_four: Everybody, name: str) -> None:
    sent = {"n": 21}

    assert plain(await all_four.by_agently(name, sent)) == "42"
    assert await all_four.by_agentscope(name, sent) == "42"
    assert plain(await all_four.by_sage(name, sent)) == "42"
    result = await all_four.by_artifactflow(name, sent)
    assert (result.success, plain(result)) == (True, "42")
    assert [outcome.status for outcome in all_four.outcomes] == [Status.OK] * len(all_four.outcomes)


@pytest.mark.parametrize("name", NAMES)
async def test_a_failing_tool_fails_in_the_callers_own_way(all_four: Everybody, name: str) -> None:
    sent = {"n": -1}
    said = "Error executing tool mcp" if name == "mcp" else "it is negative"

    told = await all_four.by_agently(name, sent)
    assert told == ({"error": said} if name == "mcp" else f"Error: {said}")
    assert await all_four.by_agentscope(name, sent) == f"Error: {said}"
    with pytest.raises(Exception, match=said) as raised:
        await all_four.by_sage(name, sent)
    assert isinstance(raised.value, ValueError) or name == "mcp"
    result = await all_four.by_artifactflow(name, sent)
    assert (result.success, result.error) == (False, f"Tool execution failed: {said}")
    assert {outcome.status for outcome in all_four.outcomes} == {Status.ERROR}


@pytest.mark.parametrize("name", [each for each in NAMES if each != "agently"])
async def test_wrong_arguments_are_told_in_the_callers_own_way(
    all_four: Everybody, name: str
) -> None:
    sent = {"n": "many"}

    told = await all_four.by_agently(name, sent)
    assert "n: expected integer" in (told["error"] if name == "mcp" else told)
    assert (await all_four.by_agentscope(name, sent)).startswith("Error: Invalid arguments")
    with pytest.raises(ValueError, match="n: expected integer"):
        await all_four.by_sage(name, sent)
    result = await all_four.by_artifactflow(name, sent)
    assert not result.success
    assert "n: expected integer" in str(result.error)


async def test_a_missing_tool_is_told_in_the_callers_own_way(all_four: Everybody) -> None:
    assert await all_four.by_agently("none", {}) == "Can not find tool named 'none'"
    assert (await all_four.by_agentscope("none", {})).startswith("FunctionNotFoundError: ")
    with pytest.raises(KeyError):
        await all_four.by_sage("none", {})
    result = await all_four.by_artifactflow("none", {})
    assert result.error == "Tool 'none' not available in agent's toolkit"


@pytest.mark.parametrize("name", NAMES)
async def test_a_denied_tool_runs_for_nobody(all_four: Everybody, name: str) -> None:
    toolkit = all_four.artifactflow
    all_four.box.rules.deny(name)
    sent = {"n": 21}

    assert str(await all_four.by_agently(name, sent)).startswith("Error: ")
    assert (await all_four.by_agentscope(name, sent)).startswith("Error: ")
    with pytest.raises(PermissionError):
        await all_four.by_sage(name, sent)
    result = await toolkit.execute_tool(name, sent)
    assert not result.success
    assert {outcome.status for outcome in all_four.outcomes} == {Status.DENIED}


@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_that_asks_first_waits_whoever_calls(all_four: Everybody, name: str) -> None:
    toolkit = all_four.artifactflow
    all_four.box.rules.ask(name)
    sent = {"n": 21}

    assert "waits for approval" in await all_four.by_agently(name, sent)
    assert "waits for approval" in await all_four.by_agentscope(name, sent)
    with pytest.raises(PermissionError, match="waits for approval"):
        await all_four.by_sage(name, sent)
    result = await toolkit.execute_tool(name, sent)
    waiting = await all_four.box.pending()
    assert [parked.tool for parked in waiting] == [name] * 4
    assert result.metadata["interrupt"]["tool_name"] == name

    answer = {"type": "permission", "approved": True}
    resumed = [await toolkit.resume(parked.id, answer) for parked in waiting]

    assert [plain(each) for each in resumed] == ["42"] * 4


async def test_permission_declared_in_one_dialect_holds_in_all(all_four: Everybody) -> None:
    tool = DoubleTool("careful", "Ask first.", permission=ToolPermission.CONFIRM)
    all_four.library.register_tool_to_library(tool)

    assert "waits for approval" in await all_four.by_agently("careful", {"n": 1})
    assert "waits for approval" in await all_four.by_agentscope("careful", {"n": 1})
    with pytest.raises(PermissionError):
        await all_four.by_sage("careful", {"n": 1})


async def test_a_permission_raised_in_the_toolbox_is_not_lowered_by_a_toolkit(
    all_four: Everybody,
) -> None:
    toolkit = all_four.library.create_agent_toolkit("agent", ["artifactflow"])
    known = all_four.box.get("artifactflow")
    assert known is not None
    all_four.box.add(known.replace(permission="confirm", tags=["kept"]), on_conflict="override")

    result = await toolkit.execute_tool("artifactflow", {"n": 1})

    assert "pending" in result.metadata
    assert all_four.agently.tag_mappings["kept"] == {"artifactflow"}
    tool = toolkit.get_tool("artifactflow")
    assert tool is not None
    tool.description = "Twice as much."
    await toolkit.execute_tool("artifactflow", {"n": 1})
    assert all_four.agently.tag_mappings["kept"] == {"artifactflow"}
    assert all_four.sage.describe()["artifactflow"]["description"] == "Twice as much."


@pytest.mark.parametrize("name", NAMES)
async def test_a_group_that_is_off_is_off_for_everybody(all_four: Everybody, name: str) -> None:
    toolkit = all_four.artifactflow
    all_four.agentscope.create_tool_group("extra", "More.", active=True)
    known = all_four.box.get(name)
    assert known is not None
    all_four.box.add(known.replace(group="extra"), on_conflict="override")
    assert plain(await toolkit.execute_tool(name, {"n": 21})) == "42"

    all_four.agentscope.update_tool_groups("extra", False)

    sent = {"n": 21}
    assert await all_four.by_agently(name, sent) == f"Can not find tool named '{name}'"
    assert (await all_four.by_agentscope(name, sent)).startswith("FunctionInactiveError: ")
    with pytest.raises(KeyError):
        await all_four.by_sage(name, sent)
    assert not (await toolkit.execute_tool(name, sent)).success
    assert name not in all_four.agently.get_tool_info()
    assert name not in all_four.sage.describe()

    all_four.agentscope.update_tool_groups("extra", True)
    assert plain(await toolkit.execute_tool(name, sent)) == "42"


async def test_tags_given_in_one_dialect_select_everywhere(all_four: Everybody) -> None:
    all_four.agently.tag(list(NAMES), "numbers")

    assert list(all_four.agently.get_tool_info("numbers")) == list(NAMES)
    assert sorted(all_four.box.view(tags={"numbers"}).names) == sorted(NAMES)
    for name in NAMES:
        assert await all_four.by_agentscope(name, {"n": 21}) == "42"
        assert plain(await all_four.by_artifactflow(name, {"n": 21})) == "42"


async def test_every_dialect_describes_every_tool(all_four: Everybody) -> None:
    assert set(all_four.agently.get_tool_info()) == set(NAMES)
    schemas = all_four.agentscope.get_json_schemas()
    assert {schema["function"]["name"] for schema in schemas} == set(NAMES)
    assert all("n" in schema["function"]["parameters"]["properties"] for schema in schemas)
    assert set(all_four.sage.describe()) == set(NAMES)
    tools = all_four.artifactflow.list_tools()
    assert {tool.name for tool in tools} == set(NAMES)
    assert {parameter.name for tool in tools for parameter in tool.get_parameters()} == {"n"}


async def test_a_name_that_changes_hands_belongs_to_the_last(all_four: Everybody) -> None:
    def louder(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
        return ToolResponse([TextBlock(type="text", text="LOUD")])

    async def say() -> ToolResponse:
        return ToolResponse([TextBlock(type="text", text="first")])

    all_four.agentscope.register_tool_function(say, postprocess_func=louder)
    assert await all_four.by_agentscope("say", {}) == "LOUD"

    all_four.agently.register("say", None, None, lambda: "second")

    assert await all_four.by_agentscope("say", {}) == "second"
    assert await all_four.by_sage("say", {}) == "second"


async def test_a_secret_in_an_error_is_covered_in_every_dialect(all_four: Everybody) -> None:
    def leak(key: str) -> str:
        raise ValueError(f"{key} is wrong")

    all_four.box.add(leak, presets={"key": Secret("hunter2hunter2")})
    toolkit = all_four.library.create_agent_toolkit("agent", ["leak"])
    with pytest.raises(Exception, match="is wrong") as raised:
        await all_four.by_sage("leak", {})

    told = [
        await all_four.by_agently("leak", {}),
        await all_four.by_agentscope("leak", {}),
        str(raised.value),
        str((await toolkit.execute_tool("leak", {})).error),
    ]

    assert all("is wrong" in said for said in told)
    assert not any("hunter2" in said for said in told)


async def test_calls_from_all_dialects_at_once_are_not_mixed_up(all_four: Everybody) -> None:
    toolkit = all_four.artifactflow
    heard: list[str] = []
    toolkit.on_event(lambda event, data: heard.append(event))

    async def once(number: int) -> list[str]:
        sent, name = {"n": number}, NAMES[number % len(NAMES)]
        found = await asyncio.gather(
            all_four.by_agently(name, sent),
            all_four.by_agentscope(name, sent),
            all_four.by_sage(name, sent),
            toolkit.execute_tool(name, sent),
        )
        return [plain(each) for each in found]

    answers = await asyncio.gather(*(once(number) for number in range(60)))

    assert answers == [[str(number * 2)] * 4 for number in range(60)]
    assert sorted(heard) == ["tool_complete"] * 60 + ["tool_start"] * 60


async def test_what_was_parked_by_one_is_resumed_by_another_after_a_restart(
    tmp_path: Path,
) -> None:
    store = f"sqlite:///{tmp_path / 'wieldy.db'}"

    def opened() -> tuple[Toolbox, AgentToolkit]:
        box = Toolbox(store=store)
        AgentlyToolManager(toolbox=box).register("agently", None, {"n": (int, "")}, doubled)
        box.rules.ask("agently")
        return box, ToolRegistry(toolbox=box).create_agent_toolkit("agent", ["agently"])

    box, _ = opened()
    async with box:
        said = await AgentlyToolManager(toolbox=box).async_call_tool("agently", {"n": 21})
        assert "waits for approval" in said
    box, toolkit = opened()
    async with box:
        (parked,) = await box.pending()
        result = await toolkit.resume(parked.id, {"approved": True})

    assert result.data == 42
