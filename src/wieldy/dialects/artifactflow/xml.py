"""Tool calls that a model writes as XML."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wieldy.core.tool import Tool
from wieldy.wire.text import TextCallParser

from .tool import BaseTool, engine_tool


@dataclass
class ToolCall:
    """A call as it stood in the text."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    raw_text: str = ""


class XMLToolCallParser:
    """Reads `<tool_call>` blocks."""

    @staticmethod
    def parse_tool_calls(
        text: str, tools: Iterable[BaseTool | Tool] | None = None
    ) -> list[ToolCall]:
        """The calls in a text; with tools, their declared types win."""
        known = None if tools is None else engine_tools(tools)
        return [
            ToolCall(event.call.tool, _params(event.call.arguments), event.raw_text)
            for event in TextCallParser("xml", known).events(text)
            if event.call is not None
        ]


def parse_tool_calls(text: str, tools: Iterable[BaseTool | Tool] | None = None) -> list[ToolCall]:
    """The calls in a text; with tools, their declared types win."""
    return XMLToolCallParser.parse_tool_calls(text, tools)


def engine_tools(tools: Iterable[BaseTool | Tool]) -> list[Tool]:
    """Tools of either kind, as the engine knows them."""
    return [tool if isinstance(tool, Tool) else engine_tool(tool) for tool in tools]


def _params(arguments: Any) -> dict[str, Any]:
    return dict(arguments or {})
