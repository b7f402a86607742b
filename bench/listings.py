"""What it costs to list calls, waiting calls, sessions and runs over the API among very many."""

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx2

from tests.store.server import Server
from wieldy import Toolbox
from wieldy.server import app
from wieldy.server.api.answer_shapes import make_cursor

from .effort import Effort
from .many_rows import NEWEST, SPACING, fill_store
from .row import Row, amount

_COUNT = 1_000_000
_MILLISECONDS = 300
_ASKED = 3
Query = tuple[str, dict[str, str]]


def listings(effort: Effort) -> list[Row]:
    """The slowest answer of each list, whatever it is filtered by, on both databases."""
    count = effort.count(_COUNT)
    rows = []
    for name, made in (("SQLite", _sqlite_store), ("PostgreSQL", _postgres_store)):
        with made() as url:
            asyncio.run(fill_store(url, count))
            took = asyncio.run(_ask_all(url, count, effort))
        for path, answers in took.items():
            slowest, query = max((spent, query) for query, spent in answers.items())
            print(f"{name}: the slowest is /api/{path}?{query}", file=sys.stderr)
            title = f"{len(answers)} lists of /api/{path} among {count:,}, {name}, the slowest"
            rows.append(
                amount(title, slowest, answers[""], "ms", "without a filter", _MILLISECONDS)
            )
    return rows


@contextmanager
def _sqlite_store() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/many.db"


@contextmanager
def _postgres_store() -> Iterator[str]:
    server = Server()
    try:
        yield server.new_database()
    finally:
        server.remove()


async def _ask_all(url: str, count: int, effort: Effort) -> dict[str, dict[str, float]]:
    """The milliseconds of each answer, by list and query."""
    times = effort.rounds(_ASKED)
    found: dict[str, dict[str, float]] = {}
    async with Toolbox(store=url) as box:
        transport = httpx2.ASGITransport(app(box, metrics=None))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path, params in _queries(count, effort):
                query = str(httpx2.QueryParams(params))
                spent = [await _ask(client, path, params) for _ in range(times)]
                found.setdefault(path, {})[query] = min(spent) * 1e3
    return found


async def _ask(client: httpx2.AsyncClient, path: str, params: Mapping[str, str]) -> float:
    started = time.perf_counter()
    answer = await client.get(f"/api/{path}", params=params, timeout=60)
    spent = time.perf_counter() - started
    answer.raise_for_status()
    return spent


def _queries(count: int, effort: Effort) -> Iterator[Query]:
    """Every filter of every list with values that are frequent, rare and absent, and every pair."""
    deep = NEWEST - SPACING * count * 0.9
    moment = datetime.fromtimestamp(deep, UTC).isoformat()
    filters: dict[str, dict[str, list[str]]] = {
        "calls": {
            "tool": ["search", "early", "tool_7", "none"],
            "state": ["ok", "error", "unknown", "started", "pending"],
            "caller": ["ann", "caller_8", "nobody"],
            "session": ["ann", "caller_9", "nothing"],
            "parent": ["call_000000000006", "none"],
            "since": [moment],
            "until": [moment],
            "cursor": [make_cursor(deep, "call_")],
        },
        "pending": {
            "agent": ["agent", "none"],
            "session": ["caller_8", "none"],
            "cursor": [make_cursor(NEWEST - SPACING, "wait_")],
        },
        "sessions": {"cursor": [make_cursor(deep, "session-7")]},
        "runs": {
            "state": ["done", "failed", "running", "interrupted"],
            "agent": ["helper", "agent_7", "none"],
            "session": ["ann", "caller_8", "nobody"],
            "cursor": [make_cursor(deep, "run-7")],
        },
    }
    for path, known in filters.items():
        yield path, {}
        pairs = [*itertools.combinations(known, 2)]
        for names in [*((name,) for name in known), *pairs[: effort.count(len(pairs))]]:
            for values in itertools.product(*(known[name] for name in names)):
                yield path, dict(zip(names, values, strict=True))
