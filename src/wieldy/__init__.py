"""The tool layer for LLM agents: describe, permit, run, stream and record every tool call."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wieldy.core.active_call import ActiveCall, Handler, Middleware, Observer
from wieldy.core.block import Audio, Block, Image, Notice, Progress, Resource, Text
from wieldy.core.call import Call, Outcome, Scope, Status
from wieldy.core.context import Context, carry
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
    DocumentError,
    InputNeeded,
    InvalidArguments,
    InvalidResult,
    InvalidSource,
    KeyTaken,
    LockError,
    NameTaken,
    NotChecked,
    NotKept,
    NotRecorded,
    RecordedFailure,
    RemoteFailure,
    ServerUnavailable,
    ServiceError,
    SessionTaken,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    ToolFailed,
    ToolNotFound,
    WieldyError,
)
from wieldy.core.limits.limits import Limits
from wieldy.core.options import tool
from wieldy.core.permission.parked import Parked
from wieldy.core.permission.waiting_calls import CallsNeeded, WaitsForCalls
from wieldy.core.schema.derive import Argument
from wieldy.core.secrets.secret import Secret
from wieldy.core.tool import Permission, Tool
from wieldy.store.retention import Retention
from wieldy.toolbox import Toolbox
from wieldy.view import View

if TYPE_CHECKING:
    from wieldy.core.limits.call_limits import CallLimit, TooManyCalls
    from wieldy.core.permission.explanation import Explanation
    from wieldy.core.permission.group_tool import add_group_tool
    from wieldy.execution.worker_errors import MemoryExceeded, WorkerDied
    from wieldy.models.model_errors import (
        ContextTooLong,
        ModelAnswerTooLarge,
        ModelError,
        ModelRefused,
        ModelUnavailable,
        UnknownModel,
    )
    from wieldy.store.artifacts.artifact_errors import (
        ArtifactError,
        ArtifactNotFound,
        ArtifactTaken,
        PassageNotFound,
        PassageRepeated,
        VersionConflict,
    )

# Most programs never use these names. Each is loaded when it is asked for, to keep
# `import wieldy` light.
_HOMES = {
    "ArtifactError": "store.artifacts.artifact_errors",
    "ArtifactNotFound": "store.artifacts.artifact_errors",
    "ArtifactTaken": "store.artifacts.artifact_errors",
    "CallLimit": "core.limits.call_limits",
    "ContextTooLong": "models.model_errors",
    "Explanation": "core.permission.explanation",
    "MemoryExceeded": "execution.worker_errors",
    "ModelAnswerTooLarge": "models.model_errors",
    "ModelError": "models.model_errors",
    "ModelRefused": "models.model_errors",
    "ModelUnavailable": "models.model_errors",
    "PassageNotFound": "store.artifacts.artifact_errors",
    "PassageRepeated": "store.artifacts.artifact_errors",
    "TooManyCalls": "core.limits.call_limits",
    "UnknownModel": "models.model_errors",
    "VersionConflict": "store.artifacts.artifact_errors",
    "WorkerDied": "execution.worker_errors",
    "add_group_tool": "core.permission.group_tool",
}

__all__ = [
    "ActiveCall",
    "AlreadyDecided",
    "AnswerNeeded",
    "Argument",
    "ArtifactError",
    "ArtifactNotFound",
    "ArtifactTaken",
    "Audio",
    "Block",
    "Call",
    "CallDenied",
    "CallError",
    "CallInterrupted",
    "CallLimit",
    "CallNotFound",
    "CallPending",
    "CallTimeout",
    "CallUnknown",
    "CallsNeeded",
    "Context",
    "ContextTooLong",
    "CorruptRow",
    "DefinitionError",
    "DocumentError",
    "Explanation",
    "Handler",
    "Image",
    "InputNeeded",
    "InvalidArguments",
    "InvalidResult",
    "InvalidSource",
    "KeyTaken",
    "Limits",
    "LockError",
    "MemoryExceeded",
    "Middleware",
    "ModelAnswerTooLarge",
    "ModelError",
    "ModelRefused",
    "ModelUnavailable",
    "NameTaken",
    "NotChecked",
    "NotKept",
    "NotRecorded",
    "Notice",
    "Observer",
    "Outcome",
    "Parked",
    "PassageNotFound",
    "PassageRepeated",
    "Permission",
    "Progress",
    "RecordedFailure",
    "RemoteFailure",
    "Resource",
    "Retention",
    "Scope",
    "Secret",
    "ServerUnavailable",
    "ServiceError",
    "SessionTaken",
    "Status",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "Text",
    "TooManyCalls",
    "Tool",
    "ToolFailed",
    "ToolNotFound",
    "Toolbox",
    "UnknownModel",
    "VersionConflict",
    "View",
    "WaitsForCalls",
    "WieldyError",
    "WorkerDied",
    "add_group_tool",
    "carry",
    "tool",
]


# A type checker that saw this function would believe in any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
