"""Plots: how many calls there were, how long they took, how many failed, and what they cost."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import AwareDatetime, Field

from wieldy.store.databases.tables import LATENCY_BOUNDS
from wieldy.store.rollups import MINUTE, Rollup

from .answer_shapes import AnswerShape, Input, Moment, PlainText
from .api_operations import Asked, operation
from .api_problems import wrong_value

_MAX_BUCKETS = 200
_MAX_NAMES = 50
_MANY = 20
_DAY = 86_400.0
_MAX_SPAN = 400 * _DAY
_FAILED = frozenset(("error", "timeout", "unknown"))
# A call that waits is counted when it has ended.
_UNENDED = "pending"


class PlotQuery(Input):
    """Which calls to count."""

    since: AwareDatetime | None = Field(None, description="A day before `until` if not said.")
    until: AwareDatetime | None = Field(None, description="Now if not said.")
    tool: str | None = Field(None, max_length=1000)
    caller: str | None = Field(None, max_length=500)


class CallFigures(AnswerShape):
    """What some calls add up to. Percentiles are seconds; those of many calls are estimated."""

    calls: int
    failures: int = Field(description="Those with an error, a timeout or an unknown end.")
    p50: float | None
    p90: float | None
    p99: float | None
    cost: float


class PlotBucket(CallFigures):
    """The calls of one step of time."""

    at: Moment


class NamedFigures(CallFigures):
    """The calls of one tool or caller."""

    name: PlainText | None = Field(description="Null for calls without a caller.")


class Plots(AnswerShape):
    """The calls of a span of time."""

    since: Moment
    until: Moment
    bucket_seconds: int
    buckets: list[PlotBucket] = Field(description="In order; steps without calls are left out.")
    by_tool: list[NamedFigures] = Field(description="The most used first, 50 at most.")
    by_caller: list[NamedFigures] = Field(description="The most active first, 50 at most.")


@operation("GET", "/plots", Plots, query=PlotQuery)
async def get_plots(asked: Asked) -> Plots:
    """Read how many calls there were, how long they took, how many failed, and their cost.

    Callers see their own calls; those with the role approve or administer see all. Figures of
    the last minute may be missing.
    """
    since, until = _read_span(asked.query)
    only = _find_only(asked)
    # Whole minutes, and few enough of them.
    step = max(1, math.ceil((until - since) / MINUTE / (_MAX_BUCKETS - 1))) * MINUTE
    rollups = asked.store.rollups
    await asked.api.flush_figures()
    found = await rollups.read(since, until, step, ["status"], only)
    span = math.ceil((until - since) / MINUTE + 1) * MINUTE
    named = {
        label: await rollups.read(since, until, span, [label, "status"], only)
        for label in ("tool", "caller")
    }
    return Plots(
        since=_moment(since),
        until=_moment(until),
        bucket_seconds=step,
        buckets=[
            PlotBucket(at=_moment(at), **_add_up(each))
            for at, each in sorted(_group(found, "at").items())
        ],
        by_tool=_name_figures(named["tool"], "tool"),
        by_caller=_name_figures(named["caller"], "caller"),
    )


def _read_span(query: PlotQuery) -> tuple[float, float]:
    until = time.time() if query.until is None else query.until.timestamp()
    since = until - _DAY if query.since is None else query.since.timestamp()
    if not (0 < until - since <= _MAX_SPAN and since >= 0 and until <= time.time() + _DAY):
        raise wrong_value("`until` is after `since`, 400 days at most, and not in the future.")
    return since, until


def _find_only(asked: Asked) -> dict[str, str]:
    """The labels that calls must have to be counted."""
    query: PlotQuery = asked.query
    only = {} if query.tool is None else {"tool": query.tool}
    if not asked.sees_all:
        if query.caller not in (None, asked.name):
            # Nobody has this name together with their own.
            raise wrong_value("You see the figures of your own calls. Leave `caller` out.")
        only["caller"] = asked.name or ""
    elif query.caller is not None:
        only["caller"] = query.caller
    return only


def _group(found: Iterable[Rollup], label: str) -> dict[Any, list[Rollup]]:
    groups: dict[Any, list[Rollup]] = {}
    for each in found:
        if each.status != _UNENDED:
            groups.setdefault(getattr(each, label), []).append(each)
    return groups


def _name_figures(found: Iterable[Rollup], label: str) -> list[NamedFigures]:
    made = [NamedFigures(name=name, **_add_up(each)) for name, each in _group(found, label).items()]
    return sorted(made, key=lambda each: -each.calls)[:_MAX_NAMES]


def _add_up(rollups: Sequence[Rollup]) -> Mapping[str, Any]:
    lengths = join_lengths(rollups)
    return {
        "calls": sum(each.count for each in rollups),
        "failures": sum(each.count for each in rollups if each.status in _FAILED),
        "p50": estimate_percentile(lengths, 0.5),
        "p90": estimate_percentile(lengths, 0.9),
        "p99": estimate_percentile(lengths, 0.99),
        "cost": sum(each.cost for each in rollups),
    }


class CallLengths(NamedTuple):
    """How many calls took how long: a number for each range, and the times of a range if known."""

    took: Sequence[int]
    spans: Sequence[tuple[float, float] | None]
    longest: float


def join_lengths(rollups: Sequence[Rollup]) -> CallLengths:
    """The lengths of the calls of several sums."""
    took = [sum(counts) for counts in zip(*(each.took for each in rollups), strict=True)]
    spans: list[tuple[float, float] | None] = []
    for number in range(len(took)):
        found = [each.spans[number] for each in rollups if each.took[number]]
        known = [span for span in found if span is not None]
        whole = known and len(known) == len(found)
        spans.append((min(known)[0], max(span[1] for span in known)) if whole else None)
    return CallLengths(took, spans, max(each.longest for each in rollups))


def estimate_percentile(lengths: CallLengths, share: float) -> float | None:
    """The length below which this share of calls is, or None if there are no calls.

    Between the shortest and the longest time of a range the calls count as evenly spread. If
    these are not known, they are the ends of the range; the last range has no end, so that its
    beginning is given.
    """
    wanted = share * sum(lengths.took)
    if not wanted:
        return None
    below, found = 0.0, 0.0
    ends = (*LATENCY_BOUNDS, math.inf)
    for count, span, end in zip(lengths.took, lengths.spans, ends, strict=True):
        if count and count >= wanted:
            shortest, longest = _widen_span(span, count, below, end)
            found = shortest + (longest - shortest) * wanted / count
            break
        wanted -= count
        below = end
    return min(found, lengths.longest)


def _widen_span(
    span: tuple[float, float] | None, count: int, below: float, end: float
) -> tuple[float, float]:
    """The shortest and the longest time of some calls within a range."""
    if span is None:
        return below, below if math.isinf(end) else end
    if count < _MANY or math.isinf(end):
        return span
    # Of many calls the means of their minutes are known, and single calls lie around them.
    shortest, longest = span
    return (
        shortest - min(shortest - below, end - shortest),
        longest + min(longest - below, end - longest),
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
