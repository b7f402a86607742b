"""Tool calls that a model writes as XML."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wieldy.core.call import Call
from wieldy.core.tool import Tool
from wieldy.wire.prompt import format_result, tool_instructions
from wieldy.wire.text.call_parser import TextCallParser

from .tool import BaseTool, ToolResult, engine_tool


@dataclass
class ToolCall:
    """A call as it stood in the text."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    raw_text: str = ""


class ReadParams(dict[str, Any]):
    """Parameters that remember the text from which they were read."""

    def __init__(self, params: Mapping[str, Any], raw_text: str) -> None:
        super().__init__(params)
        self.raw_text = raw_text
        self._read = copy.deepcopy(dict(params))

    def copy(self) -> "ReadParams":
        """The same, with the same text."""
        return copy.copy(self)

    def typed_for(self, tool: Tool) -> dict[str, Any]:
        """The parameters with the types that a tool declares; changed parameters are kept.

        Without a declared type, text such as `3.10` is read as a number, which does not tell
        how it was written.
        """
        calls = TextCallParser("xml", [tool]).parse(self.raw_text)
        typed = next(
            (_argument_params(call.arguments) for call in calls if call.tool == tool.name), {}
        )
        return {
            name: typed[name] if name in typed and self._is_as_read(name) else value
            for name, value in self.items()
        }

    def _is_as_read(self, name: str) -> bool:
        return name in self._read and self[name] == self._read[name]


class XMLToolCallParser:
    """Reads `<tool_call>` blocks."""

    @staticmethod
    def parse_tool_calls(
        text: str, tools: Iterable[BaseTool | Tool] | None = None
    ) -> list[ToolCall]:
        """The calls in a text; with tools, their declared types win."""
        known = None if tools is None else engine_tools(tools)
        return [
            _read_call(event.call, event.raw_text)
            for event in TextCallParser("xml", known).events(text)
            if event.call is not None
        ]


def parse_tool_calls(text: str, tools: Iterable[BaseTool | Tool] | None = None) -> list[ToolCall]:
    """The calls in a text; with tools, their declared types win."""
    return XMLToolCallParser.parse_tool_calls(text, tools)


def _read_call(call: Call, raw_text: str) -> ToolCall:
    return ToolCall(call.tool, ReadParams(_argument_params(call.arguments), raw_text), raw_text)


def engine_tools(tools: Iterable[BaseTool | Tool]) -> list[Tool]:
    """Tools of either kind, as the engine knows them."""
    return [tool if isinstance(tool, Tool) else engine_tool(tool) for tool in tools]


def _argument_params(arguments: Any) -> dict[str, Any]:
    return dict(arguments or {})


class ToolPromptGenerator:
    """Prompt text for tools."""

    @staticmethod
    def generate_tool_instruction(tools: Iterable[BaseTool | Tool]) -> str:
        """Describe the tools, and how a call is written."""
        return tool_instructions(engine_tools(tools), "xml")

    @staticmethod
    def format_tool_result(name: str, result: ToolResult | Mapping[str, Any]) -> str:
        """A result as `<tool_result>`, which parses back."""
        return format_result(name, result.to_dict() if isinstance(result, ToolResult) else result)
