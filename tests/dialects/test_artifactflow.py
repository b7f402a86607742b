"""The contract of document 004, point by point."""

import asyncio
import copy
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import wieldy.dialects.artifactflow as artifactflow
from wieldy import AlreadyDecided, CallNotFound, Limits, Outcome, Toolbox
from wieldy.dialects.artifactflow import (
    AgentToolkit,
    ArtifactManager,
    BaseTool,
    ToolCall,
    ToolParameter,
    ToolPermission,
    ToolPromptGenerator,
    ToolRegistry,
    ToolResult,
    XMLToolCallParser,
    create_artifact_tools,
    parse_tool_calls,
)
from wieldy.wire.prompt import parse_result
from wieldy.wire.text import TextCallParser

Events = list[tuple[str, dict[str, Any]]]


class WebSearchTool(BaseTool):
    """The document's own example."""

    def __init__(self, permission: ToolPermission = ToolPermission.AUTO) -> None:
        super().__init__(
            name="web_search", description="Search the web.", permission=permission, key="k"
        )
        self.ran: list[dict[str, Any]] = []

    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter(name="query", type="string", description="what", required=True),
            ToolParameter(
                name="max_results",
                type="integer",
                description="how many",
                required=False,
                default=10,
            ),
            ToolParameter("deep", "boolean", "whether", required=False),
        ]

    async def execute(self, query: str, max_results: int = 10, **kwargs: Any) -> ToolResult:
        self.ran.append({"query": query, "max_results": max_results, **kwargs})
        if query == "fail":
            return ToolResult(success=False, error="nothing found", metadata={"code": 404})
        if query == "raise":
            raise ValueError("broken")
        return ToolResult(success=True, data=[query] * max_results, metadata={"cost": 1})


def toolkit_of(tool: BaseTool, toolbox: Toolbox | None = None) -> tuple[AgentToolkit, Events]:
    toolkit = AgentToolkit("lead", toolbox)
    toolkit.add_tool(tool)
    heard: Events = []
    toolkit.on_event(lambda event, data: heard.append((event, data)))
    return toolkit, heard


def named(events: Events) -> list[str]:
    return [event for event, _ in events]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (BaseTool.__init__, "self name description permission kwargs"),
        (BaseTool.get_parameters, "self"),
        (BaseTool.execute, "self params"),
        (BaseTool.validate_params, "self params"),
        (BaseTool.__call__, "self params"),
        (ToolRegistry.__init__, "self toolbox"),
        (ToolRegistry.register_tool_to_library, "self tool"),
        (ToolRegistry.create_agent_toolkit, "self agent_name tool_names"),
        (ToolRegistry.get_agent_toolkit, "self agent_name"),
        (AgentToolkit.__init__, "self agent_name toolbox"),
        (AgentToolkit.add_tool, "self tool"),
        (AgentToolkit.add_tools, "self tools"),
        (AgentToolkit.get_tool, "self name"),
        (AgentToolkit.list_tools, "self"),
        (AgentToolkit.execute_tool, "self name params"),
        (AgentToolkit.on_event, "self callback"),
        (AgentToolkit.resume, "self call_id answer"),
        (XMLToolCallParser.parse_tool_calls, "text tools"),
        (parse_tool_calls, "text tools"),
        (ToolPromptGenerator.generate_tool_instruction, "tools"),
        (ToolPromptGenerator.format_tool_result, "name result"),
    ],
)
def test_parameters_have_the_names_of_the_contract(
    function: Callable[..., Any], names: str
) -> None:
    assert list(inspect.signature(function).parameters) == names.split()


def test_exports_are_listed_and_sorted() -> None:
    assert artifactflow.__all__ == sorted(artifactflow.__all__)
    assert all(hasattr(artifactflow, name) for name in artifactflow.__all__)


# 004.1


def test_004_1_dataclasses_are_as_documented() -> None:
    assert {member.name: member.value for member in ToolPermission} == {
        "AUTO": "auto",
        "CONFIRM": "confirm",
    }
    assert [field.name for field in fields(ToolParameter)] == [
        "name", "type", "description", "required", "default",
    ]  # fmt: skip
    assert [field.name for field in fields(ToolResult)] == ["success", "data", "error", "metadata"]
    assert ToolParameter("q", "string", "what").to_dict() == {
        "name": "q", "type": "string", "description": "what", "required": True, "default": None,
    }  # fmt: skip
    assert ToolResult(True, data=[1]).to_dict() == {
        "success": True, "data": [1], "error": None, "metadata": {},
    }  # fmt: skip
    tool = WebSearchTool()
    assert (tool.name, tool.permission, tool.config) == (
        "web_search",
        ToolPermission.AUTO,
        {"key": "k"},
    )


def test_004_1_a_tool_must_say_what_it_takes_and_does() -> None:
    class Half(BaseTool):
        def get_parameters(self) -> list[ToolParameter]:
            return []

    with pytest.raises(TypeError):
        Half("half", "")  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("params", "result"),
    [
        ({"query": "x", "max_results": 1}, ToolResult(True, data=["x"], metadata={"cost": 1})),
        ({}, ToolResult(False, error="Missing required parameter: query")),
        ({"query": "x", "page": 1}, ToolResult(False, error="Unknown parameter: page")),
        ({"page": 1}, ToolResult(False, error="Missing required parameter: query")),
        ({"query": "fail"}, ToolResult(False, error="nothing found", metadata={"code": 404})),
        ({"query": "raise"}, ToolResult(False, error="Tool execution failed: broken")),
    ],
)
async def test_004_1_calling_a_tool(params: dict[str, Any], result: ToolResult) -> None:
    assert await WebSearchTool()(**params) == result
    toolkit, _ = toolkit_of(WebSearchTool())
    assert await toolkit.execute_tool("web_search", params) == result


async def test_004_1_defaults_and_types() -> None:
    tool = WebSearchTool()
    await tool(query="a")
    await tool(query="b", max_results="3", deep="true")
    assert tool.ran == [
        {"query": "a", "max_results": 10},
        {"query": "b", "max_results": 3, "deep": True},
    ]
    wrong = await tool(query="c", max_results="many")
    assert not wrong.success
    assert wrong.error is not None
    assert "max_results" in wrong.error
    assert (await tool(query=5)).success is False, "text is never made of something else"
    assert len(tool.ran) == 2


async def test_004_1_validation_can_be_overridden() -> None:
    class Picky(WebSearchTool):
        def validate_params(self, params: dict[str, Any]) -> str | None:
            return "no" if params.get("query") == "bad" else None

    assert (await Picky()(query="bad")).error == "no"
    toolkit, _ = toolkit_of(Picky())
    assert (await toolkit.execute_tool("web_search", {"query": "bad"})).error == "no"


async def test_004_1_a_plain_value_becomes_a_result() -> None:
    class Plain(WebSearchTool):
        async def execute(self, *args: Any, **params: Any) -> Any:
            return {"a": 1}

    assert await Plain()(query="x") == ToolResult(True, data={"a": 1})


# 004.2


async def test_004_2_registry_and_toolkits(caplog: pytest.LogCaptureFixture) -> None:
    registry = ToolRegistry()
    tool = WebSearchTool()
    registry.register_tool_to_library(tool)
    assert registry.tool_library == {"web_search": tool}
    with caplog.at_level(logging.WARNING, logger="wieldy"):
        toolkit = registry.create_agent_toolkit("search", ["web_search", "nope"])
    assert "nope" in caplog.text
    assert registry.agent_toolkits == {"search": toolkit}
    assert registry.get_agent_toolkit("search") is toolkit
    assert registry.get_agent_toolkit("other") is None
    assert toolkit.list_tools() == [tool]
    assert toolkit.get_tool("web_search") is tool
    assert toolkit.get_tool("nope") is None
    assert toolkit.tools == {"web_search": tool}
    empty = registry.create_agent_toolkit("crawl")
    assert empty.list_tools() == []
    missing = await empty.execute_tool("web_search", {"query": "x"})
    assert missing == ToolResult(False, error="Tool 'web_search' not available in crawl's toolkit")
    assert tool.ran == []


async def test_004_2_tools_are_added_one_or_many_and_replaced() -> None:
    first, second = WebSearchTool(), WebSearchTool()
    toolkit = AgentToolkit("lead")
    toolkit.add_tools([first, second])
    assert toolkit.list_tools() == [second]
    await toolkit.execute_tool("web_search", {"query": "x"})
    assert (len(first.ran), len(second.ran)) == (0, 1)


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("web_search", None, "Missing required parameter: query"),
        ("web_search", [1], "Missing required parameter: query"),
        ("web_search", "text", "Missing required parameter: query"),
        ("web_search", {1: 2}, "Missing required parameter: query"),
        ("web_search", {"query": "x", "size": 1}, "Unknown parameter: size"),
        ("web_search", {"query": ["x"]}, "query: expected string"),
        ("web_search", {"query": "x", "max_results": "many"}, "max_results: expected integer"),
        (None, {}, "Tool 'None' not available in lead's toolkit"),
        (7, {}, "Tool '7' not available in lead's toolkit"),
    ],
)
async def test_004_2_wrong_calls_are_results_and_never_run(
    name: Any, params: Any, said: str
) -> None:
    tool = WebSearchTool()
    toolkit, _ = toolkit_of(tool)

    result = await toolkit.execute_tool(name, params)

    assert not result.success
    assert str(result.error).startswith(said)
    assert tool.ran == []


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: AgentToolkit("lead").add_tool(3), TypeError),  # type: ignore[arg-type]
        (lambda: AgentToolkit("lead").add_tools([WebSearchTool]), TypeError),  # type: ignore[list-item]
        (lambda: ToolRegistry().register_tool_to_library("x"), TypeError),  # type: ignore[arg-type]
        (lambda: parse_tool_calls(None), TypeError),  # type: ignore[arg-type]
    ],
)
def test_004_2_what_is_no_tool_is_refused(wrong: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()


def test_004_2_one_name_is_one_name() -> None:
    registry = ToolRegistry()
    registry.register_tool_to_library(WebSearchTool())

    assert list(registry.create_agent_toolkit("lead", "web_search").tools) == ["web_search"]


async def test_004_2_what_the_engine_makes_of_a_result_counts() -> None:
    box = Toolbox()
    toolkit, _ = toolkit_of(WebSearchTool(), box)

    def changed(**facts: Any) -> None:
        known = box.get("web_search")
        assert known is not None
        box.add(known.replace(**facts), on_conflict="override")

    sent = {"query": "x", "max_results": 1}
    own = await toolkit.execute_tool("web_search", sent)
    assert (own.data, own.metadata) == (["x"], {"cost": 1})
    changed(postprocess=lambda value: [*value, "and more"])
    assert (await toolkit.execute_tool("web_search", sent)).data == ["x", "and more"]

    def break_it(value: Any) -> Any:
        raise OSError("no")

    changed(postprocess=break_it)
    assert not (await toolkit.execute_tool("web_search", sent)).success


async def test_004_2_a_tool_that_is_tried_again_gives_its_last_result() -> None:
    class Flaky(WebSearchTool):
        async def execute(self, query: str, max_results: int = 10, **kwargs: Any) -> ToolResult:
            self.ran.append({})
            if len(self.ran) == 1:
                raise ConnectionError("not yet")
            return ToolResult(True, data="there", metadata={"try": len(self.ran)})

    box = Toolbox()
    toolkit, heard = toolkit_of(Flaky(), box)
    known = box.get("web_search")
    assert known is not None
    box.add(known.replace(limits=Limits(retries=1, retry_unsafe=True)), on_conflict="override")

    result = await toolkit.execute_tool("web_search", {"query": "x"})

    assert (result.data, result.metadata) == ("there", {"try": 2})
    assert named(heard) == ["tool_start", "tool_complete"]


# 004.3


async def test_004_3_an_auto_tool_runs() -> None:
    toolkit, heard = toolkit_of(WebSearchTool())
    result = await toolkit.execute_tool("web_search", {"query": "x", "max_results": 1})
    assert result.data == ["x"]
    assert named(heard) == ["tool_start", "tool_complete"]
    complete = heard[1][1]
    assert complete == {"success": True, "duration_ms": complete["duration_ms"], "error": None}
    assert complete["duration_ms"] >= 0


async def test_004_3_a_failing_tool_completes_with_its_error() -> None:
    toolkit, heard = toolkit_of(WebSearchTool())
    for params in ({"query": "fail"}, {}):
        await toolkit.execute_tool("web_search", params)
    assert named(heard) == ["tool_start", "tool_complete"] * 2
    assert [data["error"] for event, data in heard if event == "tool_complete"] == [
        "nothing found",
        "Missing required parameter: query",
    ]


async def test_004_3_confirmation_interrupts_and_resumes() -> None:
    tool = WebSearchTool(ToolPermission.CONFIRM)
    toolkit, heard = toolkit_of(tool)
    params = {"query": "x", "max_results": 1}

    paused = await toolkit.execute_tool("web_search", params)

    call_id = paused.metadata["pending"]
    assert not paused.success
    assert paused.error is not None
    assert call_id in paused.error
    assert heard == [("permission_request", {"permission_level": "confirm", "params": params})]
    payload = paused.metadata["interrupt"]
    assert payload == {
        "type": "tool_permission",
        "agent": "lead",
        "tool_name": "web_search",
        "params": params,
        "permission_level": "confirm",
        "message": payload["message"],
    }
    assert tool.ran == []

    result = await toolkit.resume(call_id, {"type": "permission", "approved": True})

    assert result == ToolResult(True, data=["x"], metadata={"cost": 1})
    assert named(heard) == [
        "permission_request",
        "permission_result",
        "tool_start",
        "tool_complete",
    ]
    assert heard[1][1] == {"approved": True}
    assert len(tool.ran) == 1
    again = await toolkit.resume(call_id, {"type": "permission", "approved": True})
    assert (again.success, again.data) == (True, ["x"])
    assert len(tool.ran) == 1, "approved twice, run once"
    assert len(heard) == 4


@pytest.mark.parametrize(
    "answer", [{"type": "permission", "approved": False}, {"type": "permission"}, {}, None]
)
async def test_004_3_a_refused_call_never_runs(answer: Any) -> None:
    tool = WebSearchTool(ToolPermission.CONFIRM)
    toolkit, heard = toolkit_of(tool)
    paused = await toolkit.execute_tool("web_search", {"query": "x"})
    result = await toolkit.resume(paused.metadata["pending"], answer)
    assert not result.success
    assert result.error is not None
    assert "denied" in result.error
    assert named(heard) == ["permission_request", "permission_result"]
    assert heard[1][1] == {"approved": False}
    assert tool.ran == []
    with pytest.raises(AlreadyDecided):
        await toolkit.resume(paused.metadata["pending"], {"approved": True})


async def test_004_3_many_confirmations_and_unknown_ids() -> None:
    tool = WebSearchTool(ToolPermission.CONFIRM)
    toolkit, heard = toolkit_of(tool)
    paused = [await toolkit.execute_tool("web_search", {"query": str(n)}) for n in range(5)]
    for each in reversed(paused):
        assert (await toolkit.resume(each.metadata["pending"], {"approved": True})).success
    assert [ran["query"] for ran in tool.ran] == ["4", "3", "2", "1", "0"]
    assert named(heard).count("tool_start") == 5
    with pytest.raises(CallNotFound):
        await toolkit.resume("nope", {"approved": True})


async def test_004_3_callbacks_may_be_async_and_calls_inside_calls_are_not_mixed_up() -> None:
    class Outer(WebSearchTool):
        def __init__(self) -> None:
            super().__init__()
            self.name = "outer"

        async def execute(self, query: str, *args: Any, **kwargs: Any) -> ToolResult:
            inner = await toolkit.toolbox.call("web_search", {"query": query, "max_results": 1})
            return ToolResult(True, data={"inner": inner.value})

    toolkit = AgentToolkit("lead")
    toolkit.add_tools([WebSearchTool(), Outer()])
    heard: list[str] = []

    @toolkit.on_event
    async def hear(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        heard.append(event)

    result = await toolkit.execute_tool("outer", {"query": "x"})
    assert result.data == {"inner": ["x"]}
    assert heard == ["tool_start", "tool_complete"]


async def test_004_3_the_start_is_told_when_the_function_is_entered_whoever_wrote_the_tool() -> (
    None
):
    box = Toolbox()
    heard_start = asyncio.Event()
    entered: list[str] = []

    async def note(text: str) -> str:
        # The permission has been given, and the listener has heard that the tool starts.
        assert heard_start.is_set()
        entered.append(text)
        return text

    box.add(note, permission="confirm")
    toolkit = ToolRegistry(box).create_agent_toolkit("lead", ["note"])
    heard: list[str] = []

    @toolkit.on_event
    def hear(event: str, data: dict[str, Any]) -> None:
        heard.append(event)
        if event == "tool_start":
            assert entered == []
            heard_start.set()

    paused = await toolkit.execute_tool("note", {"text": "hi"})
    result = await toolkit.resume(paused.metadata["pending"], {"approved": True})

    assert (result.success, entered) == (True, ["hi"])
    assert heard == ["permission_request", "permission_result", "tool_start", "tool_complete"]


async def test_004_3_a_permission_raised_later_holds() -> None:
    tool = WebSearchTool()
    toolkit, _ = toolkit_of(tool)
    await toolkit.execute_tool("web_search", {"query": "x"})
    tool.permission = ToolPermission.CONFIRM
    assert "pending" in (await toolkit.execute_tool("web_search", {"query": "x"})).metadata
    assert len(tool.ran) == 1


async def test_004_3_a_pause_survives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Toolbox(store=url) as box:
        toolkit, _ = toolkit_of(WebSearchTool(ToolPermission.CONFIRM), box)
        paused = await toolkit.execute_tool("web_search", {"query": "x", "max_results": 2})
    async with Toolbox(store=url) as box:
        tool = WebSearchTool(ToolPermission.CONFIRM)
        toolkit, heard = toolkit_of(tool, box)
        result = await toolkit.resume(paused.metadata["pending"], {"approved": True, "by": "ann"})
        assert result == ToolResult(True, data=["x", "x"], metadata={"cost": 1})
        assert named(heard) == ["permission_result", "tool_start", "tool_complete"]
        assert len(tool.ran) == 1


async def test_004_3_resume_runs_the_toolkits_own_object() -> None:
    registry = ToolRegistry()
    mine, others = WebSearchTool(ToolPermission.CONFIRM), WebSearchTool(ToolPermission.CONFIRM)
    registry.register_tool_to_library(mine)
    toolkit = registry.create_agent_toolkit("lead", ["web_search"])
    paused = await toolkit.execute_tool("web_search", {"query": "x"})
    registry.create_agent_toolkit("other").add_tool(others)

    result = await toolkit.resume(paused.metadata["pending"], {"approved": True})

    assert result.success
    assert (len(mine.ran), len(others.ran)) == (1, 0)


async def test_004_3_the_own_object_runs_also_where_the_name_changes_hands_meanwhile(
    tmp_path: Path,
) -> None:
    others = WebSearchTool(ToolPermission.CONFIRM)

    async with Toolbox(store=f"sqlite:///{tmp_path}/store.db") as box:
        other = AgentToolkit("other", box)
        mine = WebSearchTool(ToolPermission.CONFIRM)
        toolkit, _ = toolkit_of(mine, box)
        paused = await toolkit.execute_tool("web_search", {"query": "x"})
        approving = asyncio.create_task(
            toolkit.resume(paused.metadata["pending"], {"approved": True})
        )
        while not approving.done():
            other.add_tool(others)
            await asyncio.sleep(0)
        assert (await approving).success
    assert (len(mine.ran), len(others.ran)) == (1, 0)


class Renamed(WebSearchTool):
    """The same tool, described in another way."""

    def __init__(self, permission: ToolPermission = ToolPermission.CONFIRM) -> None:
        super().__init__(permission)
        self.description = "Search everything."


@pytest.mark.parametrize("change", ["in place", "another object"])
async def test_004_3_a_tool_that_has_changed_is_asked_about_again(change: str) -> None:
    tool = WebSearchTool(ToolPermission.CONFIRM)
    toolkit, heard = toolkit_of(tool)
    params = {"query": "x", "max_results": 1}
    paused = await toolkit.execute_tool("web_search", params)
    if change == "in place":
        tool.description = "Search everything."
    else:
        tool = Renamed()
        toolkit.add_tool(tool)

    again = await toolkit.resume(paused.metadata["pending"], {"approved": True})

    assert not again.success
    assert tool.ran == []
    assert again.metadata["pending"] != paused.metadata["pending"]
    assert again.metadata["interrupt"] == paused.metadata["interrupt"]
    assert named(heard) == ["permission_request", "permission_request"]
    with pytest.raises(AlreadyDecided):
        await toolkit.resume(paused.metadata["pending"], {"approved": True})
    result = await toolkit.resume(again.metadata["pending"], {"approved": True})
    assert result.data == ["x"]
    assert len(tool.ran) == 1


async def test_004_3_a_call_approved_elsewhere_runs_here_when_it_is_resumed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Toolbox(store=url) as box, Toolbox(store=url) as elsewhere:
        tool = WebSearchTool(ToolPermission.CONFIRM)
        toolkit, _ = toolkit_of(tool, box)
        paused = await toolkit.execute_tool("web_search", {"query": "x", "max_results": 1})
        call_id = paused.metadata["pending"]
        await elsewhere.approve(call_id, by="ann")
        AgentToolkit("other", box).add_tool(WebSearchTool(ToolPermission.CONFIRM))

        result = await toolkit.resume(call_id, {"approved": True})

    assert result == ToolResult(True, data=["x"], metadata={"cost": 1})
    assert len(tool.ran) == 1


@pytest.mark.parametrize("kind", ["blocking", "async", "cancelled"])
async def test_004_3_a_listener_that_raises_stops_no_tool(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_later(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        raise ValueError("deaf")

    def fail(event: str, data: dict[str, Any]) -> None:
        raise asyncio.CancelledError if kind == "cancelled" else ValueError("deaf")

    tool = WebSearchTool(ToolPermission.CONFIRM)
    toolkit = AgentToolkit("lead")
    toolkit.add_tool(tool)
    toolkit.on_event(fail_later if kind == "async" else fail)
    heard: Events = []
    toolkit.on_event(lambda event, data: heard.append((event, data)))

    paused = await toolkit.execute_tool("web_search", {"query": "x", "max_results": 1})
    result = await toolkit.resume(paused.metadata["pending"], {"approved": True})
    refused = await toolkit.execute_tool("web_search", {"query": "y"})
    await toolkit.resume(refused.metadata["pending"], {"approved": False})

    assert result == ToolResult(True, data=["x"], metadata={"cost": 1})
    assert named(heard) == [
        "permission_request", "permission_result", "tool_start", "tool_complete",
        "permission_request", "permission_result",
    ]  # fmt: skip
    assert caplog.text.count("A listener failed") == 6


async def test_004_3_a_cancellation_while_a_listener_is_told_goes_on() -> None:
    toolkit, _ = toolkit_of(WebSearchTool())
    told = asyncio.Event()

    @toolkit.on_event
    async def hang(event: str, data: dict[str, Any]) -> None:
        told.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(toolkit.execute_tool("web_search", {"query": "x"}))
    await told.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# 004.4

CALL = """<tool_call>
  <name>web_search</name>
  <params>
    <query><![CDATA[Python async best practices]]></query>
    <max_results><![CDATA[10]]></max_results>
  </params>
</tool_call>"""


def test_004_4_the_call_of_the_document() -> None:
    assert parse_tool_calls(f"I look it up.\n{CALL}\nDone.") == [
        ToolCall("web_search", {"query": "Python async best practices", "max_results": 10}, CALL)
    ]
    assert XMLToolCallParser.parse_tool_calls(CALL) == parse_tool_calls(CALL)


def call_of(value: str) -> str:
    return f"<tool_call><name>t</name><params><v>{value}</v></params></tool_call>"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("true", True), ("False", False), ("123", 123), ("-5", -5), ("007", "007"),
        ("1_000", "1_000"), ("3.14", 3.14), ("1e3", 1000.0), ("inf", "inf"), ("nan", "nan"),
        ("text", "text"), (" padded ", "padded"), ("<![CDATA[ kept ]]>", " kept "), ("", ""),
        ("a & b < c", "a & b < c"), ("<![CDATA[x</tool_call>y]]>", "x</tool_call>y"),
    ],
)  # fmt: skip
def test_004_4_values_without_a_schema(written: str, read: Any) -> None:
    (call,) = parse_tool_calls(call_of(written))
    assert call.params == {"v": read}
    assert type(call.params["v"]) is type(read)


def test_004_4_the_declared_schema_wins() -> None:
    class Typed(WebSearchTool):
        def get_parameters(self) -> list[ToolParameter]:
            return [
                ToolParameter("query", "string", ""),
                ToolParameter("tags", "array", ""),
                ToolParameter("where", "object", ""),
            ]

    text = (
        "<tool_call><name>web_search</name><params><query>123</query>"
        "<tags><item>a</item><item>b</item></tags>"
        "<where><lang>en</lang></where></params></tool_call>"
    )
    (call,) = parse_tool_calls(text, [Typed()])
    assert call.params == {"query": "123", "tags": ["a", "b"], "where": {"lang": "en"}}


class Noted(BaseTool):
    """Takes a value of each kind."""

    def __init__(self, *kinds: str) -> None:
        super().__init__("note", "Note it.")
        self.kinds = kinds

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter(f"v{n}", kind, "") for n, kind in enumerate(self.kinds)]

    async def execute(self, *args: Any, **params: Any) -> ToolResult:
        return ToolResult(True, data=params)


@pytest.mark.parametrize(
    ("kind", "written", "given"),
    [
        ("string", "2024", "2024"),
        ("string", "3.10", "3.10"),
        ("string", "true", "true"),
        ("string", "False", "False"),
        ("string", "1e3", "1e3"),
        ("string", "-0", "-0"),
        ("string", "<![CDATA[2024]]>", "2024"),
        ("string", "<![CDATA[ 1.50 ]]>", " 1.50 "),
        ("string", "text", "text"),
        ("integer", "2024", 2024),
        ("integer", "007", 7),
        ("number", "3.10", 3.1),
        ("boolean", "true", True),
        ("array", "<item>a</item><item>b</item>", ["a", "b"]),
        ("array", "<item>a</item>", ["a"]),
        ("object", "<lang>en</lang>", {"lang": "en"}),
    ],
)
async def test_004_4_what_was_read_without_tools_has_the_declared_types_when_it_runs(
    kind: str, written: str, given: Any
) -> None:
    toolkit, _ = toolkit_of(Noted(kind))
    text = f"<tool_call><name>note</name><params><v0>{written}</v0></params></tool_call>"
    (call,) = parse_tool_calls(f"So: {text} and on")

    for params in (call.params, call.params.copy(), copy.deepcopy(call.params)):
        result = await toolkit.execute_tool(call.name, params)
        assert result.data == {"v0": given}
        assert type(result.data["v0"]) is type(given)
    typed = parse_tool_calls(text, [Noted(kind)])[0].params
    assert (await toolkit.execute_tool("note", typed)).data == {"v0": given}


async def test_004_4_what_a_program_changes_in_the_parameters_counts() -> None:
    toolkit, _ = toolkit_of(Noted("string", "string", "integer"))
    (call,) = parse_tool_calls(
        "<tool_call><name>note</name><params><v0>1.0</v0><v1>2.0</v1><v2>3</v2></params></tool_call>"
    )
    assert call.params == {"v0": 1.0, "v1": 2.0, "v2": 3}
    call.params["v1"] = "changed"
    call.params["v2"] = 4

    result = await toolkit.execute_tool(call.name, call.params)

    assert result.data == {"v0": "1.0", "v1": "changed", "v2": 4}
    del call.params["v2"]
    missing = await toolkit.execute_tool(call.name, call.params)
    assert missing.error == "Missing required parameter: v2"


async def test_004_4_the_types_of_other_tools_of_the_toolbox_count_too() -> None:
    box = Toolbox()

    @box.tool
    def note(years: list[str], label: str) -> list[str]:
        return [*years, label]

    toolkit = ToolRegistry(box).create_agent_toolkit("lead", ["note"])
    (call,) = parse_tool_calls(
        "<tool_call><name>note</name><params><years><item>2024</item><item>1.10</item></years>"
        "<label>007</label></params></tool_call>"
    )
    assert (await toolkit.execute_tool(call.name, call.params)).data == ["2024", "1.10", "007"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("no calls", []),
        (CALL.upper().replace("WEB_SEARCH", "web_search"), ["web_search"]),
        (f"{CALL} and {CALL}", ["web_search", "web_search"]),
        ("<tool_call><params><a>1</a></params></tool_call>", []),
        ("<tool_call><name>t</name><params><a>1</a></params>", ["t"]),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + call_of("&a;"), ["t"]),
    ],
)
def test_004_4_what_is_and_is_not_a_call(text: str, names: list[str]) -> None:
    assert [call.name for call in parse_tool_calls(text)] == names


def test_004_4_entities_are_never_expanded() -> None:
    (call,) = parse_tool_calls('<!DOCTYPE x [<!ENTITY a "boom">]>' + call_of("&a;"))
    assert call.params == {"v": "&a;"}


def test_004_4_the_streaming_form_gives_the_same_for_any_chunking() -> None:
    text = f"before {CALL} after"
    whole = parse_tool_calls(text)
    for size in (1, 2, 7, 1000):
        parser = TextCallParser("xml")
        chunks = [text[i : i + size] for i in range(0, len(text), size)]
        events = [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()
        calls = [event.call for event in events if event.call is not None]
        assert [(call.tool, call.arguments) for call in calls] == [
            (call.name, call.params) for call in whole
        ]
        assert "".join(event.text or "" for event in events) == "before  after"


# 004.5


def test_004_5_the_layout_of_the_document() -> None:
    text = ToolPromptGenerator.generate_tool_instruction([WebSearchTool()])
    assert (
        """### web_search
Description: Search the web.
Parameters:
  - query: string (required) - what
  - max_results: integer (optional) - how many
    Default: 10
  - deep: boolean (optional) - whether
Example:
<tool_call>
  <name>web_search</name>
  <params>
    <query><![CDATA["""
        in text
    )
    (example,) = parse_tool_calls(text.partition("Example:")[2], [WebSearchTool()])
    assert example.name == "web_search"
    assert example.params["max_results"] == 10
    assert ToolPromptGenerator.generate_tool_instruction([])


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(True, data={"a": [1, "<b>&", None], "not a name!": True}),
        ToolResult(False, error="it's <broken> & gone"),
        {"success": True, "data": "x ]]> y"},
    ],
)
def test_004_5_results_are_well_formed_and_parse_back(result: Any) -> None:
    text = ToolPromptGenerator.format_tool_result("web_search", result)
    assert ElementTree.fromstring(text).tag == "tool_result"
    plain = result.to_dict() if isinstance(result, ToolResult) else result
    told = {"data": plain["data"]} if plain["success"] else {"error": plain["error"]}
    assert parse_result(text) == {"name": "web_search", "success": plain["success"], **told}


# 004.8


@pytest.fixture
async def documents(tmp_path: Path) -> AsyncIterator[AgentToolkit]:
    manager = ArtifactManager(f"sqlite:///{tmp_path}/artifacts.db")
    manager.set_session("s1")
    toolkit = AgentToolkit("lead")
    toolkit.add_tools(create_artifact_tools(manager))
    created = {"id": "plan", "title": "The plan", "content": "one\ntwo\nthree\n"}
    assert (await toolkit.execute_tool("create_artifact", created)).data == {
        "id": "plan", "version": 1, "kind": "create",
    }  # fmt: skip
    yield toolkit
    await manager.close()


async def text_of(toolkit: AgentToolkit, **params: Any) -> str:
    result = await toolkit.execute_tool("read_artifact", {"id": "plan", **params})
    content: str = result.data["content"]
    return content


async def test_004_8_an_artifact_is_created_and_read(documents: AgentToolkit) -> None:
    result = await documents.execute_tool("read_artifact", {"id": "plan"})
    assert result.data == {
        "id": "plan",
        "version": 1,
        "title": "The plan",
        "content_type": "markdown",
        "content": "one\ntwo\nthree\n",
    }
    again = {"id": "plan", "title": "", "content": ""}
    assert not (await documents.execute_tool("create_artifact", again)).success
    assert not (await documents.execute_tool("read_artifact", {"id": "nope"})).success
    assert not (await documents.execute_tool("read_artifact", {"id": "plan", "version": 9})).success


async def test_004_8_every_change_is_a_version_of_its_kind(documents: AgentToolkit) -> None:
    steps = [
        ("update_artifact", {"old_str": "two", "new_str": "2"}, "update"),
        ("update_artifact", {"old_str": "onne\n2\nthre", "new_str": "1\n2\n3"}, "update_fuzzy"),
        ("rewrite_artifact", {"content": "new"}, "rewrite"),
    ]
    for tool, params, kind in steps:
        result = await documents.execute_tool(tool, {"id": "plan", **params})
        assert result.data["kind"] == kind, result
    assert [await text_of(documents, version=n) for n in (1, 2, 3, 4)] == [
        "one\ntwo\nthree\n",
        "one\n2\nthree\n",
        "1\n2\n3e\n",
        "new",
    ]
    assert await text_of(documents) == "new"


async def test_004_8_a_near_match_tells_what_it_matched(documents: AgentToolkit) -> None:
    params = {"id": "plan", "old_str": "two\nthrea", "new_str": "2\n3"}
    result = await documents.execute_tool("update_artifact", params)
    assert result.data["matched"] == "two\nthree"
    assert 0.7 <= result.data["similarity"] < 1
    assert await text_of(documents) == "one\n2\n3\n"


@pytest.mark.parametrize(
    ("old", "said"), [("", "empty"), ("e", "3"), ("something quite different", "one")]
)
async def test_004_8_what_cannot_be_replaced(documents: AgentToolkit, old: str, said: str) -> None:
    params = {"id": "plan", "old_str": old, "new_str": "x"}
    result = await documents.execute_tool("update_artifact", params)
    assert not result.success
    assert result.error is not None
    assert said in result.error
    assert await text_of(documents) == "one\ntwo\nthree\n"


async def test_004_8_sessions_are_apart_and_a_manager_needs_no_store() -> None:
    manager = ArtifactManager()
    create, read, *_ = create_artifact_tools(manager)
    for session in ("a", "b"):
        manager.set_session(session)
        assert (await create(id="x", title="", content=session)).success
    manager.set_session("a")
    assert (await read(id="x")).data["content"] == "a"
    manager.set_session("c")
    assert not (await read(id="x")).success
    await manager.close()


@pytest.mark.parametrize("stored", [False, True])
async def test_004_8_sessions_are_per_task(tmp_path: Path, stored: bool) -> None:
    manager = ArtifactManager(f"sqlite:///{tmp_path}/artifacts.db" if stored else None)
    other = ArtifactManager(f"sqlite:///{tmp_path}/other.db" if stored else None)
    toolkit = AgentToolkit("lead")
    toolkit.add_tools(create_artifact_tools(manager))
    manager.set_session("outer")
    other.set_session("another manager's")
    ready = asyncio.Barrier(3)

    async def write(session: str | None) -> tuple[Any, Any]:
        if session is not None:
            manager.set_session(session)
        await ready.wait()
        created = {"id": "x", "title": "", "content": f"by {session}"}
        assert (await toolkit.execute_tool("create_artifact", created)).success
        await ready.wait()
        read = await toolkit.execute_tool("read_artifact", {"id": "x"})
        return manager.session, read.data["content"]

    read = await asyncio.gather(write("a"), write("b"), write(None))
    assert list(read) == [("a", "by a"), ("b", "by b"), ("outer", "by None")]
    assert (manager.session, other.session) == ("outer", "another manager's")
    await manager.close()
    await other.close()


def test_004_8_a_thread_of_its_own_has_no_session() -> None:
    manager = ArtifactManager()
    manager.set_session("a")
    seen: list[str | None] = []
    thread = threading.Thread(target=lambda: seen.append(manager.session))
    thread.start()
    thread.join()
    assert seen == [None]
    asyncio.run(manager.close())


async def test_004_8_concurrent_writers_lose_nothing(documents: AgentToolkit) -> None:
    await documents.execute_tool("rewrite_artifact", {"id": "plan", "content": "-a-b-c-d-e-f-"})
    results = await asyncio.gather(
        *(
            documents.execute_tool(
                "update_artifact", {"id": "plan", "old_str": f"-{c}-", "new_str": f"-{c * 2}-"}
            )
            for c in "abcdef"
        )
    )
    text = await text_of(documents)
    for c, result in zip("abcdef", results, strict=True):
        assert (c * 2 in text) == result.success


# One toolbox, several ways in.


async def test_a_shared_toolbox_is_called_from_both_sides() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])

    @box.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    registry = ToolRegistry(box)
    registry.register_tool_to_library(WebSearchTool())
    toolkit = registry.create_agent_toolkit("lead", ["web_search", "add"])

    assert (await box.call("web_search", {"query": "x", "max_results": 1})).value == ["x"]
    failed = await box.call("web_search", {"query": "fail"})
    assert (failed.ok, "nothing found" in failed.text) == (False, True)
    assert await toolkit.execute_tool("add", {"a": 1}) == ToolResult(True, data=3)
    refused = await toolkit.execute_tool("add", {"a": "x"})
    assert not refused.success
    assert [p.to_dict() for p in toolkit.tools["add"].get_parameters()] == [
        {"name": "a", "type": "integer", "description": "", "required": True, "default": None},
        {"name": "b", "type": "integer", "description": "", "required": False, "default": 2},
    ]
    assert {outcome.call.scope.agent for outcome in heard} == {None, "lead"}
