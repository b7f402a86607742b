"""Run Python code and shell commands in a sandbox: no network, few files, and limits."""

from .code_result import CodeResult
from .code_tools import add_code_tools
from .sandbox import Sandbox
from .sandbox_errors import CodeStopped, SandboxUnavailable
from .sandbox_limits import ProgramEnd, SandboxLimits

__all__ = [
    "CodeResult",
    "CodeStopped",
    "ProgramEnd",
    "Sandbox",
    "SandboxLimits",
    "SandboxUnavailable",
    "add_code_tools",
]
