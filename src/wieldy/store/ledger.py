"""The record of calls, as people and programs read it."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, select

from wieldy.core.call import Call, Outcome, Status
from wieldy.core.choices import CallState
from wieldy.core.errors import AlreadyDecided, CallNotFound, ToolFailed

from . import transitions
from .databases.id_ranges import ids_beginning
from .databases.tables import NEWEST_FIRST, calls
from .ledger_entry import Entry, read_entry, read_entry_or_say, read_shown
from .ledger_follow import Following
from .ledger_pages import CallFilter, newest_rows
from .row_values import outcome_columns
from .store_access import StoreAccess

_SETTLED = (Status.OK, Status.ERROR)


class Ledger:
    """Every call that was made, and how it stands."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def get(self, call_id: str) -> Entry | None:
        """The recorded call of this id, or None; `CorruptRow` if its row can't be read."""
        row = await self._store.read(lambda connection: transitions.find_row(connection, call_id))
        return None if row is None else read_shown(row)

    async def list(
        self,
        status: Status | CallState | None = None,
        tool: str | None = None,
        session: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int | None = 50,
    ) -> "list[Entry]":
        """Recorded calls, the newest first. `status` is a state of the row.

        What a damaged row held is unknown, and stands as that in its place.
        """
        query = CallFilter(status, tool, session, since, until).newest.limit(limit)

        def read(connection: Connection) -> "list[Row[Any]]":
            return [*connection.execute(query).all()]

        return [read_entry_or_say(row) for row in await self._store.read(read)]

    async def walk(
        self,
        status: Status | CallState | None = None,
        tool: str | None = None,
        session: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
    ) -> AsyncGenerator[Entry, None]:
        """All that `list` would give, one by one, in memory that does not grow with them.

        Calls that are made meanwhile are newer than the first, and not among them.
        """
        async for row in newest_rows(self._store, CallFilter(status, tool, session, since, until)):
            yield read_entry_or_say(row)

    async def ids(self, prefix: str = "", limit: int | None = 50) -> tuple[str, ...]:
        """The ids of recorded calls that begin with this text, the newest call first.

        With a prefix they are in the reverse order of the ids, which is that of time
        among the calls of one process.
        """

        def find(connection: Connection) -> Sequence[str]:
            if prefix:
                return ids_beginning(connection, prefix, limit)
            newest = select(calls.c.id).order_by(*NEWEST_FIRST)
            return connection.scalars(newest.limit(limit)).all()

        return tuple(await self._store.read(find))

    async def follow(
        self,
        status: Status | CallState | None = None,
        tool: str | None = None,
        session: str | None = None,
        last: int = 0,
    ) -> AsyncIterator[Entry]:
        """The `last` calls, the oldest first, then each call as it comes and when it changes.

        It goes on until its reader stops. A call that comes to stand as `status` is
        given then. None is missed as long as clocks differ by less than a minute.
        """
        asked = CallFilter(status, tool, session)
        async for entry in Following(self._store, asked).entries(last):
            if status is None or entry.state == status:
                yield entry

    async def settle(
        self,
        call_id: str,
        status: Status | Literal["ok", "error"],
        by: str | None = None,
        value: Any = None,
        reason: str | None = None,
    ) -> Entry:
        """Say how a call of unknown end did end: `ok` or `error`, as a person found out."""
        if status not in _SETTLED:
            raise ValueError(f"a call is settled as ok or error, not {status!r}")
        ended = _settlement(Call("", id=call_id), Status(status), by, value, reason)
        values = {**outcome_columns(ended, ()), "ended_at": time.time()}
        row = await self._store.write(lambda c: transitions.settle(c, call_id, values))
        if row is None:
            raise CallNotFound(call_id, recorded=True)
        entry = read_entry(row)
        if entry.ended_at != values["ended_at"]:
            raise _not_settled(entry)
        self._store.bell.ring(call_id)
        return entry


def _settlement(
    call: Call, status: Status, by: str | None, value: Any, reason: str | None
) -> Outcome:
    metadata = {"settled_by": by, "settled_reason": reason}
    if status is Status.OK:
        return Outcome(call, status, value, metadata=metadata)
    said = reason or "a person found that it had failed"
    return Outcome(call, status, value, ToolFailed(RuntimeError(said), said), metadata=metadata)


def _not_settled(entry: Entry) -> AlreadyDecided:
    if "settled_by" in entry.metadata:
        by = entry.metadata["settled_by"]
        return AlreadyDecided(entry.call.id, f"settled as {entry.state}", by)
    reason = "only a call of unknown end is settled"
    return AlreadyDecided(entry.call.id, entry.state, None, reason)
