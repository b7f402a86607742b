"""Agently's ToolManager: functions with a description, looked up by tag, errors as text."""

from wieldy.agent.data_formatter import DataFormatter

from .shifter import FunctionShifter
from .tools import AgentlyToolManager

__all__ = ["AgentlyToolManager", "DataFormatter", "FunctionShifter"]
