"""Read a SQLite file that can't be opened as a store because it can't be written."""

import os
import sqlite3
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, NullPool, create_engine, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from wieldy.core.errors import StoreTooNew, StoreUnavailable

from .database import Operation
from .migrations import READABLE, STEPS
from .sqlite_batches import run_on_damage
from .tables import metadata, version

T = TypeVar("T")
# The modification time of a file, and its size.
_Mark = tuple[int, int]
# The marks of a file and of its log, if it has one.
_Marks = tuple[_Mark, _Mark | None]


def read_unwritable(url: URL, operation: Operation[T], why: StoreUnavailable) -> T:
    """Run a read operation on the file as it is; `why` is raised if that fails too.

    A file with a log is read together with it, and no file is created beside them. An unused
    file is therefore read without locks, and the result counts only if nobody used it meanwhile.
    """
    # The log is beside the file itself, and not beside a link to it.
    path = Path(os.path.realpath(url.database or ""))
    try:
        while True:
            unused = _unused_since(path)
            try:
                found = _read_file(path, unused, operation, why)
            except (DBAPIError, sqlite3.Error):
                if _unused_since(path) == unused:
                    raise
            else:
                if unused is None or _unused_since(path) == unused:
                    return found
    except (DBAPIError, sqlite3.Error, OSError) as error:
        raise why from error


def _unused_since(path: Path) -> _Marks | None:
    """The marks of an unused file: it has no log, or one without an index."""
    log = _log_mark(Path(f"{path}-wal"))
    if log is not None and os.path.exists(f"{path}-shm"):
        return None
    stat = path.stat()
    return (stat.st_mtime_ns, stat.st_size), log


def _log_mark(log: Path) -> _Mark | None:
    try:
        stat = log.stat()
    except FileNotFoundError:
        return None
    # An empty log counts as none.
    return (stat.st_mtime_ns, stat.st_size) if stat.st_size else None


def _read_file(
    path: Path, unused: _Marks | None, operation: Operation[T], why: StoreUnavailable
) -> T:
    with create_engine(
        "sqlite://",
        creator=lambda: _connect_read_only(path, unused),
        poolclass=NullPool,
        hide_parameters=True,
    ).connect() as connection:
        connection.exec_driver_sql("BEGIN")
        step = connection.scalar(select(func.max(version.c.number))) or 0
        if step > len(STEPS):
            raise StoreTooNew(step, len(STEPS))
        if step < READABLE:
            reason = f"{why.reason}, and has to be brought up to date before it is read"
            raise StoreUnavailable(reason, why.next_step)
        _fill_in_columns(connection)
        return run_on_damage(connection, operation)


def _fill_in_columns(connection: Connection) -> None:
    """Make the tables of an earlier file readable as if they had today's columns, empty.

    A temporary view hides the table of its name, and is kept in memory.
    """
    connection.exec_driver_sql("PRAGMA temp_store=MEMORY")
    for table in metadata.sorted_tables:
        found = connection.exec_driver_sql(f"PRAGMA main.table_info({table.name})").all()
        missing = {column.name for column in table.columns} - {row[1] for row in found}
        columns = ", ".join(f'NULL AS "{name}"' for name in sorted(missing))
        if not found:
            connection.exec_driver_sql(f"CREATE TEMP VIEW {table.name} AS SELECT {columns} WHERE 0")
        elif missing:
            connection.exec_driver_sql(
                f"CREATE TEMP VIEW {table.name} AS SELECT *, {columns} FROM main.{table.name}"
            )


def _connect_read_only(path: Path, unused: _Marks | None) -> sqlite3.Connection:
    address = f"{path.as_uri()}?mode=ro"
    if unused is None:
        return sqlite3.connect(address, uri=True, isolation_level=None)
    if unused[1] is None:
        # Otherwise SQLite would create a log first.
        return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    # In exclusive mode SQLite keeps the log's index in memory. That mode needs a lock, and a lock
    # needs a writable file; this VFS takes no locks.
    connection = sqlite3.connect(f"{address}&vfs=unix-none", uri=True, isolation_level=None)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE").close()
    return connection
