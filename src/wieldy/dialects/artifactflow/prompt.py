"""How tools and results are told to a model that writes XML."""

from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.tool import Tool
from wieldy.wire.prompt import format_result, tool_instructions

from .tool import BaseTool, ToolResult
from .xml import engine_tools


class ToolPromptGenerator:
    """Prompt text for tools."""

    @staticmethod
    def generate_tool_instruction(tools: Iterable[BaseTool | Tool]) -> str:
        """Which tools there are, and how a call is written."""
        return tool_instructions(engine_tools(tools), "xml")

    @staticmethod
    def format_tool_result(name: str, result: ToolResult | Mapping[str, Any]) -> str:
        """A result as `<tool_result>`, which parses back."""
        return format_result(name, result.to_dict() if isinstance(result, ToolResult) else result)
