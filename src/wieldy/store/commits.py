"""Run jobs in a SQLite file, in as few transactions and statements as can be."""

import sqlite3
from itertools import groupby
from typing import Any

from sqlalchemy import Connection

from .database import Job
from .prepared import Write


def work(connection: Connection, batch: list[Job]) -> None:
    """Do all of them; their answers are left in them."""
    together = [job for job in batch if not job.alone]
    if together:
        commit(connection, together)
    for job in batch:
        if job.alone:
            try:
                job.result = job.operation(connection)
            except Exception as error:
                job.fail(error)


def commit(connection: Connection, batch: list[Job]) -> None:
    """Run a batch in one transaction; if one of it fails, each in its own."""
    file: Any = connection.connection.driver_connection
    try:
        file.execute("BEGIN IMMEDIATE")
    except Exception as error:
        # Nobody can write now: trying each alone would only wait once more for each.
        for job in batch:
            job.fail(error)
        return
    try:
        if not _run_alike_as_one(connection, file, batch):
            file.execute("ROLLBACK")
            file.execute("BEGIN IMMEDIATE")
            for job in batch:
                job.result = job.operation(connection)
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


def vacuum(connection: Connection) -> None:
    """Write the file anew, without holes."""
    file: Any = connection.connection.driver_connection
    file.execute("VACUUM")
    busy, _, _ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise sqlite3.OperationalError("database is locked")


def _run_alike_as_one(connection: Connection, file: Any, batch: list[Job]) -> bool:
    """Run a batch, neighbours that write alike as one; False if one of those found no row."""
    for _, group in groupby(batch, _likeness):
        first, *more = jobs = list(group)
        if not more:
            first.result = first.operation(connection)
            continue
        writes = [job.operation for job in jobs if isinstance(job.operation, Write)]
        if not writes[0].statement.touches_each(file, [write.values for write in writes]):
            return False
        for job in jobs:
            job.result = writes[0].done
    return True


def _likeness(job: Job) -> object:
    """What is the same for writes that can run as one; any other job is like itself only."""
    write = job.operation
    return (type(write), write.statement) if isinstance(write, Write) else job


def _roll_back(connection: Connection, file: Any) -> None:
    """End what is still open: the transaction, and what SQLAlchemy remembers of it."""
    if file.in_transaction:
        file.execute("ROLLBACK")
    if connection.in_transaction():
        connection.rollback()
