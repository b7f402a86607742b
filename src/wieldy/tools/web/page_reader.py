"""Read pages of the web: fetched within limits, and only from where requests may go."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from wieldy.core.errors import ServiceError
from wieldy.core.network.addresses import Reach
from wieldy.core.network.http_client import Client, HttpRequest, url_origin

from .page_text import PageText, read_page

_ACCEPT = "text/html, application/xhtml+xml, application/pdf, application/json, text/*;q=0.9"
_ROBOTS_BYTES = 500_000
_MOST_ORIGINS = 200
_NAME = "wieldy"


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What became of one address: a page, or why there is none."""

    url: str
    page: PageText | None = None
    error: str = ""
    status: int | None = None

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
        return {**facts, "content": text}


class PageReader:
    """Fetches pages over connections of its own.

    Args:
        allow_private: Whether this machine and the networks around it may be reached.
        timeout: How many seconds one address may take, redirects and all.
        max_bytes: How large a page may be, unpacked.
        robots: Whether `robots.txt` of a site is kept to.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        timeout: float = 30,
        max_bytes: int = 10_000_000,
        robots: bool = False,
        client: Client | None = None,
    ) -> None:
        self._client = client or Client(timeout, Reach(anywhere=allow_private))
        self._seconds = timeout
        self._largest = max_bytes
        self._keeps_rules = robots
        self._rules: OrderedDict[str, RobotFileParser] = OrderedDict()

    @property
    def held(self) -> bool:
        """Whether there may be connections."""
        return self._client.held

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.close()

    async def fetch(self, url: str, most: int) -> FetchedPage:
        """The page at an address, with up to `most` characters of its text; never raises."""
        try:
            async with asyncio.timeout(self._seconds):
                return FetchedPage(url, await self._read(url, most))
        except TimeoutError:
            return FetchedPage(url, error=f"it did not come within {self._seconds:g} seconds")
        except ServiceError as error:
            return FetchedPage(url, error=str(error), status=error.status)

    async def _read(self, url: str, most: int) -> PageText:
        if urlsplit(url).scheme.lower() not in ("http", "https") or not url_origin(url):
            raise ServiceError("it is not an address that begins with http:// or https://")
        if self._keeps_rules and not (await self._find_rules(url)).can_fetch(_NAME, url):
            raise ServiceError("the site's robots.txt asks not to fetch it")
        response = await self._client.send(
            HttpRequest("GET", url, {"Accept": _ACCEPT}), self._largest
        )
        if not 200 <= response.status < 300:
            said = f"{response.status} {response.reason}".strip()
            raise ServiceError(f"the site answered with {said}", status=response.status)
        kind = response.headers.get("content-type", "")
        # Parsing takes a while for a large page, and must not hold up the loop.
        return await asyncio.to_thread(read_page, response.content, kind, response.url, most)

    async def _find_rules(self, url: str) -> RobotFileParser:
        origin = url_origin(url)
        rules = self._rules.get(origin)
        if rules is None:
            rules = self._rules[origin] = await self._read_rules(url)
            if len(self._rules) > _MOST_ORIGINS:
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
