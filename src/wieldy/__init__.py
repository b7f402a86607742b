"""The tool layer for LLM agents: describe, permit, run, stream and record every tool call."""

from wieldy.core.approvals import Parked
from wieldy.core.block import Audio, Block, Image, Progress, Resource, Text
from wieldy.core.call import Call, Outcome, Scope, Status
from wieldy.core.context import Context
from wieldy.core.errors import (
    AlreadyDecided,
    CallDenied,
    CallError,
    CallInterrupted,
    CallNotFound,
    CallPending,
    CallTimeout,
    CallUnknown,
    DefinitionError,
    InvalidArguments,
    NameTaken,
    ToolFailed,
    ToolNotFound,
    WieldyError,
)
from wieldy.core.limits import Limits
from wieldy.core.reshape import Argument
from wieldy.core.run import Handler, Middleware, Observer, Run
from wieldy.core.secret import Secret
from wieldy.core.tool import Permission, Tool, tool
from wieldy.toolbox import Toolbox, View

__all__ = [
    "AlreadyDecided",
    "Argument",
    "Audio",
    "Block",
    "Call",
    "CallDenied",
    "CallError",
    "CallInterrupted",
    "CallNotFound",
    "CallPending",
    "CallTimeout",
    "CallUnknown",
    "Context",
    "DefinitionError",
    "Handler",
    "Image",
    "InvalidArguments",
    "Limits",
    "Middleware",
    "NameTaken",
    "Observer",
    "Outcome",
    "Parked",
    "Permission",
    "Progress",
    "Resource",
    "Run",
    "Scope",
    "Secret",
    "Status",
    "Text",
    "Tool",
    "ToolFailed",
    "ToolNotFound",
    "Toolbox",
    "View",
    "WieldyError",
    "tool",
]
