"""AgentScope's toolkit: functions in groups, answers as a stream of `ToolResponse`s."""

from wieldy.core.registry import Group as ToolGroup

from .code_execution import execute_python_code, execute_shell_command
from .filesystem import DiskFileSystem, FileDomainService
from .mcp_clients import (
    HttpStatefulClient,
    HttpStatelessClient,
    MCPClientBase,
    StatefulClientBase,
    StdIOStatefulClient,
)
from .mcp_function import MCPToolFunction
from .message_blocks import AudioBlock, ImageBlock, TextBlock, ToolUseBlock
from .registrations import RegisteredToolFunction
from .subagent_function import SubAgentSpec, make_subagent_tool
from .text_files import insert_text_file, view_text_file, write_text_file
from .tool_response import ToolResponse
from .toolkit import Toolkit

__all__ = [
    "AudioBlock",
    "DiskFileSystem",
    "FileDomainService",
    "HttpStatefulClient",
    "HttpStatelessClient",
    "ImageBlock",
    "MCPClientBase",
    "MCPToolFunction",
    "RegisteredToolFunction",
    "StatefulClientBase",
    "StdIOStatefulClient",
    "SubAgentSpec",
    "TextBlock",
    "ToolGroup",
    "ToolResponse",
    "ToolUseBlock",
    "Toolkit",
    "execute_python_code",
    "execute_shell_command",
    "insert_text_file",
    "make_subagent_tool",
    "view_text_file",
    "write_text_file",
]
