"""Follow the ledger: each call as it comes, and again whenever it changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select

from .entry import Entry, read_entry_or_say
from .tables import IS_RUNNING, IS_WAITING, NEWEST_FIRST, OPEN, calls

if TYPE_CHECKING:
    from .store import Store

# A row says when its change was made, and is seen when that is committed. This far apart, and
# as far as two clocks may differ, the two can be for a call that was never seen open.
_OVERLAP = 60.0
# The longest that a call waits for its turn before it has a row.
_LONGEST_TURN = 24 * 3600.0
# How long after a timeout the end of the abandoned function is waited for.
_LATE = 3600.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0
_AT_ONCE = 500


class _Mark(NamedTuple):
    """What a change of a row shows in."""

    state: str
    decided_at: float | None
    started_at: float | None
    ended_at: float | None
    late: bool

    def settled(self, now: float) -> bool:
        """Whether the row will not change any more."""
        abandoned = self.state == "timeout" and not self.late
        return self.state not in OPEN and not (abandoned and (self.ended_at or 0) > now - _LATE)


_MARKS = select(
    calls.c.id,
    calls.c.state,
    calls.c.decided_at,
    calls.c.started_at,
    calls.c.ended_at,
    calls.c.late.is_not(None).label("late"),
)


class Following:
    """One reader of the ledger who wants every change, and where it has got to."""

    def __init__(self, store: "Store", conditions: Iterable[ColumnElement[bool]]) -> None:
        self._store = store
        self._conditions = tuple(conditions)
        self._seen: dict[str, _Mark] = {}
        self._looked = time.time()

    async def entries(self, last: int, state: str | None) -> AsyncIterator[Entry]:
        """The newest calls in a state, the oldest of them first, and then all that changes."""
        newest = select(calls).order_by(*NEWEST_FIRST).limit(last)
        if state is not None:
            newest = newest.where(calls.c.state == state)
        for row in await self._store.read(lambda connection: self._begin(connection, newest)):
            yield read_entry_or_say(row)
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            changed = await self._store.read(self._look)
            pause = _FIRST_PAUSE if changed else min(pause * 1.5, _LONGEST_PAUSE)
            for row in changed:
                yield read_entry_or_say(row)

    def _begin(self, connection: Connection, newest: Select[Any]) -> list[Row[Any]]:
        """The newest rows; all that was there before them counts as seen."""
        self._looked = time.time()
        marks = self._marks(connection)
        rows = connection.execute(self._asked_for(newest)).all()
        self._seen = marks | _marked(rows)
        return [*reversed(rows)]

    def _look(self, connection: Connection) -> list[Row[Any]]:
        """The rows that are not as they were last seen."""
        began, known = time.time(), self._seen
        marks = self._marks(connection)
        changed = [call_id for call_id, mark in marks.items() if known.get(call_id) != mark]
        rows = [*_with_ids(connection, select(calls), changed)]
        # Each statement sees what is there when it begins: a row may be newer than its mark.
        self._seen, self._looked = marks | _marked(rows), began
        return sorted(rows, key=_moment)

    def _marks(self, connection: Connection) -> dict[str, _Mark]:
        """How the calls stand that are open, changed lately, or may still change."""
        since = self._looked - _OVERLAP
        moments = (calls.c.proposed_at, calls.c.decided_at, calls.c.started_at, calls.c.ended_at)
        lately = and_(
            calls.c.proposed_at >= since - _LONGEST_TURN,
            or_(*(moment >= since for moment in moments)),
        )
        # Several statements: for each there is an index.
        found: dict[str, _Mark] = {}
        for condition in (IS_WAITING, IS_RUNNING, lately):
            found |= _marked(connection.execute(self._asked_for(_MARKS.where(condition))))
        waited_for = [
            call_id
            for call_id, mark in self._seen.items()
            if call_id not in found and not mark.settled(self._looked)
        ]
        return found | _marked(_with_ids(connection, _MARKS, waited_for))

    def _asked_for(self, query: Select[Any]) -> Select[Any]:
        return query.where(*self._conditions)


def _with_ids(connection: Connection, query: Select[Any], ids: Sequence[str]) -> Iterator[Row[Any]]:
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        yield from connection.execute(query.where(calls.c.id.in_(some)))


def _marked(rows: Iterable[Row[Any]]) -> dict[str, _Mark]:
    return {
        row.id: _Mark(row.state, row.decided_at, row.started_at, row.ended_at, bool(row.late))
        for row in rows
    }


def _moment(row: Row[Any]) -> tuple[float, str]:
    moments = (row.proposed_at, row.decided_at, row.started_at, row.ended_at)
    return max(moment for moment in moments if moment is not None), row.id
