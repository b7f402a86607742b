"""Read a SQLite file that can't be opened as a store, because nothing can be written to it."""

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
from .tables import metadata, version

T = TypeVar("T")
# When a file was changed, and its size.
_Mark = tuple[int, int]
# The marks of a file and of its log, if it has one.
_Marks = tuple[_Mark, _Mark | None]


def read_unwritable(url: URL, operation: Operation[T], why: StoreUnavailable) -> T:
    """What an operation reads from the file as it is; `why` is raised if it can't be read either.

    A file with a log is read together with it, and nothing is put beside them. So a file
    that nobody uses is read without locks, and nobody may have used it when that is done.
    """
    # The log is beside the file itself, not beside a link to it.
    path = Path(os.path.realpath(url.database or ""))
    try:
        while True:
            unused = _unused_since(path)
            try:
                found = _read(path, unused, operation, why)
            except (DBAPIError, sqlite3.Error):
                if _unused_since(path) == unused:
                    raise
            else:
                if unused is None or _unused_since(path) == unused:
                    return found
    except (DBAPIError, sqlite3.Error, OSError) as error:
        raise why from error


def _unused_since(path: Path) -> _Marks | None:
    """The marks of a file that nobody uses: it has no log, or one that nobody has indexed."""
    log = _mark(Path(f"{path}-wal"))
    if log is not None and os.path.exists(f"{path}-shm"):
        return None
    stat = path.stat()
    return (stat.st_mtime_ns, stat.st_size), log


def _mark(log: Path) -> _Mark | None:
    try:
        stat = log.stat()
    except FileNotFoundError:
        return None
    # An empty one is none.
    return (stat.st_mtime_ns, stat.st_size) if stat.st_size else None


def _read(path: Path, unused: _Marks | None, operation: Operation[T], why: StoreUnavailable) -> T:
    with create_engine(
        "sqlite://",
        creator=lambda: _connect(path, unused),
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
        return operation(connection)


def _fill_in_columns(connection: Connection) -> None:
    """Let the tables of an earlier file be read as if they had the columns of today, empty.

    A temporary view hides the table of its name, and is kept in memory.
    """
    connection.exec_driver_sql("PRAGMA temp_store=MEMORY")
    for table in metadata.sorted_tables:
        found = connection.exec_driver_sql(f"PRAGMA main.table_info({table.name})").all()
        missing = {column.name for column in table.columns} - {row[1] for row in found}
        if found and missing:
            columns = ", ".join(f'NULL AS "{name}"' for name in sorted(missing))
            connection.exec_driver_sql(
                f"CREATE TEMP VIEW {table.name} AS SELECT *, {columns} FROM main.{table.name}"
            )


def _connect(path: Path, unused: _Marks | None) -> sqlite3.Connection:
    address = f"{path.as_uri()}?mode=ro"
    if unused is None:
        return sqlite3.connect(address, uri=True, isolation_level=None)
    if unused[1] is None:
        # SQLite would make a log first.
        return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    # Who is alone with the file keeps the index in memory. To be that takes a lock, which
    # needs a file that can be written; this way of opening it has none.
    connection = sqlite3.connect(f"{address}&vfs=unix-none", uri=True, isolation_level=None)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE").close()
    return connection
