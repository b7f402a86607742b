"""Run jobs in a SQLite file, in as few transactions and statements as possible."""

import sqlite3
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from .damaged_values import DamagedText
from .database import Operation, StoreJob
from .database_errors import sqlite_error
from .prepared_statements import Write

T = TypeVar("T")


def run_jobs(connection: Connection, batch: list[StoreJob]) -> None:
    """Run all jobs; each job keeps its answer."""
    together = [job for job in batch if not job.alone]
    if together:
        commit(connection, together)
    for job in batch:
        if job.alone:
            try:
                job.result = job.operation(connection)
            except Exception as error:
                job.fail(error)


def commit(connection: Connection, batch: list[StoreJob]) -> None:
    """Run a batch in one transaction; if a job fails, run each in its own."""
    file: Any = connection.connection.driver_connection
    try:
        file.execute("BEGIN IMMEDIATE")
    except Exception as error:
        # The file can't be written now, and each job alone would only wait again.
        for job in batch:
            job.fail(error)
        return
    try:
        for _, group in groupby(batch, _shared_statement):
            _run_jobs(connection, file, list(group))
        file.execute("COMMIT")
    except Exception as error:
        _roll_back(connection, file)
        if len(batch) == 1:
            batch[0].fail(error)
        else:
            for job in batch:
                commit(connection, [job])
        return
    _roll_back(connection, file)


def run_on_damage(connection: Connection, operation: Operation[T]) -> T:
    """Run an operation; bytes that are no text hide one column, and not all rows of a list."""
    try:
        return operation(connection)
    except OperationalError as error:
        # Python has no code for it.
        if "Could not decode to UTF-8" not in str(error.orig):
            raise
    file: Any = connection.connection.driver_connection
    file.text_factory = _decode_damaged
    try:
        return operation(connection)
    finally:
        file.text_factory = str


def _decode_damaged(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return DamagedText(text.decode(errors="surrogateescape"))


def vacuum_file(connection: Connection) -> None:
    """Rewrite the file without free space."""
    file: Any = connection.connection.driver_connection
    file.execute("VACUUM")
    busy, _, _ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise sqlite_error(sqlite3.SQLITE_BUSY, "database is locked")


def _run_jobs(connection: Connection, file: Any, jobs: list[StoreJob]) -> None:
    """Run jobs one by one, or as one statement if they write alike and all find their rows."""
    writes = [job.operation for job in jobs if isinstance(job.operation, Write)]
    if len(writes) > 1 and writes[0].touches_each(file, writes):
        for job, write in zip(jobs, writes, strict=True):
            job.result = write.done
    else:
        # Jobs whose row was written recognise their own work when they run again.
        for job in jobs:
            job.result = run_on_damage(connection, job.operation)


def _shared_statement(job: StoreJob) -> object:
    """The key of writes that can run as one statement; any other job has a key of its own."""
    write = job.operation
    return write.statement if isinstance(write, Write) else job


def _roll_back(connection: Connection, file: Any) -> None:
    """Roll back the transaction, in the database and in SQLAlchemy."""
    if file.in_transaction:
        file.execute("ROLLBACK")
    if connection.in_transaction():
        connection.rollback()
