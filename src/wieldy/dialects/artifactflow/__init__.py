"""ArtifactFlow's tools: classes with parameters, toolkits per agent, calls in XML."""

from .artifacts import (
    ArtifactManager,
    CreateArtifactTool,
    ReadArtifactTool,
    RewriteArtifactTool,
    UpdateArtifactTool,
    create_artifact_tools,
)
from .call_subagent import CallSubagentTool
from .registry import ToolRegistry
from .tool import BaseTool, ToolParameter, ToolPermission, ToolResult
from .toolkit import AgentToolkit
from .web import WebFetchTool, WebSearchTool
from .xml import ToolCall, ToolPromptGenerator, XMLToolCallParser, parse_tool_calls

__all__ = [
    "AgentToolkit",
    "ArtifactManager",
    "BaseTool",
    "CallSubagentTool",
    "CreateArtifactTool",
    "ReadArtifactTool",
    "RewriteArtifactTool",
    "ToolCall",
    "ToolParameter",
    "ToolPermission",
    "ToolPromptGenerator",
    "ToolRegistry",
    "ToolResult",
    "UpdateArtifactTool",
    "WebFetchTool",
    "WebSearchTool",
    "XMLToolCallParser",
    "create_artifact_tools",
    "parse_tool_calls",
]
