"""Agently: its ToolManager, and whole programs that start with `from … import Agently`."""

from typing import TYPE_CHECKING, Any

from wieldy.agent.output.data_formatter import DataFormatter

from .main import AgentlyMain
from .shifter import FunctionShifter
from .tool_manager import AgentlyToolManager

if TYPE_CHECKING:
    Agently: AgentlyMain

__all__ = ["Agently", "AgentlyMain", "AgentlyToolManager", "DataFormatter", "FunctionShifter"]


# A type checker that saw this function would believe in any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # The shared instance is made when a program asks for it first.
        if name != "Agently":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault("Agently", AgentlyMain())


def __dir__() -> list[str]:
    return sorted({*globals(), "Agently"})
