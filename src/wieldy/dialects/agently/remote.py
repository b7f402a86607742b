"""What an MCP server gave, in the shapes that Agently's users know."""

import json
from typing import Any

from wieldy.core.block import Text
from wieldy.core.call import Outcome
from wieldy.core.tool import Tool


def transport_source(transport: Any) -> Any:
    """The server behind what was given, also behind a fastmcp client or transport."""
    return transport


def tags_of(tool: Tool) -> list[str]:
    """The tags that the server itself has put on a tool."""
    return []


def shown(outcome: Outcome) -> Any:
    """The result of an MCP tool: an error as a dict, structured content, or the first block."""
    if not outcome.ok:
        return {"error": outcome.text}
    if isinstance(outcome.value, dict) and outcome.value:
        return outcome.value
    first = next(iter(outcome.content), None)
    if first is None:
        return None
    if not isinstance(first, Text):
        return first.to_dict()
    try:
        return json.loads(first.text)
    except ValueError:
        return first.text
