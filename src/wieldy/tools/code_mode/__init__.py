"""One tool that runs a model's Python program, whose functions are the other tools."""

from .code_tool import add_code_mode
from .program_errors import ProgramFailed

__all__ = ["ProgramFailed", "add_code_mode"]
