"""Services that search the web: Bocha, SearXNG, Brave and Tavily, each by its own HTTP API."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from wieldy.core.bounded_json import dump_json, parse_json
from wieldy.core.errors import ServiceError
from wieldy.core.network.http_client import Client, HttpRequest, HttpResponse, url_origin
from wieldy.core.secrets.secret import Secret, reveal_secret

from .search_result import SearchQuestion, SearchResult, pick_text

_MAX_SIZE = 5_000_000
_SECONDS = 30.0
_PERIODS = {"oneDay": "day", "oneWeek": "week", "oneMonth": "month", "oneYear": "year"}
_BRAVE_PERIODS = {"oneDay": "pd", "oneWeek": "pw", "oneMonth": "pm", "oneYear": "py"}


class _Service:
    """A search service behind an address that the program chose, or that its maker has."""

    name = ""
    variable = ""
    endpoint = ""

    def __init__(self, api_key: str | Secret | None = None, endpoint: str | None = None) -> None:
        self._key = api_key
        self._url = self.endpoint if endpoint is None else _check_address(endpoint)
        self._client = Client(_SECONDS)
        # It may well be on this machine: it is the program's choice, not a page's.
        self._client.allow(self._url)

    @property
    def held(self) -> bool:
        """Whether there may be connections."""
        return self._client.held

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.close()

    def _find_key(self) -> str:
        """The key, as it is now: the environment may get it after the tools were added."""
        found = reveal_secret(self._key) if self._key else os.environ.get(self.variable, "")
        if not found:
            raise ServiceError(
                f"{self.name} needs a key. Set the environment variable {self.variable}, or "
                f"give it in the program: {type(self).__name__}(api_key=Secret(…))."
            )
        return str(found)

    async def _ask(self, request: HttpRequest) -> Any:
        response = await self._client.send(request, _MAX_SIZE)
        if response.status != 200:
            raise _refusal(self.name, response)
        try:
            return parse_json(response.content)
        except ValueError:
            raise ServiceError(f"{self.name} answered with something that is not JSON") from None

    async def _post(self, body: Mapping[str, Any], private: Mapping[str, str]) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        content = dump_json(body).encode()
        return await self._ask(HttpRequest("POST", self._url, headers, content, private))

    async def _get(self, query: Mapping[str, Any], private: Mapping[str, str] | None = None) -> Any:
        url = f"{self._url}?{urlencode(query)}"
        return await self._ask(
            HttpRequest("GET", url, {"Accept": "application/json"}, private=private)
        )


class Bocha(_Service):
    """Bocha's web search.

    Args:
        api_key: The key; without it that of `BOCHA_API_KEY`.
        endpoint: Another address of the same API.
    """

    name = "Bocha"
    variable = "BOCHA_API_KEY"
    endpoint = "https://api.bochaai.com/v1/web-search"

    async def search(self, question: SearchQuestion) -> list[SearchResult]:
        """The pages that were found, the best first."""
        body = {
            "query": question.words,
            "freshness": _days_text(question, "..") or question.freshness,
            "summary": True,
            "count": question.count,
        }
        found = await self._post(body, {"Authorization": f"Bearer {self._find_key()}"})
        data = found.get("data", found) if isinstance(found, dict) else {}
        pages = data.get("webPages") if isinstance(data, dict) else None
        return _read_results(
            pages.get("value") if isinstance(pages, dict) else None,
            question.count,
            summary=("summary", "snippet"),
            site=("siteName",),
            published=("datePublished", "dateLastCrawled"),
        )


class SearXNG(_Service):
    """A SearXNG instance whose settings allow the format "json".

    Args:
        url: The address of the instance.
    """

    name = "SearXNG"

    def __init__(self, url: str) -> None:
        super().__init__(endpoint=f"{_check_address(url).rstrip('/')}/search")

    async def search(self, question: SearchQuestion) -> list[SearchResult]:
        """The pages that were found, the best first."""
        query = {"q": question.words, "format": "json"}
        if question.days is not None:
            raise ServiceError("SearXNG knows no range of days. Use oneDay, oneMonth or oneYear.")
        if question.freshness in _PERIODS:
            query["time_range"] = _PERIODS[question.freshness]
        found = await self._get(query)
        return _read_results(
            found.get("results") if isinstance(found, dict) else None,
            question.count,
            summary=("content",),
            published=("publishedDate",),
        )


class Brave(_Service):
    """Brave's web search.

    Args:
        api_key: The key; without it that of `BRAVE_API_KEY`.
        endpoint: Another address of the same API.
    """

    name = "Brave"
    variable = "BRAVE_API_KEY"
    endpoint = "https://api.search.brave.com/res/v1/web/search"

    async def search(self, question: SearchQuestion) -> list[SearchResult]:
        """The pages that were found, the best first."""
        query: dict[str, Any] = {"q": question.words, "count": min(question.count, 20)}
        freshness = _days_text(question, "to") or _BRAVE_PERIODS.get(question.freshness)
        if freshness:
            query["freshness"] = freshness
        found = await self._get(query, {"X-Subscription-Token": self._find_key()})
        pages = found.get("web") if isinstance(found, dict) else None
        return _read_results(
            pages.get("results") if isinstance(pages, dict) else None,
            question.count,
            summary=("description",),
            published=("page_age", "age"),
        )


class Tavily(_Service):
    """Tavily's search.

    Args:
        api_key: The key; without it that of `TAVILY_API_KEY`.
        endpoint: Another address of the same API.
    """

    name = "Tavily"
    variable = "TAVILY_API_KEY"
    endpoint = "https://api.tavily.com/search"

    async def search(self, question: SearchQuestion) -> list[SearchResult]:
        """The pages that were found, the best first."""
        body: dict[str, Any] = {"query": question.words, "max_results": min(question.count, 20)}
        if question.days is not None:
            first, last = question.days
            body |= {"start_date": first.isoformat(), "end_date": last.isoformat()}
        elif question.freshness in _PERIODS:
            body["time_range"] = _PERIODS[question.freshness]
        found = await self._post(body, {"Authorization": f"Bearer {self._find_key()}"})
        return _read_results(
            found.get("results") if isinstance(found, dict) else None,
            question.count,
            summary=("content",),
            published=("published_date",),
        )


def _check_address(url: Any) -> str:
    if not isinstance(url, str) or not url_origin(url).startswith(("http://", "https://")):
        raise ValueError(
            f"a service has an address such as http://localhost:8888, not {url!r:.100}"
        )
    return url


def _days_text(question: SearchQuestion, between: str) -> str | None:
    if question.days is None:
        return None
    return between.join(day.isoformat() for day in question.days)


def _read_results(
    items: Any,
    count: int,
    *,
    summary: tuple[str, ...],
    site: tuple[str, ...] = (),
    published: tuple[str, ...] = (),
) -> list[SearchResult]:
    """The results of an answer; what has no address is left out."""
    found = [
        SearchResult(
            pick_text(item, "name", "title"),
            pick_text(item, "url"),
            pick_text(item, *summary),
            pick_text(item, *site),
            pick_text(item, *published),
        )
        for item in (items if isinstance(items, list) else [])
    ]
    return [result for result in found if result.url][:count]


def _refusal(name: str, response: HttpResponse) -> ServiceError:
    """Why a service did not search, with what helps."""
    status = response.status
    said = response.content[:300].decode("utf-8", "replace").strip()
    if status == 401:
        return ServiceError(f"{name} does not know the key (401). Check it.", status=status)
    if status == 403:
        reason = f"{name} refused the request (403): the key lacks the right or the credit for it"
        return ServiceError(reason, status=status, body=said)
    if status == 429:
        reason = f"{name} is asked too often (429). Wait, and ask again."
        return ServiceError(reason, status=status, body=said, temporary=True)
    reason = f"{name} answered with {status}{f': {said}' if said else ''}"
    return ServiceError(reason, status=status, body=said, temporary=status >= 500)
