"""The tools that sessions have loaded, kept for every process on the store."""

import time
from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from wieldy.core.bounded_json import dump_json, parse_json
from wieldy.core.discovery.session_listing import Change, T

from .databases.prepared_statements import insert_or_update
from .databases.tables import loaded_tools
from .store_access import StoreAccess


class LoadedTools:
    """The names of the tools that each session was shown, in order."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def read_list(self, session: str) -> Sequence[str] | None:
        """The names that a session was shown, in order; None if it has loaded nothing."""
        query = select(loaded_tools.c.names).where(loaded_tools.c.session == session)
        text = await self._store.read(lambda connection: connection.scalar(query))
        return None if text is None else _read_names(text)

    async def change_list(self, session: str, change: Change[T]) -> tuple[Sequence[str], T]:
        """Change the list of a session; one process at a time does so."""

        def write(connection: Connection) -> tuple[Sequence[str], T]:
            now = {"changed_at": time.time()}
            row = {"session": session, "names": "[]", **now}
            # The row is locked until the commit, so that two loads are one after the other.
            put = insert_or_update(connection.dialect, loaded_tools, row, now)
            text = connection.execute(put.returning(loaded_tools.c.names)).scalar_one()
            after, told = change(_read_names(text))
            own = loaded_tools.c.session == session
            written = update(loaded_tools).where(own).values(names=dump_json(list(after)))
            connection.execute(written)
            return after, told

        return await self._store.write(write)


def _read_names(text: str | None) -> list[str]:
    """The names in a row; none if the row can't be read, and the session starts again."""
    try:
        names = parse_json(text or "[]")
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
