"""The facts that are read when somebody asks for the figures."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from wieldy.core.errors import WieldyError
from wieldy.core.task import time_limit
from wieldy.mcp.serving.health import upstream_health
from wieldy.mcp.serving.http_endpoint import HttpEndpoint

from .instruments import clean_label

# A store that does not answer must not hold up the other figures.
STORE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """The facts that this process knows by itself."""

    running: int
    queued: int
    sessions: int
    draining: bool
    upstreams: dict[str, bool]
    refused: dict[str, int]


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What the store says. None is what could not be read, or does not exist."""

    pending: int | None = None
    oldest_pending: float | None = None
    store_up: bool | None = None
    commits: int | None = None
    commit_seconds: float | None = None


class StoredCollector(Collector):
    """Gives metrics of which some are read from the store before, by `read_stored`."""

    async def read_stored(self) -> None:
        """Read what the store says, in bounded time."""


class FactCollector(StoredCollector):
    """Gives how things stand as metrics; the store is read before, by `read_stored`."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._box: Any = endpoint.server.box
        self._stored = StoredFacts()

    async def read_stored(self) -> None:
        """Read what the store says; it has two seconds to answer."""
        pending, oldest, up = await _read_pending(self._box)
        commits, seconds = _read_commits(self._box)
        recorded = getattr(self._box, "recorded", False)
        self._stored = StoredFacts(pending, oldest, up if recorded else None, commits, seconds)

    def read_live(self) -> LiveFacts:
        """Collect the facts that this process knows by itself. From any thread."""
        count = getattr(self._box, "count_calls", None)
        running, queued = (0, 0) if count is None else count()
        closing = self._endpoint.server.traffic.closing
        sessions = self._endpoint.open_sessions
        limits = getattr(self._box, "call_limits", None)
        refused = {} if limits is None else limits.count_refused()
        return LiveFacts(running, queued, sessions, closing, upstream_health(self._box), refused)

    def collect(self) -> Iterator[Metric]:
        """The metrics, without those that could not be read."""
        live, stored = self.read_live(), self._stored
        yield InfoMetricFamily("wieldy", "What runs.", {"version": version("wieldy")})
        yield from _live_metrics(live)
        for name, text, value in _stored_gauges(stored):
            if value is not None:
                yield GaugeMetricFamily(name, text, float(value))
        if stored.commits is not None:
            yield CounterMetricFamily(
                "wieldy_store_commits", "Commits of this process.", stored.commits
            )
            yield CounterMetricFamily(
                "wieldy_store_commit_seconds", "How long they took.", stored.commit_seconds
            )


def _live_metrics(live: LiveFacts) -> Iterator[Metric]:
    upstreams = GaugeMetricFamily(
        "wieldy_upstream_up", "Whether a server behind is connected.", labels=["server"]
    )
    for name, up in live.upstreams.items():
        upstreams.add_metric([clean_label(name)], float(up))
    yield upstreams
    if live.refused:
        # The limits are as many as the file or the program sets, whoever calls.
        refused = CounterMetricFamily(
            "wieldy_calls_limited", "Calls that a limit has refused.", labels=["limit"]
        )
        for name, count in live.refused.items():
            refused.add_metric([clean_label(name)], count)
        yield refused
    gauges: tuple[tuple[str, str, float], ...] = (
        ("wieldy_calls_running", "Calls that have begun and not ended.", live.running),
        ("wieldy_calls_queued", "Calls among these that wait for a slot.", live.queued),
        ("wieldy_sessions", "Open sessions of the older MCP protocol.", live.sessions),
        ("wieldy_draining", "Whether the server is stopping.", live.draining),
    )
    for metric, text, value in gauges:
        yield GaugeMetricFamily(metric, text, float(value))


def _stored_gauges(stored: StoredFacts) -> Iterable[tuple[str, str, float | None]]:
    return (
        ("wieldy_pending_calls", "Calls that wait for a person.", stored.pending),
        (
            "wieldy_pending_oldest_seconds",
            "How long the oldest of these has waited; 0 if there is none.",
            stored.oldest_pending,
        ),
        ("wieldy_store_up", "Whether the store answers.", stored.store_up),
    )


async def _read_pending(box: Any) -> tuple[int | None, float | None, bool]:
    """How many calls wait, how long the oldest has waited, and whether the store answered."""
    try:
        async with time_limit(STORE_SECONDS):
            count, since = await _count_pending(box)
    except (WieldyError, TimeoutError, OSError):
        return None, None, False
    age = None if count is None else 0.0
    if since is not None:
        age = max(0.0, time.time() - since)
    return count, age, True


async def _count_pending(box: Any) -> tuple[int | None, float | None]:
    if getattr(box, "recorded", False) and hasattr(box, "ledger"):
        found: tuple[int, float | None] = await box.ledger.count_pending()
        return found
    if not hasattr(box, "pending"):
        return None, None
    waiting = await box.pending()
    return len(waiting), min((parked.at for parked in waiting), default=None)


def _read_commits(box: Any) -> tuple[int | None, float | None]:
    opened = box.store.in_use if getattr(box, "recorded", False) and hasattr(box, "store") else None
    if opened is None:
        return None, None
    commits = opened.database.commits
    return commits.count, commits.seconds
