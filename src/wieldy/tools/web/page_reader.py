"""Read pages of the web: fetched within limits, and only from where requests may go."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from math import inf
from time import monotonic
from typing import Any
from urllib.parse import urljoin
from urllib.robotparser import RobotFileParser

from wieldy.core.errors import ServiceError
from wieldy.core.network.addresses import Reach
from wieldy.core.network.http_client import Client, HttpRequest, url_origin
from wieldy.core.task import time_limit

from .browser_process import Browser, find_browser
from .document_processes import DocumentProcesses, ForeignDocument
from .page_renderer import PageRenderer
from .page_text import PageText

_ACCEPT = "text/html, application/xhtml+xml, application/pdf, application/json, text/*;q=0.9"
_ROBOTS_BYTES = 500_000
_MAX_ORIGINS = 200
_NAME = "wieldy"
_MADE = "text/html; charset=utf-8"
_MAX_ERROR = 500
# The seconds that must be left for reading a page after a browser has shown it.
_SPARE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The result for one address: a page, or why there is none."""

    url: str
    page: PageText | None = None
    error: str = ""
    status: int | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The facts, as a model gets them."""
        if self.page is None:
            status = {} if self.status is None else {"status": self.status}
            return {"url": self.url, "error": self.error, **status}
        facts: dict[str, Any] = {"url": self.url, "title": self.page.title}
        text = self.page.text
        if not self.page.complete:
            text += f"\n\n[truncated after {len(text):,} characters]"
            facts["truncated"] = True
        if self.note:
            facts["note"] = self.note
        return {**facts, "content": text}


class PageReader:
    """Fetches pages over connections of its own.

    Args:
        allow_private: Whether this machine and the networks around it may be reached.
        timeout: How many seconds one address may take, redirects and all.
        max_bytes: How large a page may be, unpacked.
        robots: Whether `robots.txt` of a site is kept to.
        browser: How pages are shown whose text is made by JavaScript; True and None stand for
            the browser that is installed, where None does without if there is none.

    Raises:
        ServiceError: A browser was asked for, and there is none.
        ValueError: A limit makes no sense.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        timeout: float = 30,
        max_bytes: int = 10_000_000,
        robots: bool = False,
        browser: Browser | bool | None = None,
        client: Client | None = None,
    ) -> None:
        _check_limits(timeout, max_bytes)
        self._client = client or Client(timeout, Reach(anywhere=allow_private))
        self._renderer, self._no_browser = _find_renderer(browser, self._client.reach)
        self._documents = DocumentProcesses()
        self._seconds = timeout
        self._largest = max_bytes
        self._keeps_rules = robots
        self._rules: OrderedDict[str, RobotFileParser] = OrderedDict()

    @property
    def held(self) -> bool:
        """Whether there may be connections, processes or a browser."""
        browses = self._renderer is not None and self._renderer.held
        return self._client.held or self._documents.held or browses

    async def close(self) -> None:
        """Let go of the connections, the processes and the browser."""
        await self._client.close()
        await self._documents.close()
        if self._renderer is not None:
            await self._renderer.close()

    async def fetch(self, url: str, most: int) -> FetchedPage:
        """The page at an address, with up to `most` characters of its text; never raises."""
        try:
            async with time_limit(self._seconds) as limit:
                return await self._read(url, most, limit.when() or 0)
        except TimeoutError:
            return FetchedPage(url, error=f"it did not come within {self._seconds:g} seconds")
        except ServiceError as error:
            # Some of it may be what the site said, at any length.
            return FetchedPage(url, error=f"{error!s:.{_MAX_ERROR}}", status=error.status)

    async def _read(self, url: str, most: int, end: float) -> FetchedPage:
        if not url_origin(url).startswith(("http://", "https://")):
            raise ServiceError("it is not an address that begins with http:// or https://")
        await self._check_rules(url)
        response = await self._client.send(
            HttpRequest("GET", url, {"Accept": _ACCEPT}), self._largest, self._check_rules
        )
        if not 200 <= response.status < 300:
            said = f"{response.status} {response.reason}".strip()
            raise ServiceError(f"the site answered with {said}", status=response.status)
        kind = response.headers.get("content-type", "")
        document = ForeignDocument(response.content, kind, response.url, most)
        page, unfinished = await self._documents.read(document, _reading_end(end))
        if not unfinished:
            return FetchedPage(url, page)
        try:
            return FetchedPage(url, await self._render(response.url, page, most, end))
        except ServiceError as error:
            if not page.text:
                raise
            return FetchedPage(
                url, page, note=f"Its scripts may add to this, but {error!s:.{_MAX_ERROR}}"
            )

    async def _render(self, url: str, page: PageText, most: int, end: float) -> PageText:
        """The page as its scripts make it, unless they only take away from it."""
        if self._renderer is None:
            raise ServiceError(f"its text is made by JavaScript. {self._no_browser}")
        seconds = end - asyncio.get_running_loop().time() - _SPARE_SECONDS
        made = await self._renderer.render(url, max(seconds, _SPARE_SECONDS), self._largest)
        await self._check_rules(made.url)
        document = ForeignDocument(made.html.encode("utf-8", "replace"), _MADE, made.url, most)
        found, _ = await self._documents.read(document, _reading_end(end))
        if len(found.text) <= len(page.text):
            return page
        return found if made.complete else replace(found, complete=False)

    async def _check_rules(self, url: str) -> None:
        if self._keeps_rules and not (await self._find_rules(url)).can_fetch(_NAME, url):
            raise ServiceError("the site's robots.txt asks not to fetch it")

    async def _find_rules(self, url: str) -> RobotFileParser:
        origin = url_origin(url)
        rules = self._rules.get(origin)
        if rules is None:
            rules = self._rules[origin] = await self._read_rules(url)
            if len(self._rules) > _MAX_ORIGINS:
                self._rules.popitem(last=False)
        return rules

    async def _read_rules(self, url: str) -> RobotFileParser:
        rules = RobotFileParser()
        request = HttpRequest("GET", urljoin(url, "/robots.txt"), {"Accept": "text/plain"})
        response = await self._client.send(request, _ROBOTS_BYTES)
        if response.status in (401, 403):
            lines = ["User-agent: *", "Disallow: /"]
        elif response.status >= 400:
            lines = []
        else:
            lines = response.content.decode("utf-8", "replace").splitlines()
        rules.parse(lines)
        # Without this, a file that says nothing would forbid everything.
        rules.modified()
        return rules


def _check_limits(timeout: Any, max_bytes: Any) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < inf:
        raise ValueError(f"timeout is a number of seconds above 0, not {timeout!r}")
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
        raise ValueError(f"max_bytes is a whole number from 1 up, not {max_bytes!r}")


def _find_renderer(browser: Browser | bool | None, reach: Reach) -> tuple[PageRenderer | None, str]:
    """The renderer that shows pages, or why there is none."""
    if browser is False:
        return None, "No browser is used here: browser=False."
    if browser not in (None, True) and not isinstance(browser, Browser):
        raise ValueError(f"browser is True, False or Browser(…), not {browser!r}")
    settings = browser if isinstance(browser, Browser) else Browser()
    try:
        find_browser(settings.executable)
    except ServiceError as error:
        if browser is not None:
            raise
        return None, str(error)
    return PageRenderer(settings, reach), ""


def _reading_end(end: float) -> float:
    """When a page must be read, by the clock that all loops share, a bit before all is over."""
    return monotonic() + end - asyncio.get_running_loop().time() - _SPARE_SECONDS
