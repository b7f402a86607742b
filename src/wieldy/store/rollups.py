"""What the calls of each minute add up to, kept for plots long after the calls are pruned."""

import hashlib
import math
import time
import uuid
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, cast, delete, func, insert, select, update

from wieldy.core.bounded_json import dump_json

from .databases.damaged_values import show_value
from .databases.prepared_statements import start_insert
from .databases.tables import LATENCY_BOUNDS, Number, chores, rollups
from .process_owner import shared_clock
from .store_access import StoreAccess

MINUTE = 60
_RANGES = len(LATENCY_BOUNDS) + 1
_TOOK = tuple(rollups.c[f"took_{number}"] for number in range(_RANGES))
_SUMS = ("count", "seconds", "cost", *(column.name for column in _TOOK))
_LABELS = ("tool", "caller", "status")
_KEPT_SECONDS = 90 * 86_400
_MARK = "rollups "
_MARK_SECONDS = 86_400
_MAX_STEPS = 10_000
# SQLite takes 32,766 values in a statement.
_ROWS_AT_ONCE = 500


class RollupKey(NamedTuple):
    """The calls that are added up together: those of a minute with the same labels."""

    minute: int
    tool: str
    caller: str | None
    status: str


class RollupSum:
    """What the calls of a key add up to; it grows."""

    __slots__ = ("cost", "count", "seconds", "took")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.cost = 0.0
        self.took = [0] * _RANGES

    def add(self, seconds: float | None, cost: float) -> None:
        """Count one call."""
        self.count += 1
        self.cost += cost
        if seconds is not None:
            self.seconds += seconds
            self.took[bisect_left(LATENCY_BOUNDS, seconds)] += 1

    def merge(self, other: "RollupSum") -> None:
        """Count the calls of another sum too."""
        self.count += other.count
        self.seconds += other.seconds
        self.cost += other.cost
        self.took = [own + more for own, more in zip(self.took, other.took, strict=True)]


@dataclass(frozen=True, slots=True)
class Rollup:
    """What the calls of one step of time with the same labels add up to.

    Attributes:
        at: When the step begins, in seconds since the epoch.
        tool: The tool, or None if tools are added up together.
        caller: The caller, or None.
        status: The status, or None if they are added up together.
        count: How many calls there were.
        seconds: How long they took together.
        cost: What they cost together.
        took: How many calls took how long: one number for each range of `LATENCY_BOUNDS`, and
            one for longer calls.
        spans: For each of these ranges the shortest and the longest time in it, as far as the
            sums tell: calls of one minute with the same labels count with their mean. None if a
            minute has calls in several ranges, so that their sum tells nothing of one range.
        longest: No call took longer than this.
    """

    at: int
    tool: str | None
    caller: str | None
    status: str | None
    count: int
    seconds: float
    cost: float
    took: tuple[int, ...]
    spans: tuple[tuple[float, float] | None, ...]
    longest: float

    def to_dict(self) -> dict[str, Any]:
        """Convert it for programs.

        Returns:
            Plain JSON.
        """
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {**facts, "took": list(self.took)}


class Rollups:
    """The sums of a store. Several processes may add to the same minute."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        self._mark = _MARK + uuid.uuid4().hex[:20]
        self._last = 0.0

    async def add(self, sums: Mapping[RollupKey, RollupSum]) -> None:
        """Add sums to those of the store, in one step.

        Args:
            sums: What to add.

        Raises:
            StoreError: The store can't be written; nothing was added.
        """
        rows = [_make_row(key, each) for key, each in sums.items()]
        mark, turn = self._mark, max(time.time(), math.nextafter(self._last, math.inf))
        self._last = turn

        def write(connection: Connection) -> None:
            # An earlier attempt may have been committed before the connection was lost.
            if _take_turn(connection, mark, turn):
                for start in range(0, len(rows), _ROWS_AT_ONCE):
                    _upsert(connection, rows[start : start + _ROWS_AT_ONCE])
                _forget_old(connection)

        await self._store.write(write)

    async def read(
        self,
        since: float,
        until: float,
        step: int = MINUTE,
        by: Sequence[str] = _LABELS,
        only: Mapping[str, str] | None = None,
    ) -> list[Rollup]:
        """Read the sums of a span of time.

        Args:
            since: The first moment, in seconds since the epoch.
            until: The moment after the last one.
            step: How many seconds are added up: a multiple of 60.
            by: The labels that are kept apart: some of `tool`, `caller` and `status`.
            only: Labels that the calls must have, by name.

        Returns:
            The sums that are not empty, in the order of time.

        Raises:
            ValueError: The step or a label can't be used, or there are too many steps.
            StoreError: The store can't be read.

        Example:
            `await box.store.rollups.read(now - 3600, now, step=300, by=["tool"])`
        """
        only = only or {}
        _check_span(since, until, step, [*by, *only] if not isinstance(by, str) else by)
        at = (rollups.c.minute - rollups.c.minute % step).label("at")
        labels = [rollups.c[name] for name in _LABELS if name in by]
        sums = [func.sum(_number(name)).label(name) for name in _SUMS]
        within = (rollups.c.minute >= since - since % step, rollups.c.minute < until)
        named = (rollups.c[name] == label for name, label in only.items())
        query = (
            select(at, *labels, *sums, *_span_columns())
            .where(*within, *named)
            .group_by(at, *labels)
        )
        ordered = query.order_by(at, *labels)
        rows = await self._store.read(lambda connection: connection.execute(ordered).all())
        return [_read_row(row._asdict()) for row in rows]


def _span_columns() -> list[ColumnElement[Any]]:
    """What tells the lengths of calls more exactly than the ranges in which they are counted."""
    seconds, count = _number("seconds"), _number("count")
    found: list[ColumnElement[Any]] = [func.max(seconds).label("longest")]
    for column in _TOOK:
        alone = (column > 0) & (column == rollups.c.count)
        mean = case((alone, seconds / count))
        found += [
            func.min(mean).label(f"shortest_{column.name}"),
            func.max(mean).label(f"longest_{column.name}"),
            func.sum(case((alone, _number(column.name)), else_=0.0)).label(f"alone_{column.name}"),
        ]
    return found


def _number(name: str) -> ColumnElement[float]:
    """A column to add up: what is no number adds nothing, and no sum is too large."""
    return cast(rollups.c[name], Number)


def _check_span(since: float, until: float, step: int, by: Sequence[str]) -> None:
    if not isinstance(step, int) or step < MINUTE or step % MINUTE:
        raise ValueError(f"A step is a multiple of {MINUTE} seconds, not {step!r}.")
    if isinstance(by, str) or not set(by) <= set(_LABELS):
        raise ValueError(f"`by` is a list of some of {', '.join(_LABELS)}, not {by!r}.")
    if not (math.isfinite(since) and math.isfinite(until)):
        raise ValueError("A span of time begins and ends at finite moments.")
    if (until - since) / step > _MAX_STEPS:
        raise ValueError(f"That is more than {_MAX_STEPS:,} steps. Use a longer step.")


def _make_row(key: RollupKey, each: RollupSum) -> dict[str, Any]:
    labels = dump_json([key.tool, key.caller, key.status])
    took = {column.name: count for column, count in zip(_TOOK, each.took, strict=True)}
    return {
        **key._asdict(),
        "key": hashlib.sha256(labels.encode()).hexdigest(),
        "count": each.count,
        "seconds": each.seconds,
        "cost": each.cost,
        **took,
    }


def _read_row(row: Mapping[str, Any]) -> Rollup:
    return Rollup(
        int(row["at"]),
        show_value(row.get("tool")),
        show_value(row.get("caller")),
        show_value(row.get("status")),
        _read_count(row["count"]),
        float(row["seconds"]),
        float(row["cost"]),
        tuple(_read_count(row[column.name]) for column in _TOOK),
        tuple(_read_time_span(row, column.name) for column in _TOOK),
        float(row["longest"]),
    )


def _read_count(value: float) -> int:
    return int(value) if math.isfinite(value) else 0


def _read_time_span(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    if not row[name] or row[f"alone_{name}"] != row[name]:
        return None
    return float(row[f"shortest_{name}"]), float(row[f"longest_{name}"])


def _take_turn(connection: Connection, mark: str, turn: float) -> bool:
    """Note that these sums are added; returns False if they were added already."""
    own = chores.c.name == mark
    last = connection.scalar(select(chores.c.done_at).where(own))
    if last is None:
        connection.execute(insert(chores).values(name=mark, done_at=turn))
    elif last < turn:
        connection.execute(update(chores).where(own).values(done_at=turn))
    return last is None or last < turn


def _upsert(connection: Connection, rows: list[dict[str, Any]]) -> None:
    adding = start_insert(connection.dialect, rollups)
    sums = {name: rollups.c[name] + adding.excluded[name] for name in _SUMS}
    written = adding.on_conflict_do_update(index_elements=["minute", "key"], set_=sums)
    # Sorted, so that two processes don't wait for each other's rows.
    ordered = sorted(rows, key=lambda row: (row["minute"], row["key"]))
    connection.execute(written, ordered)


def _forget_old(connection: Connection) -> None:
    """Remove sums that are too old, and the marks of processes that are long gone."""
    now = shared_clock(connection)
    connection.execute(delete(rollups).where(rollups.c.minute < now - _KEPT_SECONDS))
    gone = chores.c.name.like(f"{_MARK}%") & (chores.c.done_at < now - _MARK_SECONDS)
    connection.execute(delete(chores).where(gone))
