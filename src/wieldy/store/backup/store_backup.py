"""Write all rows of a store into a file, as they were at one moment."""

import asyncio
import os
from collections.abc import Callable

from sqlalchemy import Connection, select, text

from wieldy.core.errors import StoreError
from wieldy.store.databases.migrations import STEPS
from wieldy.store.databases.tables import chores, metadata, owners, version
from wieldy.store.store_access import StoreAccess

from .backup_file import BackupReader, BackupWriter, new_backup

# Tables about the processes that use a store now. They hold nothing to keep.
LEFT_OUT = (version, owners, chores)
TABLES = [table for table in metadata.sorted_tables if table not in LEFT_OUT]
_ROWS_AT_ONCE = 100
_TOLD_EVERY = 1_000
Tell = Callable[[int], None]


async def write_backup(
    store: StoreAccess, path: str | os.PathLike[str], tell: Tell = lambda rows: None
) -> int:
    """Copy a store into a file while others may write to it; gives the number of rows.

    The file has the store as it was at one moment, is readable only by its owner, and is read
    again before this returns. `tell` is called with the number of rows so far.

    Raises:
        BackupError: The file is there already, or can't be written.
        StoreError: The store can't be read, or is damaged.
    """

    def write(connection: Connection) -> int:
        _hold_still(connection)
        with new_backup(path) as file:
            writer = BackupWriter(file, len(STEPS))
            for table in TABLES:
                writer.begin_table(table.name, table.columns.keys())
                rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(select(table))
                for row in rows:
                    writer.write_row(row)
                    if not writer.rows % _TOLD_EVERY:
                        tell(writer.rows)
            writer.end()
        return writer.rows

    rows = await store.read(write)
    await asyncio.to_thread(BackupReader(path, len(STEPS)).check)
    return rows


def _hold_still(connection: Connection) -> None:
    """Let all statements of this connection see the store at one moment."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        return
    # SQLite does so by itself from the first statement on.
    found = connection.execute(text("PRAGMA quick_check(1)")).scalar()
    if found != "ok":
        raise StoreError(f"its file is damaged ({found})", "Restore it from an earlier backup.")
