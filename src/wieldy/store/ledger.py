"""The record of calls, as people and programs read it."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, func, select

from wieldy.core.call import Call, Outcome, Status
from wieldy.core.choices import CallState
from wieldy.core.errors import AlreadyDecided, CallNotFound, ToolFailed

from . import transitions
from .databases.id_ranges import ids_beginning
from .databases.tables import NEWEST_FIRST, calls, in_state
from .ledger_entry import Entry, read_entry, read_entry_or_say, read_off_loop, read_shown
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
        """Find a recorded call.

        Args:
            call_id: The call's id.

        Returns:
            The recorded call, or None if there is none of this id.

        Raises:
            CorruptRow: The call's row can't be read.

        Example:
            `entry = await box.ledger.get(outcome.call.id)`
        """
        row = await self._store.read(lambda connection: transitions.find_row(connection, call_id))
        return None if row is None else await read_off_loop([row], lambda: read_shown(row))

    async def list(
        self,
        state: Status | CallState | None = None,
        tool: str | None = None,
        session: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int | None = 50,
    ) -> "list[Entry]":
        """List recorded calls, the newest first.

        A damaged row appears in its place as a call of unknown end.

        Args:
            state: Only calls in this state.
            tool: Only calls of this tool.
            session: Only calls made in this session.
            since: Only calls made at this time or later: a datetime, or seconds since the epoch.
            until: Only calls made before this time.
            limit: The most calls to list; None lists all.

        Returns:
            The recorded calls.

        Example:
            `for entry in await box.ledger.list(state="error"): print(entry.text)`
        """
        search = CallFilter(state, tool, session, since, until).search()
        found = await self._store.read(lambda c: search.read(c, [*calls.c], limit))
        rows = found.rows
        return await read_off_loop(rows, lambda: [read_entry_or_say(row) for row in rows])

    async def count_pending(self) -> tuple[int, float | None]:
        """Count the calls that wait for a decision.

        Returns:
            How many there are, and when the oldest of them was proposed, in seconds since the
            epoch.
        """
        query = select(func.count(), func.min(calls.c.proposed_at)).where(in_state("pending"))
        row = await self._store.read(lambda connection: connection.execute(query).one())
        return row[0], row[1]

    async def walk(
        self,
        state: Status | CallState | None = None,
        tool: str | None = None,
        session: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
    ) -> AsyncGenerator[Entry, None]:
        """Iterate over all that `list` would return, in memory that does not grow with it.

        Calls that are made during the iteration are not part of it.

        Args:
            state: Only calls in this state.
            tool: Only calls of this tool.
            session: Only calls made in this session.
            since: Only calls made at this time or later: a datetime, or seconds since the epoch.
            until: Only calls made before this time.

        Returns:
            The recorded calls, one by one.

        Example:
            `async for entry in box.ledger.walk(tool="search"): print(entry.cost)`
        """
        async for row in newest_rows(self._store, CallFilter(state, tool, session, since, until)):
            yield read_entry_or_say(row)

    async def ids(self, prefix: str = "", limit: int | None = 50) -> tuple[str, ...]:
        """List the ids of recorded calls, the newest call first.

        With a prefix the ids come in reverse alphabetical order, which is the order of time among
        the calls of one process.

        Args:
            prefix: The text that the ids begin with.
            limit: The most ids to list; None lists all.

        Returns:
            The ids.
        """

        def find(connection: Connection) -> Sequence[str]:
            if prefix:
                return ids_beginning(connection, prefix, limit)
            newest = select(calls.c.id).order_by(*NEWEST_FIRST)
            return connection.scalars(newest.limit(limit)).all()

        return tuple(await self._store.read(find))

    async def follow(
        self,
        state: Status | CallState | None = None,
        tool: str | None = None,
        session: str | None = None,
        last: int = 0,
    ) -> AsyncIterator[Entry]:
        """Iterate over calls as they are made and as they change, until the reader stops.

        A call is given when it comes to be in this `state`. No call is missed as long as the
        clocks of the processes differ by less than a minute.

        Args:
            state: Only calls in this state.
            tool: Only calls of this tool.
            session: Only calls made in this session.
            last: How many earlier calls to begin with, the oldest first.

        Returns:
            The recorded calls.

        Example:
            `async for entry in box.ledger.follow(last=10): print(entry.state, entry.call.tool)`
        """
        asked = CallFilter(state, tool, session)
        async for entry in Following(self._store, asked).entries(last):
            if state is None or entry.state == state:
                yield entry

    async def settle(
        self,
        call_id: str,
        status: Status | Literal["ok", "error"],
        by: str | None = None,
        value: Any = None,
        reason: str | None = None,
    ) -> Entry:
        """Record how a call of unknown end did end, as a person found out.

        Args:
            call_id: The call's id.
            status: "ok" or "error".
            by: Who found out, for the record.
            value: What the call returned.
            reason: Why it failed, or what was found.

        Returns:
            The recorded call.

        Raises:
            CallNotFound: There is no recorded call of this id.
            AlreadyDecided: The end of the call is known.
            ValueError: The status is neither "ok" nor "error".

        Example:
            `await box.ledger.settle(call_id, "ok", by="ann", value="sent")`
        """
        if status not in _SETTLED:
            raise ValueError(f"a call is settled as ok or error, not {status!r}")
        ended = _settled_outcome(Call("", id=call_id), Status(status), by, value, reason)
        values = {**outcome_columns(ended, ()), "ended_at": time.time()}
        row = await self._store.write(lambda c: transitions.settle(c, call_id, values))
        if row is None:
            raise CallNotFound(call_id, recorded=True)
        entry = read_entry(row)
        if entry.ended_at != values["ended_at"]:
            raise _not_settled(entry)
        self._store.bell.ring(call_id)
        return entry


def _settled_outcome(
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
