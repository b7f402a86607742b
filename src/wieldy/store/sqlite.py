"""A SQLite file as a store: one writer thread, and a few readers beside it."""

import os
import queue
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL

from .database import MOST_IN_ONE_COMMIT, Intake, Job, Operation, deliver, fail, translated

T = TypeVar("T")
_LOCK_SECONDS = 10.0
_RETRY_SECONDS = 0.005
_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}


class Entrance:
    """Lets everybody in until it is shut, which waits until nobody is inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Be inside."""
        with self._changed:
            while self._shut:
                self._changed.wait()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if self._shut:
                    self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in, and wait until all have left."""
        with self._changed:
            self._shut = True
            while self._inside:
                self._changed.wait()

    def open(self) -> None:
        """Let them in again."""
        with self._changed:
            self._shut = False
            self._changed.notify_all()


class Sqlite:
    """Operations of all callers, committed together by one thread."""

    def __init__(self, url: URL, durability: str) -> None:
        self._engine = _engine(url, _SYNCHRONOUS[durability])
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._intake = Intake(self._jobs.put)
        self.submit = self._intake.submit
        self._connection: Connection | None = None
        self._entrance = Entrance()
        with _forking:
            _files.add(self)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="wieldy-store-read")
        self._writer = threading.Thread(target=self._serve, name="wieldy-store", daemon=True)
        self._writer.start()

    def read(self, operation: Operation[T]) -> "Future[T]":
        """Run it on a reader's thread."""

        def work() -> T:
            try:
                with self._entrance.passed(), self._engine.connect() as connection:
                    return operation(connection)
            except Exception as error:
                raise translated(error) from error

        return self._intake.begin(lambda: self._readers.submit(work))

    def vacuum(self) -> "Future[None]":
        """Write the file anew, without holes; this process's own writes wait for it."""
        future: Future[None] = Future()
        self.submit(Job(_vacuum, future, alone=True))
        return future

    def close(self) -> None:
        """Finish what was handed in, and let go of the file."""
        self._intake.close()
        self._writer.join()
        self._readers.shutdown()
        self._engine.dispose()

    def rest(self) -> None:
        """Let go of the file and keep everybody from it, until `wake`.

        SQLite remembers in the process which locks it holds; a forked child would
        inherit that memory, and not the locks.
        """
        self._entrance.shut()
        self._drop()
        self._engine.dispose()

    def wake(self) -> None:
        """Go on."""
        self._entrance.open()

    def _serve(self) -> None:
        going_on = True
        while going_on:
            batch, going_on = self._next_batch()
            with self._entrance.passed():
                self._write(batch)
        self._drop()

    def _write(self, batch: list[Job]) -> None:
        try:
            if self._connection is None:
                self._connection = self._engine.connect().execution_options(writes=True)
            if batch:
                _work(self._connection, batch)
        except Exception as error:
            # It can't be opened, or not even be rolled back: the next batch tries anew.
            fail(batch, error)
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _next_batch(self) -> tuple[list[Job], bool]:
        """Everything that waits now, and whether there may be more."""
        batch: list[Job] = []
        while not batch or (len(batch) < MOST_IN_ONE_COMMIT and not self._jobs.empty()):
            job = self._jobs.get()
            if job is None:
                return batch, False
            batch.append(job)
        return batch, True


def _work(connection: Connection, batch: list[Job]) -> None:
    together = [job for job in batch if not job.alone]
    if together:
        _commit(connection, together)
    for job in batch:
        if job.alone:
            try:
                job.result = job.operation(connection)
            except Exception as error:
                fail([job], error)
            else:
                deliver([job])


def _vacuum(connection: Connection) -> None:
    file: Any = connection.connection.driver_connection
    file.execute("VACUUM")
    busy, _, _ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise sqlite3.OperationalError("database is locked")


def _commit(connection: Connection, batch: list[Job]) -> None:
    """Run a batch in one transaction; if one of it fails, each in its own."""
    file: Any = connection.connection.driver_connection
    try:
        file.execute("BEGIN IMMEDIATE")
    except Exception as error:
        # Nobody can write now: trying each alone would only wait once more for each.
        fail(batch, error)
        return
    try:
        for job in batch:
            job.result = job.operation(connection)
        file.execute("COMMIT")
    except Exception as error:
        _roll_back(connection, file)
        if len(batch) == 1:
            fail(batch, error)
        else:
            for job in batch:
                _commit(connection, [job])
        return
    _roll_back(connection, file)
    deliver(batch)


def _roll_back(connection: Connection, file: Any) -> None:
    """End what is still open: the transaction, and what SQLAlchemy remembers of it."""
    if file.in_transaction:
        file.execute("ROLLBACK")
    if connection.in_transaction():
        connection.rollback()


def _engine(url: URL, synchronous: str) -> Engine:
    patience = float(str(url.query.get("timeout", _LOCK_SECONDS)))
    engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": patience})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        # The driver's own BEGIN comes too late to take the write lock in time.
        connection.isolation_level = None
        _use_wal(connection, time.monotonic() + patience)
        connection.execute(f"PRAGMA synchronous={synchronous}").close()
        # The secrets of a call that waited must not stay in the page that they were removed from.
        connection.execute("PRAGMA secure_delete=ON").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The writer has begun already, with the lock that lets it write.
        if not connection.get_execution_options().get("writes", False):
            connection.exec_driver_sql("BEGIN")

    return engine


def _use_wal(connection: Any, until: float) -> None:
    """Let readers and the writer go on side by side.

    Changing the journal is the one moment when SQLite doesn't wait for others by itself.
    """
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


_forking = threading.Lock()
_files: "weakref.WeakSet[Sqlite]" = weakref.WeakSet()


def _rest_all() -> None:
    _forking.acquire()
    for file in _files:
        file.rest()


def _wake_all() -> None:
    for file in _files:
        file.wake()
    _forking.release()


def _forget_all() -> None:
    # The threads that would use them are the parent's.
    _files.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_rest_all, after_in_parent=_wake_all, after_in_child=_forget_all)
