"""The tool with which a model chooses the groups of tools that it needs."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from wieldy.core.choices import ConflictPolicy
from wieldy.core.limits.limits import Limits
from wieldy.core.registry import BASIC, Group, Groups
from wieldy.core.tool import Tool

NAME = "switch_groups"
_DOING = (
    "Switch on the groups of tools that you need now. All other groups are switched off. "
    "The answer says which are on, and how to use their tools."
)


class GroupBox(Protocol):
    """A toolbox, as far as the tool needs one."""

    @property
    def groups(self) -> Groups:
        """The groups that are switched."""

    def add(self, function: Tool, *, on_conflict: ConflictPolicy = "raise") -> Tool:
        """Register a tool."""

    def find_tool(self, name: str) -> Tool | None:
        """The tool of this name, or None."""

    def watch(self, told: Callable[[str | None], None]) -> Callable[[], None]:
        """Have a function called after each change; returns a function that ends that."""


def add_group_tool(box: GroupBox, name: str = NAME) -> Tool:
    """Add a tool with which a model switches groups itself: those it names on, all others off.

    Its description lists the groups that there are, and follows them as they come and go.

    Args:
        box: The toolbox whose groups are switched, for everybody who uses it.
        name: What the tool is called.

    Returns:
        The tool as it is now.

    Example:
        `add_group_tool(box)`
    """
    listed = box.groups

    def switch(groups: Iterable[str]) -> str:
        return _switch_answer(listed, choose_groups(listed, groups))

    def refresh(changed: str | None) -> None:
        there = box.find_tool(name)
        if there is None or there.function is not switch:
            # The tool was removed or replaced.
            forget()
        elif changed is None and there.description != _tool_description(listed):
            now = {"description": _tool_description(listed), "input_schema": _tool_schema(listed)}
            box.add(there.replace(**now), on_conflict="override")

    added = box.add(
        Tool(
            switch,
            name=name,
            description=_tool_description(listed),
            input_schema=_tool_schema(listed),
            idempotent=True,
            limits=Limits(isolation="inline"),
        )
    )
    forget = box.watch(refresh)
    return added


def switchable_groups(groups: Groups) -> list[Group]:
    """The groups that can be switched: all but the one that is always on."""
    return [group for group in groups if group.name != BASIC]


def choose_groups(groups: Groups, wanted: Iterable[str]) -> list[str]:
    """Switch these groups on and all others off; returns the names of the active groups."""
    groups.activate_only(*wanted)
    return [group.name for group in switchable_groups(groups) if group.active]


def group_notes(groups: Groups, heading: str) -> str:
    """The notes of active groups, each under a heading with its name."""
    found = (group for group in groups if group.active and group.notes)
    return "\n".join(f"{heading.format(group.name)}\n{group.notes}" for group in found)


def _switch_answer(groups: Groups, active: list[str]) -> str:
    if not active:
        return "All groups of tools are switched off now."
    said = f"These groups of tools are switched on now: {', '.join(active)}."
    notes = group_notes(groups, "## {}")
    return f"{said}\n{notes}" if notes else said


def _tool_description(groups: Groups) -> str:
    lines = [f"- {group.name}: {group.description}" for group in switchable_groups(groups)]
    return "\n".join([_DOING, "", "The groups:", *lines] if lines else [_DOING])


def _tool_schema(groups: Groups) -> dict[str, Any]:
    names = [group.name for group in switchable_groups(groups)]
    item: dict[str, Any] = {"type": "string", "enum": names} if names else {"type": "string"}
    wanted = {"type": "array", "items": item, "description": "The groups to switch on."}
    return {"type": "object", "properties": {"groups": wanted}, "required": ["groups"]}
