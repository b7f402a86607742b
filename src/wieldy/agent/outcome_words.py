"""Tools and outcomes in the wording and forms that Agently's users know."""

from typing import Any

from wieldy.core.block import Block, Text
from wieldy.core.bounded_json import NestedTooDeep, parse_json
from wieldy.core.call import Outcome
from wieldy.core.errors import (
    InvalidArguments,
    InvalidResult,
    RemoteFailure,
    ToolFailed,
    ToolNotFound,
)
from wieldy.core.tool import Tool
from wieldy.wire.prompt import kwargs_form


def tell_outcome(outcome: Outcome, tool: Tool | None) -> Any:
    """The value, or the error as the text that a model would get; nothing is raised.

    Args:
        outcome: How the call ended.
        tool: The tool that was called, if there is one.
    """
    if tool is not None and tool.source.startswith("mcp"):
        refused = refusal(outcome)
        if refused is not None or outcome.ok:
            return shown(outcome) if refused is None else refused
    match outcome.error:
        case None if outcome.ok:
            return outcome.value
        case ToolNotFound() if tool is None:
            return f"Can not find tool named '{outcome.call.tool}'"
        case ToolFailed(redacted=False) as error:
            return f"Error: {error.original}"
    return f"Error: {outcome.text}"


def tool_info(tool: Tool) -> dict[str, Any]:
    """The description of a tool for a model: `{name, desc, kwargs, returns?}`."""
    info: dict[str, Any] = {
        "name": tool.name,
        "desc": tool.description,
        "kwargs": kwargs_form(tool.input_schema) or {},
    }
    gives = tool.declared_output
    if gives is not None and gives.get("type") == "object":
        info["returns"] = kwargs_form(gives)
    return info


def shown(outcome: Outcome) -> Any:
    """The result of an MCP tool: its structured content, or the content of its first block."""
    value = outcome.value
    if outcome.metadata.get("wrapped"):
        # Agently's users get structured content in the form in which the server sends it.
        return {"result": value}
    if value and not _is_unstructured(value):
        return value
    if outcome._content is None and not value and not isinstance(value, str):
        return None
    return _decode_block(next(iter(outcome.content), None))


def refusal(outcome: Outcome) -> dict[str, str] | None:
    """The objection of the server or of its schema to a call; None for any other outcome."""
    match outcome.error:
        case ToolFailed(original=RemoteFailure() as said, redacted=False):
            return {"error": str(said)}
        case ToolFailed(original=RemoteFailure()) | InvalidArguments() | InvalidResult():
            return {"error": outcome.text}
    return None


def _is_unstructured(value: Any) -> bool:
    """Whether a value comes from the content blocks, because there was no structured content."""
    return isinstance(value, str) or (isinstance(value, list) and isinstance(value[0], Block))


def _decode_block(block: Block | None) -> Any:
    if not isinstance(block, Text):
        return None if block is None else block.to_dict()
    try:
        return parse_json(block.text)
    except NestedTooDeep:
        # Agently promises None for a text that is too deep to be read.
        return None
    except ValueError:
        return block.text
