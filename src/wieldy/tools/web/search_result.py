"""What a search of the web is asked and gives, whichever service does it."""

import re
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Protocol

# The times that a search can be narrowed to, in Bocha's words; beside them a range of days.
FRESHNESS = ("noLimit", "oneDay", "oneWeek", "oneMonth", "oneYear")
_RANGE = re.compile(r"(\d{4}-\d{2}-\d{2})\.\.(\d{4}-\d{2}-\d{2})")
_MAX_RESULTS = 50


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page that was found."""

    title: str
    url: str
    summary: str = ""
    site: str = ""
    published: str = ""

    def to_dict(self) -> dict[str, str]:
        """The known fields of the result."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """A search that was checked.

    Attributes:
        words: What is looked for.
        freshness: One of `FRESHNESS`; "range" where the days say it.
        days: The first and the last day, where a range was asked for.
        count: How many results are wanted.
    """

    words: str
    freshness: str
    days: tuple[date, date] | None
    count: int


class SearchProvider(Protocol):
    """A service that searches the web."""

    async def search(self, question: SearchQuestion) -> list[SearchResult]:
        """The pages that were found, the best first.

        Raises:
            ServiceError: The service can't be asked, or refused.
        """


def check_question(query: str, freshness: str, count: int) -> SearchQuestion:
    """The question that a service is asked; `ValueError` says what is wrong with it."""
    words = query.strip()
    if not words:
        raise ValueError("query is empty. Say what to look for.")
    if not 1 <= count <= _MAX_RESULTS:
        raise ValueError(f"count is 1 to {_MAX_RESULTS}, not {count}.")
    if freshness in FRESHNESS:
        return SearchQuestion(words, freshness, None, count)
    found = _RANGE.fullmatch(freshness)
    try:
        days = (date.fromisoformat(found[1]), date.fromisoformat(found[2])) if found else None
    except ValueError:
        days = None
    if days is None or days[0] > days[1]:
        raise ValueError(
            f"freshness is one of {', '.join(FRESHNESS)}, or days such as "
            f"2026-01-01..2026-01-31, not {freshness!r:.60}."
        )
    return SearchQuestion(words, "range", days, count)


def pick_text(item: Any, *names: str) -> str:
    """The first of some fields that holds text, however the service answers."""
    if isinstance(item, dict):
        for name in names:
            value = item.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
    return ""
