"""The tools of one agent, called through the engine."""

from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.active_call import Extras
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import InvalidArguments, ToolFailed
from wieldy.core.permission.parked import Parked
from wieldy.core.secrets.covered_content import shown_value
from wieldy.core.tool import Permission, Tool
from wieldy.toolbox import Toolbox, own_box

from .call_subagent import CallSubagentTool
from .sent_call import Callback, SentCall, current_errand
from .tool import (
    BaseTool,
    ToolError,
    ToolParameter,
    ToolPermission,
    ToolResult,
    need_tool,
    renewed_tool,
)
from .xml import ReadParams

_OK = Status.OK


class AgentToolkit:
    """The tools that one agent may use. `on_event` hears what happens to its calls."""

    def __init__(self, agent_name: str, toolbox: Toolbox | None = None) -> None:
        self.agent_name = agent_name
        self.tools: dict[str, BaseTool] = {}
        self.toolbox = own_box() if toolbox is None else toolbox
        self._view = self.toolbox.view(agent=agent_name)
        self._callbacks: list[Callback] = []
        # How each tool was registered with the toolbox, and the resulting tool.
        self._told: dict[str, tuple[Tool | None, BaseTool, ToolPermission, str]] = {}

    def add_tool(self, tool: BaseTool) -> None:
        """Add a tool; one of the same name is replaced."""
        need_tool(tool)
        self.tools[tool.name] = tool
        if isinstance(tool, CallSubagentTool):
            tool.attach(self.toolbox)
        self._register_tool(tool)

    def add_tools(self, tools: Iterable[BaseTool]) -> None:
        """Add several tools."""
        for tool in tools:
            self.add_tool(tool)

    def get_tool(self, name: str) -> BaseTool | None:
        """The tool of this name, or None."""
        return self.tools.get(name)

    def list_tools(self) -> list[BaseTool]:
        """The tools, in the order they were added."""
        return list(self.tools.values())

    def on_event(self, callback: Callback) -> Callback:
        """Have a function called with `(event, data)`; it may be async."""
        self._callbacks.append(callback)
        return callback

    async def execute_tool(self, name: str, params: Mapping[str, Any] | None = None) -> ToolResult:
        """Run a tool. If it needs confirmation, the result names the waiting call."""
        tool = self.tools.get(name)
        if tool is None:
            missing = f"Tool '{name}' not available in {self.agent_name}'s toolkit"
            return ToolResult(False, error=missing)
        known = self.toolbox.get(name)
        if self._told.get(name) != (known, tool, tool.permission, tool.description):
            known = self._register_tool(tool)
        sent = {} if params is None else params
        if type(sent) is ReadParams and known is not None:
            sent = sent.typed_for(known)
        errand = SentCall(name, tool, self._callbacks, sent, False)
        before = current_errand.set(errand)
        try:
            if self._callbacks:
                heard = Extras(entered=errand.start)
                outcome = await self._view.call_observed(Call(name, sent), heard)
            else:
                outcome = await self._view.call(name, sent)
        finally:
            current_errand.reset(before)
        result = errand.result
        if result is None or outcome.status is not _OK or result.data is not shown_value(outcome):
            if outcome.status is Status.PENDING:
                return await self._interrupted_result(errand, outcome)
            result = _make_result(outcome, tool)
        if self._callbacks:
            await _report_completed(errand, outcome, result)
        return result

    async def resume(self, call_id: str, answer: Mapping[str, Any] | None) -> ToolResult:
        """Continue a waiting call with a person's answer, such as `{"approved": True}`."""
        told = answer if isinstance(answer, Mapping) else {}
        by = told.get("by")
        parked = next((p for p in await self.toolbox.pending() if p.id == call_id), None)
        if parked is None:
            # It was decided before, and may still wait for somebody who has its tool.
            name, sent = (await self.toolbox.outcome(call_id)).call.tool, {}
        else:
            name, sent = parked.tool, dict(parked.shown)
        tool = self.tools.get(name)
        known = None if tool is None else self._register_tool(tool)
        errand = SentCall(name, tool, self._callbacks, sent, True)
        heard = Extras(entered=errand.start)
        if told.get("approved") is not True:
            outcome = await self.toolbox.deny(call_id, by=by)
            await errand.tell("permission_result", {"approved": False})
            return _make_result(outcome)
        if parked is not None and known is not None and known.fingerprint != parked.fingerprint:
            return await self._ask_again(parked)
        before = current_errand.set(errand)
        try:
            outcome = await self.toolbox.desk.approve(call_id, by, None, heard)
        finally:
            current_errand.reset(before)
        if outcome.status is Status.PENDING:
            return await self._interrupted_result(errand, outcome)
        if parked is None and not errand.started:
            return _make_result(outcome)
        result = _make_result(outcome, tool, errand.result)
        await _report_completed(errand, outcome, result)
        return result

    async def _ask_again(self, parked: Parked) -> ToolResult:
        """Make a new call of a tool that has changed, because the approval was for the old one."""
        reason = "the tool has changed since; the call is asked about again"
        await self.toolbox.deny(parked.id, reason=reason)
        return await self.execute_tool(parked.tool, parked.arguments)

    async def _interrupted_result(self, errand: SentCall, outcome: Outcome) -> ToolResult:
        """The result of a call that waits, with what a person should be asked."""
        call = outcome.call
        level = ToolPermission.CONFIRM.value
        params = dict(call.arguments) if isinstance(call.arguments, Mapping) else {}
        await errand.tell("permission_request", {"permission_level": level, "params": params})
        payload = {
            "type": "tool_permission",
            "agent": self.agent_name,
            "tool_name": call.tool,
            "params": params,
            "permission_level": level,
            "message": f"{self.agent_name} asks to run {call.tool}: {outcome.metadata['reason']}",
        }
        return ToolResult(
            False, error=outcome.text, metadata={"pending": call.id, "interrupt": payload}
        )

    def _register_tool(self, tool: BaseTool) -> Tool | None:
        """Add the current version of the tool to the toolbox, if it or its name has changed."""
        if isinstance(tool, BoxTool):
            return self.toolbox.get(tool.name)
        changed = renewed_tool(self.toolbox.find_tool(tool.name), tool)
        if changed is not None:
            self.toolbox.add(changed, on_conflict="override")
        shown = self.toolbox.get(tool.name)
        self._told[tool.name] = (shown, tool, tool.permission, tool.description)
        return shown


class BoxTool(BaseTool):
    """A tool that was added to the toolbox in another way."""

    def __init__(self, tool: Tool, toolbox: Toolbox) -> None:
        asks = tool.permission is Permission.CONFIRM
        permission = ToolPermission.CONFIRM if asks else ToolPermission.AUTO
        super().__init__(tool.name, tool.description, permission)
        self._tool = tool
        self._toolbox = toolbox

    def get_parameters(self) -> list[ToolParameter]:
        """The parameters, as the schema describes them."""
        schema = self._tool.input_schema
        needed = schema.get("required", ())
        return [
            ToolParameter(
                name,
                str(part.get("type", "object")),
                str(part.get("description", "")),
                name in needed,
                part.get("default"),
            )
            for name, part in schema.get("properties", {}).items()
        ]

    async def execute(self, **params: Any) -> ToolResult:
        """Call it, through its toolbox."""
        return _make_result(await self._toolbox.call(self.name, params))


async def _report_completed(errand: SentCall, outcome: Outcome, result: ToolResult) -> None:
    """Report the end of a call, unless it was refused and never started."""
    if not errand.started and outcome.status is not Status.DENIED:
        await errand.start()
    if errand.started and errand.callbacks:
        taken = (outcome.seconds or 0.0) * 1000
        facts = {"success": result.success, "duration_ms": taken, "error": result.error}
        await errand.tell("tool_complete", facts)


def _make_result(
    outcome: Outcome, tool: BaseTool | None = None, own: ToolResult | None = None
) -> ToolResult:
    """An outcome as ArtifactFlow's result, or the tool's own result if it has one."""
    if outcome.status is Status.OK:
        if own is not None and own.data is shown_value(outcome):
            return own
        return ToolResult(True, data=shown_value(outcome))
    match outcome.error:
        case ToolFailed(original=ToolError() as error):
            return error.result
        case ToolFailed(redacted=False) as error:
            return ToolResult(False, error=f"Tool execution failed: {error.original}")
        case InvalidArguments() as error if tool is not None:
            sent = outcome.call.arguments
            words = tool.validate_params(dict(sent) if isinstance(sent, Mapping) else {})
            return ToolResult(False, error=words or "; ".join(error.problems))
    return ToolResult(False, error=outcome.text)
