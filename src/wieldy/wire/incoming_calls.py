"""Make a call from what a model sent, with the tool's own name and declared arguments."""

from collections.abc import Mapping
from typing import Any, Protocol

from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Call
from wieldy.core.tool import Tool

from .schema.lifting import lift_arguments


class Tools(Protocol):
    """Finds a tool by its own name, or by its name as providers see it."""

    def get(self, name: str) -> Tool | None:
        """The tool, or None."""


def make_call(tools: Tools, name: str, arguments: Any, provider_id: str | None = None) -> Call:
    """A call with a new id. Arguments that can't be read are kept, and the engine judges them."""
    tool = tools.get(name)
    read = _read_arguments(arguments)
    if tool is not None and isinstance(read, dict):
        read = lift_arguments(read, tool)
    return Call(name if tool is None else tool.name, read, provider_id=provider_id or None)


def find_name(tools: Tools, name: str) -> str:
    """The tool's own name for a name that a provider sees; the same name if there is no tool."""
    tool = tools.get(name)
    return name if tool is None else tool.name


def _read_arguments(arguments: Any) -> dict[str, Any] | str:
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if arguments is None:
        return {}
    if not isinstance(arguments, str):
        return str(arguments)
    if not arguments.strip():
        return {}
    try:
        value = parse_json(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments
