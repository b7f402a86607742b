"""Read the newest rows that meet several conditions, in a time that does not grow with the table.

Rows are found by the index of one condition, and the others are checked. A database that has to
choose the index itself may take the condition that nearly all rows meet, and statistics don't
tell how often one value occurs together with another.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, func, literal_column, select

# The index of a condition that fewer rows meet is good enough, whatever the others are.
_FEW = 500
# Counting stops at this number.
_MANY = 10_000
# How many rows are checked between two looks at the clock.
_SLICE = 2000
# The end of a page: the time of its last row, and the row's id.
Place = tuple[float, str]
Conditions = Sequence[ColumnElement[bool]]


class Criterion(NamedTuple):
    """A condition in two forms: one for which there is an index, and one that uses none."""

    indexed: ColumnElement[bool]
    checked: ColumnElement[bool]


class NewestRows(NamedTuple):
    """The rows that were found, and where the search was stopped, or None if it was not."""

    rows: list[Row[Any]]
    stopped: Place | None


class RowSearch(NamedTuple):
    """A search for rows of one table, the newest first.

    Attributes:
        time: the column with the time of a row, which is the second one of every index.
        id: the column with the id of a row.
        criteria: conditions with an index; the one that few rows are likely to meet comes first.
        bounds: conditions on the time.
        checks: conditions without an index.
    """

    time: Column[float]
    id: Column[str]
    criteria: Sequence[Criterion]
    bounds: Conditions = ()
    checks: Conditions = ()

    def after(self, place: Place | None) -> "RowSearch":
        """The same search, for rows after a place."""
        return self if place is None else self.bounded(*rows_after(self.time, self.id, place))

    def bounded(self, *bounds: ColumnElement[bool]) -> "RowSearch":
        """The same search within more bounds."""
        return self._replace(bounds=[*self.bounds, *bounds])

    def read(
        self,
        connection: Connection,
        columns: Sequence[Column[Any]],
        limit: int | None,
        seconds: float | None = None,
    ) -> NewestRows:
        """Read the rows; with `seconds` the search stops after this time."""
        end = None if seconds is None else time.monotonic() + seconds
        rows: list[Row[Any]] = []
        for part, oldest in self.parts(connection):
            missing = None if limit is None else limit - len(rows)
            rows += connection.execute(part.newest(columns).limit(missing))
            if len(rows) == limit:
                break
            if oldest is not None and end is not None and time.monotonic() > end:
                return NewestRows(rows, (oldest, ""))
        return NewestRows(rows, None)

    def parts(self, connection: Connection) -> "Iterator[tuple[RowSearch, float | None]]":
        """Searches that look at some rows each, with the time of the oldest but for the last."""
        rest = self._by_one_index(connection)
        while True:
            oldest = rest._end_of_slice(connection) if rest.checks else None
            if oldest is None:
                yield rest, None
                return
            yield rest.bounded(self.time >= oldest), oldest
            rest = rest._replace(bounds=[*self.bounds, self.time < oldest])

    def newest(self, columns: Sequence[Column[Any]]) -> Select[Any]:
        """The rows of a search that is one part."""
        conditions = [each.indexed for each in self.criteria]
        wanted = select(*columns).where(*conditions, *self.bounds, *self.checks)
        return wanted.order_by(self.time.desc(), self.id.desc())

    def _by_one_index(self, connection: Connection) -> "RowSearch":
        """The search by the condition that few rows meet, with the others as checks."""
        if len(self.criteria) < 2:
            return self
        chosen, fewest = self.criteria[-1], _MANY
        for each in self.criteria:
            count = _count_rows(connection, [each.indexed, *self.bounds])
            if count < fewest:
                chosen, fewest = each, count
            if count < _FEW:
                break
        others = [each.checked for each in self.criteria if each is not chosen]
        return self._replace(criteria=[chosen], checks=[*self.checks, *others])

    def _end_of_slice(self, connection: Connection) -> float | None:
        """The time of the row up to which rows are checked next; None if there are few left."""
        found = [each.indexed for each in self.criteria]
        ordered = select(self.time).where(*found, *self.bounds).order_by(self.time.desc())
        return connection.scalar(ordered.limit(1).offset(_SLICE))


def match_column(
    column: Column[Any], value: str, indexed: ColumnElement[bool] | None = None
) -> Criterion:
    """The condition that a column has this value; `indexed` is how its index wants to be asked."""
    checked = func.coalesce(column, "", type_=column.type) == value
    return Criterion(column == value if indexed is None else indexed, checked)


def rows_after(time: Column[float], id: Column[str], place: Place) -> Conditions:
    """The conditions for the rows after a place, the newest first."""
    earlier = (time < place[0]) | (id < place[1])
    # The first condition lets the database use the index; an OR alone would not.
    return [time <= place[0], earlier]


def _count_rows(connection: Connection, conditions: Conditions) -> int:
    """How many rows meet all conditions, counted up to a limit."""
    rows = select(literal_column("1")).where(*conditions).limit(_MANY).subquery()
    return connection.scalar(select(func.count()).select_from(rows)) or 0
