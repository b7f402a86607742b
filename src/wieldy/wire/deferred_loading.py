"""Leave it to a provider to load definitions when its model searches for them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from wieldy.core.names import listed_names
from wieldy.core.tool import Tool

from .definitions import Definition, tool_definitions

__all__ = ["deferred_definitions"]

# The provider's own search tool. A model calls it, and the provider answers within its message.
_SEARCH: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "openai-responses": {"type": "tool_search"},
}


def deferred_definitions(
    tools: Iterable[Tool], provider: str, strict: bool, defer: Iterable[str] | str
) -> list[Definition]:
    """The definitions, of which the provider shows its model only those that are not deferred.

    The provider's search tool stands before them. Deferred definitions take no tokens until the
    model finds them, and then they are added at the end of what is cached.

    Args:
        tools: the tools, such as a `Toolbox`.
        provider: "anthropic" or "openai-responses"; the others have no such search.
        strict: ask the provider to enforce the schemas.
        defer: names of tools, or patterns such as "github_*"; "*" are all.

    Returns:
        The definitions, with the provider's search tool first if one is deferred.

    Raises:
        ValueError: the provider has no search of its own.

    Example:
        `deferred_definitions(box, "anthropic", False, "*")`
    """
    listed, patterns = list(tools), listed_names(defer)
    definitions = tool_definitions(listed, provider, strict)
    chosen = [any(fnmatchcase(tool.name, each) for each in patterns) for tool in listed]
    if not any(chosen):
        return definitions
    search = _SEARCH.get(provider)
    if search is None:
        raise ValueError(
            f"{provider} loads no tools itself: {' and '.join(_SEARCH)} do. "
            "Let the model search with add_search_tools(box) instead."
        )
    marked = [
        {**definition, "defer_loading": True} if deferred else definition
        for definition, deferred in zip(definitions, chosen, strict=True)
    ]
    return [dict(search), *marked]
