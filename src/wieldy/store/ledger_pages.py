"""Filter recorded calls, and read them page by page, the newest first."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select

from wieldy.core.call import Status

from .databases.tables import NEWEST_FIRST, calls, in_state, of_tool
from .row_values import STATES
from .store_access import StoreAccess

# A page ends at either limit, because rows may be of any size.
_MOST_ROWS = 500
_MOST_CHARACTERS = 4_000_000
_AT_ONCE = 16
_LONG = ("arguments", "covered", "value", "content", "error", "metadata", "requests", "late")
_UNLISTED = {*_LONG, "repairs", "paused", "answers"} - {"error"}
# The columns of a call in a list.
BRIEF = [column for column in calls.c if column.name not in _UNLISTED]
# The end of a page: when its last call was proposed, and the call's id.
Place = tuple[float, str]


@dataclass(frozen=True, slots=True)
class CallFilter:
    """A filter for recorded calls; `status` is a state of the row."""

    status: Status | str | None = None
    tool: str | None = None
    session: str | None = None
    since: datetime | float | None = None
    until: datetime | float | None = None
    caller: str | None = None
    parent: str | None = None

    def __post_init__(self) -> None:
        if self.status is not None and self.status not in STATES:
            raise ValueError(f"status must be one of {', '.join(STATES)}, not {self.status!r}")

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as conditions for which the database has an index."""
        wanted = [] if self.status is None else [in_state(str(self.status))]
        wanted += self.belongs
        if self.since is not None:
            wanted.append(calls.c.proposed_at >= _as_seconds(self.since))
        if self.until is not None:
            wanted.append(calls.c.proposed_at < _as_seconds(self.until))
        return wanted

    @property
    def belongs(self) -> list[ColumnElement[bool]]:
        """The conditions that never change for a call: its tool, and on whose behalf it is."""
        wanted = [] if self.tool is None else [of_tool(self.tool)]
        for column in (calls.c.session, calls.c.caller, calls.c.parent):
            asked = getattr(self, column.name)
            wanted += [] if asked is None else [column == asked]
        return wanted

    @property
    def newest(self) -> Select[Any]:
        """The calls, the newest first."""
        return select(calls).where(*self.conditions).order_by(*NEWEST_FIRST)


async def newest_rows(store: StoreAccess, asked: CallFilter) -> AsyncIterator[Row[Any]]:
    """The rows that match, read page by page, so that memory does not grow."""
    query = asked.newest
    while True:
        page = await store.read(partial(_first_page, query))
        for row in page:
            yield row
        if not page:
            return
        query = asked.newest.where(_rows_after(page[-1].proposed_at, page[-1].id))


async def read_brief_page(
    store: StoreAccess, asked: CallFilter, after: Place | None, limit: int
) -> list[Row[Any]]:
    """The rows after a place, the newest first, without the columns that may be long."""
    query = asked.newest.with_only_columns(*BRIEF)
    query = query if after is None else query.where(_rows_after(*after))
    return await store.read(lambda connection: [*connection.execute(query.limit(limit))])


def _rows_after(proposed_at: float, call_id: str) -> ColumnElement[bool]:
    """The condition for the rows after this one, the newest first."""
    earlier = or_(calls.c.proposed_at < proposed_at, calls.c.id < call_id)
    # The first condition lets the database use the index; an OR alone would not.
    return and_(calls.c.proposed_at <= proposed_at, earlier)


def _first_page(query: Select[Any], connection: Connection) -> list[Row[Any]]:
    """The first rows of a query, as many as may be held at once."""
    rows: list[Row[Any]] = []
    held = 0
    limited = query.limit(_MOST_ROWS).execution_options(yield_per=_AT_ONCE)
    with connection.execute(limited) as found:
        for row in found:
            rows.append(row)
            held += sum(len(getattr(row, name) or "") for name in _LONG)
            if held > _MOST_CHARACTERS:
                break
    return rows


def _as_seconds(moment: datetime | float) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else moment
