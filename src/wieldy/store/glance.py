"""Read a SQLite file that can't be opened as a store, because nothing can be written to it."""

import sqlite3
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import NullPool, create_engine, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from wieldy.core.errors import StoreTooNew, StoreUnavailable

from .database import Operation
from .migrations import STEPS
from .tables import version

T = TypeVar("T")


def glance(url: URL, operation: Operation[T], why: StoreUnavailable) -> T:
    """What an operation reads from the file as it is; `why` is raised if it can't be read either.

    A file with a log is read together with it. For one without, SQLite would make a log
    first; so it is told that the file does not change, which is checked.
    """
    path = Path(url.database or "")
    if not path.is_file():
        raise why
    while True:
        unused = _unused_since(path)
        try:
            found = _read(path, unused is not None, operation, why)
        except (DBAPIError, sqlite3.Error) as error:
            if _unused_since(path) == unused:
                raise why from error
        else:
            if unused is None or _unused_since(path) == unused:
                return found


def _unused_since(path: Path) -> tuple[int, int] | None:
    """The time and the size of a file beside which nothing is logged."""
    try:
        if Path(f"{path}-wal").stat().st_size:
            return None
    except FileNotFoundError:
        pass
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _read(path: Path, unused: bool, operation: Operation[T], why: StoreUnavailable) -> T:
    address = f"file:{quote(str(path))}?mode=ro" + ("&immutable=1" if unused else "")

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, isolation_level=None)

    with create_engine("sqlite://", creator=connect, poolclass=NullPool).connect() as connection:
        connection.exec_driver_sql("BEGIN")
        step = connection.scalar(select(func.max(version.c.number))) or 0
        if step > len(STEPS):
            raise StoreTooNew(step, len(STEPS))
        if step < len(STEPS):
            reason = f"{why.reason}, and has to be brought up to date before it is read"
            raise StoreUnavailable(reason, why.next_step)
        return operation(connection)
