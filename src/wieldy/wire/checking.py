"""Report what a provider's schema rules would drop or change, before any request."""

from collections.abc import Iterable
from dataclasses import dataclass

from wieldy.core.choices import ProviderFormat
from wieldy.core.tool import Tool

from .definitions import lowered_tools, tool_definitions
from .schema.provider_limits import MAX_TOOLS
from .schema.schema_change import SchemaChange

__all__ = ["Report", "report"]


@dataclass(frozen=True, slots=True)
class Report:
    """The changes to each tool, by the tool's own name, and those to the whole set.

    Attributes:
        provider: the provider that was checked.
        strict: whether the strict form was checked.
        tools: the changes by tool.
        whole: the changes that concern all tools together, such as too many tools.
    """

    provider: str
    strict: bool
    tools: dict[str, tuple[SchemaChange, ...]]
    whole: tuple[SchemaChange, ...] = ()

    @property
    def lost(self) -> bool:
        """Whether something is lost, rather than only written differently."""
        every = [*self.whole, *(change for changes in self.tools.values() for change in changes)]
        return any(change.lost for change in every)

    def lines(self, lost_only: bool = False) -> list[str]:
        """The report as lines of text, a tool's name before its changes."""
        lines = [f"{change.what} ({change.why})" for change in self.whole]
        for name, changes in self.tools.items():
            shown = [change for change in changes if change.lost or not lost_only]
            lines += [name, *(f"  {change}" for change in shown)] if shown else []
        return lines


def report(tools: Iterable[Tool], provider: ProviderFormat, strict: bool = False) -> Report:
    """Find what is lost or changed when these tools are described to a provider.

    Args:
        tools: the tools, such as a `Toolbox`.
        provider: the provider's format.
        strict: check the strict form of the schemas.

    Returns:
        The changes, tool by tool.

    Raises:
        ValueError: the provider is unknown.

    Example:
        `assert not report(box, "openai", strict=True).lost`
    """
    listed = list(tools)
    shown = [_shown_name(each) for each in tool_definitions(listed, provider, strict)]
    found: dict[str, tuple[SchemaChange, ...]] = {}
    for (tool, lowered), name in zip(lowered_tools(listed, provider, strict), shown, strict=True):
        renamed = SchemaChange(
            "", "name", f"is {name}", "providers take 64 plain characters", False
        )
        found[tool.name] = (*((renamed,) if name != tool.name else ()), *lowered.changes)
    most = MAX_TOOLS.get(provider)
    if most is None or len(listed) <= most:
        return Report(provider, strict, found)
    what, why = f"{len(listed)} tools are too many", f"{provider} takes {most} in one request"
    return Report(provider, strict, found, (SchemaChange("", "tools", what, why, True),))


def _shown_name(definition: dict[str, object]) -> object:
    function = definition.get("function")
    return function["name"] if isinstance(function, dict) else definition["name"]
