"""The tools `web_search` and `web_fetch`, and how they are added to a toolbox."""

import asyncio
from typing import Annotated, Any

from pydantic import Field

from wieldy.core.errors import ServiceError
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox

from .browser_process import Browser
from .page_reader import FetchedPage, PageReader
from .search_providers import Bocha
from .search_result import SearchProvider, check_question

_MAX_URLS = 50
_MAX_AT_ONCE = 20


def add_web_tools(
    box: Toolbox,
    search: SearchProvider | None = None,
    allow_private: bool = False,
    timeout: float = 30,
    max_bytes: int = 10_000_000,
    robots: bool = False,
    browser: Browser | bool | None = None,
) -> list[Tool]:
    """Add `web_search` and `web_fetch`.

    Args:
        box: The toolbox that gets them.
        search: Who searches: `Bocha()`, `SearXNG(url)`, `Brave()`, `Tavily()`, or an object
            with the same method. Without it Bocha, with the key of `BOCHA_API_KEY`.
        allow_private: Whether pages of this machine and the networks around it may be read.
        timeout: How many seconds one page may take.
        max_bytes: How large a page may be, unpacked.
        robots: Whether the `robots.txt` of a site is kept to.
        browser: How pages are read whose text is made by JavaScript. Without it in Chromium,
            where the extra `browser` and Chromium are installed. True demands both, False
            starts no browser, and `Browser(…)` says which one and within what limits.

    Returns:
        The two tools.

    Raises:
        ServiceError: A browser was demanded, and the extra or Chromium is not installed.
        ValueError: A limit makes no sense, or `search` can't search.

    Example:
        `add_web_tools(box, search=SearXNG("http://localhost:8888"))`
    """
    tools = WebTools(
        search,
        PageReader(
            allow_private=allow_private,
            timeout=timeout,
            max_bytes=max_bytes,
            robots=robots,
            browser=browser,
        ),
    )
    box.close_with(tools)
    options: dict[str, Any] = {"read_only": True, "open_world": True, "untrusted": True}
    return [
        box.add(tools.web_search, "web_search", **options),
        box.add(tools.web_fetch, "web_fetch", **options),
    ]


class WebTools:
    """What the two tools share: who searches, and who reads pages."""

    kind = "web connections"

    def __init__(self, search: SearchProvider | None, reader: PageReader) -> None:
        if isinstance(search, type) or not callable(getattr(search or Bocha, "search", None)):
            raise ValueError(
                f'search is an object such as Bocha() or SearXNG("https://…"), not {search!r}'
            )
        self._search = search or Bocha()
        self._reader = reader

    @property
    def held(self) -> bool:
        """Whether there may be connections or a browser."""
        return self._reader.held or bool(getattr(self._search, "held", False))

    async def close(self) -> None:
        """Let go of the connections and the browser."""
        await self._reader.close()
        close = getattr(self._search, "close", None)
        if close is not None:
            await close()

    async def web_search(
        self,
        query: str,
        freshness: str = "noLimit",
        count: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> list[dict[str, str]]:
        """Search the web.

        Args:
            query: what to look for
            freshness: noLimit, oneDay, oneWeek, oneMonth, oneYear, or days such as
                2026-01-01..2026-01-31
            count: how many results
        """
        question = check_question(query, freshness, count)
        return [result.to_dict() for result in await self._search.search(question)]

    async def web_fetch(
        self,
        url_list: Annotated[list[str], Field(min_length=1, max_length=_MAX_URLS)],
        max_content_length: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000,
        max_concurrent: Annotated[int, Field(ge=1, le=_MAX_AT_ONCE)] = 3,
    ) -> list[dict[str, Any]]:
        """Read web pages, PDF documents, JSON and text.

        Args:
            url_list: the addresses, which begin with http:// or https://
            max_content_length: how many characters of each are shown
            max_concurrent: how many are fetched at the same time
        """
        pages = await fetch_pages(self._reader, url_list, max_content_length, max_concurrent)
        if all(page.page is None for page in pages):
            said = "; ".join(f"{page.url}: {page.error}" for page in pages)
            raise ServiceError(f"None of the pages could be read. {said}")
        return [page.to_dict() for page in pages]


async def fetch_pages(
    reader: PageReader, urls: list[str], most: int, at_once: int
) -> list[FetchedPage]:
    """The pages of some addresses, in the order of the addresses."""
    turns = asyncio.Semaphore(at_once)

    async def fetch(url: str) -> FetchedPage:
        async with turns:
            return await reader.fetch(url, most)

    return list(await asyncio.gather(*map(fetch, urls)))
