"""The tools that search the web and read its pages, as classes."""

from typing import TYPE_CHECKING, Any

from wieldy.core.errors import WieldyError

from .tool import BaseTool, ToolParameter, ToolResult

if TYPE_CHECKING:
    from wieldy.tools.web.web_tools import WebTools

_FRESHNESS = (
    "Time range filter: noLimit, oneDay, oneWeek, oneMonth, oneYear, or days such as "
    "2026-01-01..2026-01-31."
)


class _WebTool(BaseTool):
    """A tool over the web; connections are made when it is first used."""

    called: str
    says: str
    takes: tuple[ToolParameter, ...]
    _untrusted = True

    def __init__(self) -> None:
        super().__init__(self.called, self.says)
        self._made: WebTools | None = None

    def get_parameters(self) -> list[ToolParameter]:
        """What the tool takes."""
        return list(self.takes)

    async def execute(self, **params: Any) -> ToolResult:
        """Do it; what can't be done is a result."""
        if self._made is None:
            self._made = self._make_tools()
        try:
            return ToolResult(True, data=await getattr(self._made, self.called)(**params))
        except (WieldyError, ValueError) as error:
            return ToolResult(False, error=str(error))

    async def close(self) -> None:
        """Let go of the connections."""
        if self._made is not None:
            await self._made.close()

    def _make_tools(self) -> "WebTools":
        raise NotImplementedError


class WebSearchTool(_WebTool):
    """`web_search`, with Bocha's API.

    Args:
        api_key: The key; without it that of `BOCHA_API_KEY`.
        endpoint: Another address of the same API.
    """

    called = "web_search"
    says = "Search the internet for information."
    takes = (
        ToolParameter("query", "string", "What to look for."),
        ToolParameter("freshness", "string", _FRESHNESS, False, "noLimit"),
        ToolParameter("count", "integer", "How many results.", False, 10),
    )

    def __init__(self, api_key: Any = None, endpoint: str | None = None) -> None:
        super().__init__()
        self._key = api_key
        self._endpoint = endpoint

    def _make_tools(self) -> "WebTools":
        from wieldy.tools.web.page_reader import PageReader  # noqa: PLC0415 - an extra
        from wieldy.tools.web.search_providers import Bocha  # noqa: PLC0415
        from wieldy.tools.web.web_tools import WebTools  # noqa: PLC0415

        return WebTools(Bocha(self._key, self._endpoint), PageReader())


class WebFetchTool(_WebTool):
    """`web_fetch`: pages, PDF documents, JSON and text.

    Args:
        allow_private: Whether this machine and the networks around it may be reached.
    """

    called = "web_fetch"
    says = "Read web pages and PDF documents."
    takes = (
        ToolParameter("url_list", "array", "The addresses of the pages."),
        ToolParameter("max_content_length", "integer", "Characters of each page.", False, 10_000),
        ToolParameter("max_concurrent", "integer", "How many at the same time.", False, 3),
    )

    def __init__(self, allow_private: bool = False) -> None:
        super().__init__()
        self._allow_private = allow_private

    def _make_tools(self) -> "WebTools":
        from wieldy.tools.web.page_reader import PageReader  # noqa: PLC0415 - an extra
        from wieldy.tools.web.web_tools import WebTools  # noqa: PLC0415

        return WebTools(None, PageReader(allow_private=self._allow_private))
