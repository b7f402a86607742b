"""The tool with which a model chooses its own tools."""

from collections.abc import Mapping
from typing import Any

from wieldy.core.registry import BASIC
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox

from .blocks import text_block
from .response import ToolResponse

EQUIP = "reset_equipped_tools"


class Equipment:
    """Which groups of a toolbox are switched on, and what a model is told of them."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    def is_it(self, func: Any) -> bool:
        """Whether a function is the one that chooses groups."""
        return getattr(func, "__name__", None) == EQUIP and hasattr(func, "__self__")

    def tool(self, tool: Tool) -> Tool:
        """The tool, described with the groups that there are now."""
        switches = {
            group.name: {"type": "boolean", "description": group.description, "default": False}
            for group in self._toolbox.groups
            if group.name != BASIC
        }
        schema = {"type": "object", "properties": switches}
        return tool.replace(input_schema=schema, validation="describe")

    def renew(self) -> None:
        """Describe the tool anew after the groups have changed."""
        tool = self._toolbox.get(EQUIP)
        if tool is not None:
            self._toolbox.add(self.tool(tool), on_conflict="override")

    def reset(self, wanted: Mapping[str, Any]) -> ToolResponse:
        """Switch on exactly the groups that are wanted, or refuse and change nothing."""
        groups = [group.name for group in self._toolbox.groups if group.name != BASIC]
        wrong = [name for name, value in wanted.items() if not isinstance(value, bool)]
        unknown = [name for name in wanted if name not in groups]
        if wrong:
            return _said(f"Nothing was changed: {', '.join(wrong)} must be true or false.")
        if unknown:
            known = ", ".join(groups) or "none"
            return _said(f"Nothing was changed: there is no group {unknown[0]!r}, only: {known}.")
        for name in groups:
            switch = self._toolbox.groups
            (switch.activate if wanted.get(name) else switch.deactivate)(name)
        active = [name for name in groups if wanted.get(name)]
        if not active:
            return _said("All groups of tools are switched off now.")
        notes = self.notes()
        said = f"These groups of tools are switched on now: {', '.join(active)}."
        return _said(f"{said}\nFollow these notes when you use them.\n{notes}" if notes else said)

    def notes(self) -> str:
        """The notes of active groups, each under its name."""
        return "\n".join(
            f"## About Tool Group '{group.name}'\n{group.notes}"
            for group in self._toolbox.groups
            if group.active and group.notes
        )


def _said(text: str) -> ToolResponse:
    return ToolResponse([text_block(text)])
