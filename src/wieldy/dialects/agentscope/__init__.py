"""AgentScope's toolkit: functions in groups, answers as a stream of `ToolResponse`s."""

from .blocks import AudioBlock, ImageBlock, TextBlock, ToolUseBlock
from .clients import HttpStatefulClient, HttpStatelessClient, StdIOStatefulClient
from .registered import RegisteredToolFunction, ToolGroup
from .response import ToolResponse
from .toolkit import Toolkit

__all__ = [
    "AudioBlock",
    "HttpStatefulClient",
    "HttpStatelessClient",
    "ImageBlock",
    "RegisteredToolFunction",
    "StdIOStatefulClient",
    "TextBlock",
    "ToolGroup",
    "ToolResponse",
    "ToolUseBlock",
    "Toolkit",
]
