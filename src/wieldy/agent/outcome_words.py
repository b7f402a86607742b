"""A tool and what it gave, in the words and shapes that Agently's users know."""

import json
from typing import Any

from wieldy.core.block import Block, Text
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
    """The value, or the error as text: nothing is raised, and a program reads what a model would.

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
    """What a model is told of a tool: `{name, desc, kwargs, returns?}`."""
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
    """The result of an MCP tool: structured content, or what its first block holds."""
    value = outcome.value
    if outcome.metadata.get("wrapped"):
        # Its users know structured content as the server sends it.
        return {"result": value}
    if value and not _is_unstructured(value):
        return value
    if outcome._content is None and not value and not isinstance(value, str):
        return None
    return _decoded(next(iter(outcome.content), None))


def refusal(outcome: Outcome) -> dict[str, str] | None:
    """What the server, or its schema, has against a call; None for anything else."""
    match outcome.error:
        case ToolFailed(original=RemoteFailure() as said, redacted=False):
            return {"error": str(said)}
        case ToolFailed(original=RemoteFailure()) | InvalidArguments() | InvalidResult():
            return {"error": outcome.text}
    return None


def _is_unstructured(value: Any) -> bool:
    """Whether a value is made from the content, because there was nothing structured."""
    return isinstance(value, str) or (isinstance(value, list) and isinstance(value[0], Block))


def _decoded(block: Block | None) -> Any:
    if not isinstance(block, Text):
        return None if block is None else block.to_dict()
    try:
        return json.loads(block.text)
    except ValueError:
        return block.text
    except RecursionError:
        # Nested deeper than can be read: promised to be None.
        return None
