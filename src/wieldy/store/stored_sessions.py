"""The sessions with a result from outside in them, in every process that shares a store."""

import logging
import time
from typing import Any

from sqlalchemy import Connection, delete, select

from wieldy.core.call import Call, Scope
from wieldy.core.errors import StoreError, StoreUnavailable

from . import transitions
from .artifacts.artifact_rows import session_shelf
from .databases.prepared_statements import insert_new
from .databases.tables import untrusted_sessions as untrusted
from .row_values import trust_row
from .store_access import StoreAccess

_log = logging.getLogger("wieldy")


class StoredSessions:
    """The untrusted sessions of a store.

    Every question is answered by the store, so that what one process has written holds in all
    others at once. Only what could not be written is remembered here.
    """

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        # A call can't begin while the store is away, so there are never many.
        self._owed: set[str] = set()

    async def add(self, call: Call) -> None:
        """Remember that this call brought something from outside into the sessions on its way."""
        additions = [_Addition(call, session) for session in call.scope.sessions()]
        # All of them hold here before the first is written.
        self._owed.update(each.key for each in additions)
        for addition in additions:
            await self._add_one(call, addition)

    async def _add_one(self, call: Call, addition: "_Addition") -> None:
        key = addition.key
        try:
            if not await self._store.read(lambda connection: _is_there(connection, key)):
                await self._store.write(addition)
        except StoreUnavailable:
            self._store.owe(addition)
        except StoreError as error:
            # This process goes on knowing it.
            _log.error(
                "It can't be kept that the session of call %s is untrusted: %s", call.id, error
            )
        else:
            self._owed.discard(key)

    def add_soon(self, call: Call) -> None:
        """The same without waiting; it holds here at once."""
        for session in call.scope.sessions():
            addition = _Addition(call, session)
            self._owed.add(addition.key)
            self._store.insist(addition)

    async def holds(self, session: str | None) -> bool:
        """Whether a result from outside is in the session."""
        key = session_shelf(session or None)
        return key in self._owed or await self._store.read(lambda c: _is_there(c, key))

    async def clear(self, session: str | None, by: str | None, reason: str | None) -> bool:
        """Count a session as trusted again, and record who said so; returns whether it was not."""
        key = session_shelf(session or None)
        row = trust_row(Scope(session=session or None), by, reason, time.time())
        found: list[bool] = []

        def clear(connection: Connection) -> bool:
            gone = connection.execute(delete(untrusted).where(untrusted.c.id == key))
            # An earlier attempt whose answer was lost may have removed it.
            found.append(gone.rowcount > 0)
            if any(found):
                transitions.put(row)(connection)
            return any(found)

        owed = key in self._owed
        # Results that come in from now on count again.
        self._owed.discard(key)
        cleared = await self._store.write(clear)
        self._store.bell.ring(row["id"])
        return cleared or owed


class _Addition:
    """The operation that writes that a session is untrusted; it may run twice."""

    def __init__(self, call: Call, session: str | None) -> None:
        self.key = session_shelf(session)
        self._row: dict[str, Any] = {
            "id": self.key,
            "session": session,
            "tool": call.tool,
            "call": call.id,
            "at": time.time(),
        }

    def __call__(self, connection: Connection) -> None:
        connection.execute(insert_new(connection.dialect, untrusted, self._row))


def _is_there(connection: Connection, key: str) -> bool:
    return connection.scalar(select(untrusted.c.at).where(untrusted.c.id == key)) is not None
