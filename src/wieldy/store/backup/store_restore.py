"""Fill an empty store from a backup, all at once or not at all."""

import asyncio
import os
import uuid
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, exists, insert, select, update

from wieldy.store.databases.migrations import STEPS
from wieldy.store.databases.tables import IS_CARRIED_ON, Free, calls, chores, runs
from wieldy.store.store_access import StoreAccess

from .backup_file import BackupError, BackupReader
from .store_backup import TABLES, Tell

_ROWS_AT_ONCE = 100
_TOLD_EVERY = 1_000


async def check_backup(path: str | os.PathLike[str]) -> None:
    """Refuse a file that is no backup, is not whole, or is too new for this version."""
    await asyncio.to_thread(BackupReader(path, len(STEPS)).check)


async def restore_backup(
    store: StoreAccess, path: str | os.PathLike[str], tell: Tell = lambda rows: None
) -> int:
    """Copy a backup into an empty store, in one transaction; gives the number of rows.

    A call that ran when the backup was made has an unknown end now, and a run of an agent has
    crashed: nobody carries them on.

    Raises:
        BackupError: The file can't be used, or the store is not empty.
        StoreError: The store can't be written.
    """
    await check_backup(path)
    mark = f"restore {uuid.uuid4().hex[:24]}"

    def fill(connection: Connection) -> int:
        reader = BackupReader(path, len(STEPS))
        if connection.scalar(select(exists().where(chores.c.name == mark))):
            # An earlier attempt was committed before the connection was lost.
            reader.check()
            return reader.rows
        _check_empty(connection, path, store.address)
        for table, columns, rows in _read_batches(reader, tell):
            connection.execute(
                insert(table), [dict(zip(columns, row, strict=True)) for row in rows]
            )
        _settle_running(connection)
        connection.execute(insert(chores).values(name=mark, done_at=0.0))
        return reader.rows

    return await store.write(fill)


def _check_empty(connection: Connection, path: str | os.PathLike[str], address: str) -> None:
    for table in TABLES:
        if connection.execute(select(table).limit(1)).first() is not None:
            name = table.name.removeprefix("wieldy_")
            reason = f"is not restored: {address} is not empty, it has {name}. Name another store."
            raise BackupError(path, reason)


def _read_batches(
    reader: BackupReader, tell: Tell
) -> Iterator[tuple[Table, list[str], list[list[Any]]]]:
    known = {table.name: table for table in TABLES}
    table: Table | None = None
    columns: list[str] = []
    batch: list[list[Any]] = []
    count = 0
    for item in reader.read_tables():
        if table is not None and batch and (isinstance(item, dict) or len(batch) >= _ROWS_AT_ONCE):
            yield table, columns, batch
            batch = []
        if isinstance(item, dict):
            table, columns = known.get(item["table"]), item["columns"]
            if table is None or not set(columns) <= {*table.columns.keys()}:
                raise BackupError(reader.path, f"has a table that is not known: {item['table']}.")
            continue
        if table is not None:
            _check_row(reader, table, columns, item)
        batch.append(item)
        count += 1
        if not count % _TOLD_EVERY:
            tell(count)
    if table is not None and batch:
        yield table, columns, batch


def _check_row(reader: BackupReader, table: Table, columns: list[str], row: list[Any]) -> None:
    """Refuse a row whose values are of other types than its columns: SQLite would keep them."""
    for name, value in zip(columns, row, strict=True):
        column = table.columns[name]
        kind = str if isinstance(column.type, Free) else column.type.python_type
        fits = isinstance(value, (int, float) if kind is float else kind)
        if isinstance(value, bool) or not (fits or (value is None and column.nullable)):
            raise BackupError(reader.path, f"has a row of {table.name} whose {name} can't be.")


def _settle_running(connection: Connection) -> None:
    """Leave what was going on as a crash would have left it."""
    connection.execute(update(calls).where(calls.c.state == "started").values(state="unknown"))
    connection.execute(update(calls).where(calls.c.state == "approved").values(owner=None))
    connection.execute(update(runs).where(IS_CARRIED_ON).values(state="crashed", owner=None))
