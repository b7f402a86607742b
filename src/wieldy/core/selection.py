"""Which tools one caller sees: narrowed by name, tag and group, and always live."""

from collections.abc import Iterable

from .names import listed_names, provider_name
from .tool import Tool


class Selection:
    """A filter. Within one criterion any match will do; each further criterion narrows."""

    __slots__ = ("_above", "groups", "names", "tags")

    def __init__(
        self,
        names: Iterable[str] | str | None = None,
        tags: Iterable[str] | str | None = None,
        groups: Iterable[str] | str | None = None,
        above: "Selection | None" = None,
    ) -> None:
        self.names = _set(names)
        self.tags = _set(tags)
        self.groups = _set(groups)
        self._above = above

    def shows(self, tool: Tool) -> bool:
        """Whether the tool is among those selected."""
        if self.names is not None and self.names.isdisjoint((tool.name, provider_name(tool.name))):
            return False
        if self.tags is not None and self.tags.isdisjoint(tool.tags):
            return False
        if self.groups is not None and tool.group not in self.groups:
            return False
        return self._above is None or self._above.shows(tool)


def _set(criterion: Iterable[str] | str | None) -> frozenset[str] | None:
    return None if criterion is None else frozenset(listed_names(criterion))
