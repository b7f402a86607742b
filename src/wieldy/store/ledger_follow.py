"""Follow the ledger: each call as it comes, and again whenever it changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select, text

from .databases.tables import IS_RUNNING, IS_WAITING, OPEN, appeared_since, calls, in_state
from .ledger_entry import Entry, read_entry_or_say
from .ledger_pages import BRIEF, CallFilter
from .store_access import StoreAccess

# A row has the time of its change, but is visible only after the commit. The two times, and the
# clocks of two processes, may be this far apart for a call that was never seen open.
_OVERLAP = 60.0
# How long after a timeout the end of the abandoned function is expected, and how long before it
# the call may have been proposed.
_LATE = 3600.0
_MAX_TURN = 24 * 3600.0
_FIRST_PAUSE = 0.1
_MAX_PAUSE = 1.0
_AT_ONCE = 500


class _Mark(NamedTuple):
    """The columns that differ when a row has changed."""

    state: str
    decided_at: float | None
    started_at: float | None
    ended_at: float | None
    late: bool

    def settled(self, now: float) -> bool:
        """Whether the row can't change any more."""
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
    """One reader of the ledger who wants every change, with its position.

    A call's mark is kept from when its row appears until it can't change any more. Each look
    then asks only for new rows and for open ones.
    """

    def __init__(self, store: StoreAccess, asked: CallFilter) -> None:
        self._store = store
        self._asked = asked
        self._seen: dict[str, _Mark] = {}
        self._looked = time.time()
        self._commit: object = None
        # Set when every later change will be given.
        self.began = asyncio.Event()

    async def entries(self, last: int) -> AsyncIterator[Entry]:
        """The newest calls, the oldest of them first, and then every change."""
        first = await self._store.read(lambda connection: self._begin_following(connection, last))
        self.began.set()
        for row in first:
            yield read_entry_or_say(row)
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            changed = await self._store.read(self._find_changes)
            pause = _FIRST_PAUSE if changed else min(pause * 1.5, _MAX_PAUSE)
            for row in changed:
                yield read_entry_or_say(row)

    def _begin_following(self, connection: Connection, last: int) -> list[Row[Any]]:
        """The newest rows; all earlier rows count as seen."""
        self._looked = time.time()
        abandoned = calls.c.proposed_at >= self._looked - _LATE - _MAX_TURN
        before = (IS_RUNNING, and_(in_state("timeout"), abandoned))
        marks = self._changing_marks(connection, *before)
        rows = self._asked.search().read(connection, [*calls.c], last).rows
        self._seen = marks | _read_marks(rows)
        return [*reversed(rows)]

    def _find_changes(self, connection: Connection) -> list[Row[Any]]:
        """The rows that changed since they were last seen."""
        began, known, commit = time.time(), self._seen, _last_commit(connection)
        if commit == self._commit:
            self._looked = began
            return []
        marks = self._changing_marks(connection)
        changed = [call_id for call_id, mark in marks.items() if known.get(call_id) != mark]
        rows = [*_with_ids(connection, select(calls), changed)]
        # Each statement has its own snapshot, so a row may be newer than its mark.
        self._seen, self._looked, self._commit = marks | _read_marks(rows), began, commit
        return sorted(rows, key=last_change)

    def _changing_marks(
        self, connection: Connection, *others: ColumnElement[bool]
    ) -> dict[str, _Mark]:
        """The marks of calls that are new, wait, or may still change."""
        since = self._looked - _OVERLAP
        # Several statements are used, because each has an index.
        found: dict[str, _Mark] = {}
        conditions: tuple[Any, ...] = (*others, IS_WAITING, *appeared_since(since))
        for condition in conditions:
            query = _MARKS.where(condition, *self._asked.belongs)
            found |= _read_marks(connection.execute(query))
        waited_for = [
            call_id
            for call_id, mark in self._seen.items()
            if call_id not in found and not mark.settled(self._looked)
        ]
        return found | _read_marks(_with_ids(connection, _MARKS, waited_for))


async def read_changed_since(store: StoreAccess, moment: float, limit: int) -> list[Row[Any]]:
    """The calls that have changed since then, the earliest change first, as a list has them.

    Calls that changed shortly before may be among them. A call counts whose row appeared at most
    a day earlier.
    """
    since = moment - _OVERLAP
    moments = (calls.c.proposed_at, calls.c.decided_at, calls.c.started_at, calls.c.ended_at)
    changed = or_(*(column >= since for column in moments))

    def read(connection: Connection) -> list[Row[Any]]:
        found: dict[str, Row[Any]] = {}
        for appeared in appeared_since(since - _MAX_TURN):
            query = select(*BRIEF).where(appeared, changed).limit(limit)
            found |= {row.id: row for row in connection.execute(query)}
        return sorted(found.values(), key=last_change)

    return await store.read(read)


def _last_commit(connection: Connection) -> object:
    """A value that changes with each commit, and is found without reading a row."""
    if connection.dialect.name == "postgresql":
        return connection.scalar(text("SELECT txid_current_snapshot()::text"))
    # The number changes when another connection has committed since this one last asked.
    version = connection.exec_driver_sql("PRAGMA data_version").scalar()
    return connection.connection.driver_connection, version


def _with_ids(connection: Connection, query: Select[Any], ids: Sequence[str]) -> Iterator[Row[Any]]:
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        yield from connection.execute(query.where(calls.c.id.in_(some)))


def _read_marks(rows: Iterable[Row[Any]]) -> dict[str, _Mark]:
    return {
        row.id: _Mark(row.state, row.decided_at, row.started_at, row.ended_at, bool(row.late))
        for row in rows
    }


def last_change(row: Any) -> tuple[float, str]:
    """When a row, or an entry, last changed, and its id."""
    moments = (row.proposed_at, row.decided_at, row.started_at, row.ended_at)
    return max(moment for moment in moments if moment is not None), row.id
