"""The tool layer for LLM agents: describe, permit, run, stream and record every tool call."""

from wieldy.core.approvals import Parked
from wieldy.core.block import Audio, Block, Image, Progress, Resource, Text
from wieldy.core.call import Call, Outcome, Scope, Status
from wieldy.core.context import Context
from wieldy.core.errors import (
    AlreadyDecided,
    AnswerNeeded,
    CallDenied,
    CallError,
    CallInterrupted,
    CallNotFound,
    CallPending,
    CallTimeout,
    CallUnknown,
    CorruptRow,
    DefinitionError,
    InputNeeded,
    InvalidArguments,
    KeyTaken,
    NameTaken,
    NotRecorded,
    RecordedFailure,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    ToolFailed,
    ToolNotFound,
    WieldyError,
)
from wieldy.core.limits import Limits
from wieldy.core.reshape import Argument
from wieldy.core.run import Handler, Middleware, Observer, Run
from wieldy.core.secret import Secret
from wieldy.core.tool import Permission, Tool, tool
from wieldy.toolbox import Toolbox
from wieldy.view import View

__all__ = [
    "AlreadyDecided",
    "AnswerNeeded",
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
    "CorruptRow",
    "DefinitionError",
    "Handler",
    "Image",
    "InputNeeded",
    "InvalidArguments",
    "KeyTaken",
    "Limits",
    "Middleware",
    "NameTaken",
    "NotRecorded",
    "Observer",
    "Outcome",
    "Parked",
    "Permission",
    "Progress",
    "RecordedFailure",
    "Resource",
    "Run",
    "Scope",
    "Secret",
    "Status",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "Text",
    "Tool",
    "ToolFailed",
    "ToolNotFound",
    "Toolbox",
    "View",
    "WieldyError",
    "tool",
]
