"""Filter recorded calls, and read them page by page, the newest first."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, String, bindparam, func, or_

from wieldy.core.bounded_json import dump_json
from wieldy.core.call import Status

from .databases.tables import calls, in_state, of_tool
from .row_search import Criterion, NewestRows, Place, RowSearch, match_column
from .row_values import STATES
from .store_access import StoreAccess

# A page ends at either limit, because rows may be of any size.
_MAX_ROWS = 500
_MAX_CHARACTERS = 4_000_000
_AT_ONCE = 16
_LONG = ("arguments", "covered", "value", "content", "error", "metadata", "requests", "late")
_UNLISTED = {*_LONG, "repairs", "paused", "answers"} - {"error"}
# The columns of a call in a list.
BRIEF = [column for column in calls.c if column.name not in _UNLISTED]
# The columns in which words are looked for, and how much of the arguments is searched.
_NAMED_COLUMNS = (calls.c.tool, calls.c.id, calls.c.caller, calls.c.agent, calls.c.session)
_SEARCHED = 2000
# The one that few calls are likely to share comes first.
_OWN_COLUMNS = (calls.c.parent, calls.c.session, calls.c.caller)


@dataclass(frozen=True, slots=True)
class CallFilter:
    """A filter for recorded calls; `state` is that of the row.

    `text` are words that a call has, in its names, its error or the beginning of its arguments.
    """

    state: Status | str | None = None
    tool: str | None = None
    session: str | None = None
    since: datetime | float | None = None
    until: datetime | float | None = None
    caller: str | None = None
    parent: str | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise ValueError(f"state must be one of {', '.join(STATES)}, not {self.state!r}")

    @property
    def belongs(self) -> list[ColumnElement[bool]]:
        """The conditions that never change for a call: its tool, and on whose behalf it is."""
        return [each.indexed for each in self._owned]

    def search(self, after: Place | None = None) -> RowSearch:
        """The search for these calls after a place, the newest first."""
        bounds = []
        if self.since is not None:
            bounds.append(calls.c.proposed_at >= _as_seconds(self.since))
        if self.until is not None:
            bounds.append(calls.c.proposed_at < _as_seconds(self.until))
        words = [_has_word(word) for word in (self.text or "").split()]
        found = RowSearch(calls.c.proposed_at, calls.c.id, self._criteria, bounds, words)
        return found.after(after)

    @property
    def _criteria(self) -> list[Criterion]:
        if self.state is None:
            return self._owned
        state = str(self.state)
        # Calls that run are found by their time, which every index has.
        found = in_state(state)
        running = state == "started"
        wanted = Criterion(found, found) if running else match_column(calls.c.state, state, found)
        return [*self._owned, wanted]

    @property
    def _owned(self) -> list[Criterion]:
        asked = [(column, getattr(self, column.name)) for column in _OWN_COLUMNS]
        wanted = [match_column(column, value) for column, value in asked if value is not None]
        if self.tool is not None:
            wanted.append(match_column(calls.c.tool, self.tool, of_tool(self.tool)))
        return wanted


async def newest_rows(store: StoreAccess, asked: CallFilter) -> AsyncIterator[Row[Any]]:
    """The rows that match, read page by page, so that memory does not grow."""
    after: Place | None = None
    while True:
        page = await store.read(partial(_read_page, asked, after))
        for row in page:
            yield row
        if not page:
            return
        after = (page[-1].proposed_at, page[-1].id)


async def read_brief_page(
    store: StoreAccess,
    asked: CallFilter,
    after: Place | None,
    limit: int,
    seconds: float | None = None,
) -> NewestRows:
    """The rows after a place, the newest first, without the columns that may be long."""
    search = asked.search(after)
    return await store.read(lambda connection: search.read(connection, BRIEF, limit, seconds))


def _read_page(asked: CallFilter, after: Place | None, connection: Connection) -> list[Row[Any]]:
    """The first rows after a place, as many as may be held at once."""
    rows: list[Row[Any]] = []
    held = 0
    for part, _ in asked.search(after).parts(connection):
        query = part.newest([*calls.c]).limit(_MAX_ROWS - len(rows))
        with connection.execute(query.execution_options(yield_per=_AT_ONCE)) as found:
            for row in found:
                rows.append(row)
                held += sum(len(getattr(row, name) or "") for name in _LONG)
                if held > _MAX_CHARACTERS or len(rows) == _MAX_ROWS:
                    return rows
    return rows


def _has_word(word: str) -> ColumnElement[bool]:
    """Whether a call has a word somewhere, whatever the case of its letters."""
    # Arguments that wait may hold secrets, and a search must not tell whether they do.
    arguments = func.substr(func.coalesce(calls.c.covered, calls.c.arguments), 1, _SEARCHED)
    written = dump_json(word)[1:-1]
    named = [func.lower(each).like(_make_pattern(word), escape="!") for each in _NAMED_COLUMNS]
    in_json = [
        func.lower(each).like(_make_pattern(written), escape="!")
        for each in (calls.c.error, arguments)
    ]
    return or_(*named, *in_json)


def _make_pattern(word: str) -> ColumnElement[str]:
    for special in "!%_":
        word = word.replace(special, f"!{special}")
    return func.lower(bindparam(None, f"%{word}%", String, unique=True))


def _as_seconds(moment: datetime | float) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else moment
