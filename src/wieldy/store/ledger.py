"""The record of calls, as people and programs read it."""

import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import AlreadyDecided, CallNotFound, ToolFailed

from . import transitions
from .entry import Entry, read_entry, read_entry_or_say, read_shown
from .following import Following
from .id_ranges import ids_beginning
from .rows import STATES, outcome_columns
from .tables import IS_RUNNING, IS_WAITING, NEWEST_FIRST, OPEN, calls

if TYPE_CHECKING:
    from .store import Store

_SETTLED = (Status.OK, Status.ERROR)


class Ledger:
    """Every call that was made, and how it stands."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    async def get(self, call_id: str) -> Entry | None:
        """The recorded call of this id, or None; `CorruptRow` if its row can't be read."""
        row = await self._store.read(lambda connection: transitions.find(connection, call_id))
        return None if row is None else read_shown(row)

    async def list(
        self,
        status: Status | str | None = None,
        tool: str | None = None,
        session: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int | None = 50,
    ) -> "list[Entry]":
        """Recorded calls, the newest first. `status` is a state of the row.

        What a damaged row held is unknown, and stands as that in its place.
        """
        _check_status(status)
        query = select(calls).order_by(*NEWEST_FIRST).limit(limit)
        for column, value in ((calls.c.state, status), (calls.c.tool, tool)):
            query = query if value is None else query.where(column == str(value))
        if status in OPEN:
            query = query.where(IS_RUNNING if status == "started" else IS_WAITING)
        if session is not None:
            query = query.where(calls.c.session == session)
        if since is not None:
            query = query.where(calls.c.proposed_at >= _seconds(since))
        if until is not None:
            query = query.where(calls.c.proposed_at < _seconds(until))

        def read(connection: Connection) -> "list[Row[Any]]":
            return [*connection.execute(query).all()]

        return [read_entry_or_say(row) for row in await self._store.read(read)]

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
        status: Status | str | None = None,
        tool: str | None = None,
        session: str | None = None,
        last: int = 0,
    ) -> AsyncIterator[Entry]:
        """The `last` calls, the oldest first, then each call as it comes and when it changes.

        It goes on until its reader stops. A call that comes to stand as `status` is
        given then. None is missed as long as clocks differ by less than a minute.
        """
        _check_status(status)
        state = None if status is None else str(status)
        wanted = ((calls.c.tool, tool), (calls.c.session, session))
        conditions = [column == value for column, value in wanted if value is not None]
        async for entry in Following(self._store, conditions).entries(last, state):
            if state is None or entry.state == state:
                yield entry

    async def settle(
        self,
        call_id: str,
        status: Status | str,
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


def _check_status(status: Status | str | None) -> None:
    if status is not None and status not in STATES:
        raise ValueError(f"status must be one of {', '.join(STATES)}, not {status!r}")


def _seconds(moment: datetime | float) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else moment
