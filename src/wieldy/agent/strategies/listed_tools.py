"""The tools that a request offers, as the listing of its session or run has them then."""

from collections.abc import Iterable
from typing import Any

from wieldy.core.choices import ProviderFormat
from wieldy.core.tool import Tool
from wieldy.view import View
from wieldy.wire.deferred_loading import deferred_definitions
from wieldy.wire.definitions import tool_definitions


class ListedTools:
    """A list that stays as it was sent, even if more tools are loaded. All tools can be called."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._tools = list(view)

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or of this name as a provider sees it."""
        return self._view.get(name)

    def schemas(
        self,
        provider: ProviderFormat = "openai",
        strict: bool = False,
        *,
        defer: Iterable[str] | str | None = None,
    ) -> list[dict[str, Any]]:
        """The descriptions of the tools in a provider's format."""
        if defer is None:
            return tool_definitions(self._tools, provider, strict)
        return deferred_definitions(self._tools, provider, strict, defer)
