"""ArtifactFlow's tools: classes with parameters, toolkits per agent, calls in XML."""

from .prompt import ToolPromptGenerator
from .registry import ToolRegistry
from .tool import BaseTool, ToolParameter, ToolPermission, ToolResult
from .toolkit import AgentToolkit
from .xml import ToolCall, XMLToolCallParser, parse_tool_calls

__all__ = [
    "AgentToolkit",
    "BaseTool",
    "ToolCall",
    "ToolParameter",
    "ToolPermission",
    "ToolPromptGenerator",
    "ToolRegistry",
    "ToolResult",
    "XMLToolCallParser",
    "parse_tool_calls",
]
