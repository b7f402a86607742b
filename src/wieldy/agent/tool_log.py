"""Report tool calls to programs: the tool, its arguments, the purpose and the result."""

from typing import Any

from wieldy.core.block import Block, Notice, Progress
from wieldy.core.call import Call, Outcome
from wieldy.core.secrets.credential import sent_secrets
from wieldy.core.secrets.secret import redact_data
from wieldy.core.tool import Tool

from .outcome_words import tell_outcome
from .subagents.agent_event import AgentEvent

ToolLog = dict[str, Any]


def show_arguments(call: Call, tool: Tool | None) -> Any:
    """The arguments as they were sent, with their secrets masked."""
    sent = call.arguments if call.arguments is not None else {}
    if tool is None or isinstance(sent, str):
        return sent
    secrets = sent_secrets(sent, tool)
    return redact_data(dict(sent), secrets) if secrets else dict(sent)


def make_log(outcome: Outcome, tool: Tool | None) -> ToolLog:
    """The log entry of a call that a model made with its provider's own tool calls."""
    covered = outcome.metadata.get("covered")
    return {
        "tool_name": outcome.call.tool,
        "kwargs": show_arguments(outcome.call, tool),
        "purpose": "",
        "result": outcome.text if covered else tell_outcome(outcome, tool),
        "call_id": outcome.call.id,
        "status": outcome.status.value,
    }


def show_item(call: Call, item: Block | Progress) -> tuple[str, ToolLog]:
    """The event for an item that a running tool shows."""
    named = {"tool_name": call.tool, "call_id": call.id}
    if isinstance(item, AgentEvent):
        facts = item.to_dict()
        del facts["type"]
        return "subagent", {"tool_name": call.tool, **facts}
    if isinstance(item, Notice):
        said = {"level": item.level, "logger": item.logger, "message": item.message}
        return "tool_notice", {**named, **said}
    if isinstance(item, Progress):
        facts = {"done": item.done, "total": item.total, "message": item.message}
        return "tool_progress", {**named, **facts}
    return "tool_output", {**named, "content": item.to_dict()}
