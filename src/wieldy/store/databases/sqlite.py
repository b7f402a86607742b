"""A SQLite file as a store: one writer thread, and a few readers beside it."""

import asyncio
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

from wieldy.core.forking import at_fork

from .database import (
    MAX_IN_ONE_COMMIT,
    CommitMeter,
    JobIntake,
    Operation,
    StoreJob,
    deliver_results,
    fail_jobs,
)
from .database_errors import sqlite_error, translate_error
from .prepared_statements import Write
from .sqlite_batches import commit, run_jobs, run_on_damage, vacuum_file
from .sqlite_identity import FileIdentity, find_path

T = TypeVar("T")
_LOCK_SECONDS = 10.0
_RETRY_SECONDS = 0.005
# If recent commits took longer, a lone caller leaves them to the writer.
_QUICK_SECONDS = 0.0003
# How long a lone caller may hold its loop before other tasks get a turn.
_HELD_SECONDS = 0.002
# One in this many commits is left to the writer.
_OWN_COMMITS = 250
_LOG_PAGES = 1000
_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}


class Entrance:
    """Admits every thread until it is shut; shutting waits until nobody is inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Be inside during the `with` block."""
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
        """Admit nobody, and wait until all have left."""
        with self._changed:
            self._shut = True
            while self._inside:
                self._changed.wait()

    def open(self) -> None:
        """Admit threads again."""
        with self._changed:
            self._shut = False
            self._changed.notify_all()


class Sqlite:
    """Commits the operations of all callers on one thread, or on a lone caller's thread."""

    def __init__(self, url: URL, durability: str) -> None:
        self._engine, self._patience = _make_engine(url, _SYNCHRONOUS[durability])
        self._jobs: queue.SimpleQueue[StoreJob | None] = queue.SimpleQueue()
        self._intake = JobIntake(self._jobs.put)
        self.submit = self._intake.submit
        self.commits = CommitMeter()
        self._connection: Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self.prepare: Operation[Any] | None = None
        # Which file the connection has opened; kept when the connection is dropped.
        self._file: FileIdentity | None = None
        # Held by the thread that uses the connection; it is reentrant, so the thread can tell.
        self._turn = threading.RLock()
        self._patient = True
        self._closing = False
        self._pace = 10 * _QUICK_SECONDS
        # Whether the last commit was quick and had one caller.
        self.quiet = False
        self.gives_way_at = 0.0
        self._own_commits = 0
        self._entrance = Entrance()
        with _forking:
            _files.add(self)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="wieldy-store-read")
        self._writer = threading.Thread(target=self._serve_jobs, name="wieldy-store", daemon=True)
        self._writer.start()

    async def give_way(self) -> None:
        """Let other tasks run, so that those about to write can join the commit."""
        self.quiet = False
        await asyncio.sleep(0)
        self.gives_way_at = time.perf_counter() + _HELD_SECONDS
        self.quiet = self._jobs.empty()

    def commit_here(self, write: Write) -> bool:
        """Commit a brief write on this thread if nobody else writes; returns whether it did.

        On a fast disk a commit takes less time than waking the writer and being woken by it.
        """
        started = time.perf_counter()
        if not self.quiet or not write.brief or started > self.gives_way_at:
            return False
        self._own_commits += 1
        if not self._own_commits % _OWN_COMMITS:
            # The writer takes this one, and also checkpoints the log.
            return False
        statement = write.statement.in_sqlite
        try:
            # Inside the `try`, because a signal may raise as soon as the lock is taken.
            if not self._turn.acquire(False) or self._cursor is None or self._closing:
                return False
            if self._file is None or not self._file.is_current():
                # The writer reports it.
                return False
            if self._patient:
                self._be_patient(False)
            # A statement by itself is a transaction.
            self._cursor.execute(statement.sql, statement.bound(write.values))
            written = self._cursor.rowcount > 0
            if written:
                self.commits.add(time.perf_counter() - started)
            return written
        except Exception:
            # Another process is writing, or something is wrong. The writer can wait, and report it.
            return False
        finally:
            try:
                self._turn.release()
            except RuntimeError:
                pass  # Another thread holds the lock.
            else:
                self._pace += (time.perf_counter() - started - self._pace) / 4
                self.quiet = self._pace < _QUICK_SECONDS

    def read(self, operation: Operation[T]) -> "Future[T]":
        """Run it on a reader's thread."""

        def work() -> T:
            try:
                with self._entrance.passed():
                    self._check_file()
                    with self._engine.connect() as connection:
                        try:
                            return run_on_damage(connection, operation)
                        except Exception:
                            # Rows that were not fetched would hold it to what the file was.
                            connection.invalidate()
                            raise
            except Exception as error:
                raise translate_error(error) from error

        return self._intake.begin(lambda: self._readers.submit(work))

    def _check_file(self) -> None:
        """Raise if the file is not the one that the writer has opened, which it then opens."""
        file = self._file
        if file is not None and not file.is_current():
            self.submit(StoreJob(lambda connection: None, Future()))
            raise file.lost()

    def upgrade(self, operation: Operation[T]) -> "Future[T]":
        """Run it as the writer runs anything: nothing limits its time."""
        future: Future[T] = Future()
        self.submit(StoreJob(operation, future))
        return future

    def vacuum(self) -> "Future[None]":
        """Rewrite the file without free space; the writes of this process wait for it."""
        future: Future[None] = Future()
        self.submit(StoreJob(vacuum_file, future, alone=True))
        return future

    def leave_to_writer(self) -> None:
        """From now on only the writer commits, in the order of submission."""
        with self._turn:
            self._closing = True

    def close(self) -> None:
        """Finish the submitted work and close the file."""
        self._intake.close()
        self._writer.join()
        self._readers.shutdown()
        self._engine.dispose()

    def rest(self) -> None:
        """Close the file and keep all threads from it, until `wake`.

        SQLite keeps in memory which locks the process holds. A forked child would inherit that
        memory, but not the locks.
        """
        self._entrance.shut()
        self._turn.acquire()
        self._drop_connection()
        self._engine.dispose()

    def wake(self) -> None:
        """Use the file again."""
        self._turn.release()
        self._entrance.open()

    def _serve_jobs(self) -> None:
        going_on = True
        while going_on:
            batch, going_on = self._next_batch()
            try:
                with self._entrance.passed(), self._turn:
                    self._write_batch(batch)
                deliver_results(batch)
            except Exception as error:
                # There may be no memory for an answer. The writer goes on, and nobody is left.
                fail_jobs(batch, error)
            # The finished batch is not kept in memory while the writer waits for work.
            del batch
        with self._turn:
            self._drop_connection()

    def _write_batch(self, batch: list[StoreJob]) -> None:
        started = time.perf_counter()
        try:
            run_jobs(self._open_file(), batch)
            assert self._file is not None
            self._file.note_log()
        except Exception as error:
            # The file can't be opened, or the rollback failed; the next batch opens it again.
            for job in batch:
                job.fail(error)
            self._drop_connection()
        seconds = time.perf_counter() - started
        if any(job.error is None for job in batch):
            self.commits.add(seconds)
        if len(batch) == 1:
            self._pace += (seconds - self._pace) / 4
        self.quiet = len(batch) == 1 and self._pace < _QUICK_SECONDS

    def _open_file(self) -> Connection:
        """The connection of the writer; `StoreUnavailable` if the file is not as it was."""
        before, held = self._file, self._connection
        if held is not None and before is not None and before.is_current():
            if not self._patient:
                self._be_patient(True)
            return held
        self._drop_connection()
        self._engine.dispose()
        self._connection = connection = self._engine.connect().execution_options(writes=True)
        file: Any = connection.connection.driver_connection
        self._cursor = file.cursor()
        self._patient = True
        self._file = FileIdentity(file)
        # SQLite itself removes the log when nobody uses the file any more.
        if before is None or (held is None and before.is_same_file(self._file)):
            return connection
        if self.prepare is not None:
            ready = StoreJob(self.prepare, Future())
            commit(connection, [ready])
            if ready.error is not None:
                self._file = before
        raise before.lost()

    def _be_patient(self, patient: bool) -> None:
        """Set whether commits wait for other processes and checkpoint the log."""
        seconds, pages = (self._patience, _LOG_PAGES) if patient else (0, 0)
        # Set first: if this is interrupted, the next caller that needs patience sets the rest.
        self._patient = False
        assert self._cursor is not None
        self._cursor.execute(f"PRAGMA busy_timeout={round(seconds * 1000)}").fetchall()
        self._cursor.execute(f"PRAGMA wal_autocheckpoint={pages}").fetchall()
        self._patient = patient

    def _drop_connection(self) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _next_batch(self) -> tuple[list[StoreJob], bool]:
        """All jobs that wait now, and whether there may be more."""
        batch: list[StoreJob] = []
        while not batch or (len(batch) < MAX_IN_ONE_COMMIT and not self._jobs.empty()):
            job = self._jobs.get()
            if job is None:
                return batch, False
            batch.append(job)
        return batch, True


def _make_engine(url: URL, synchronous: str) -> tuple[Engine, float]:
    """The engine that makes connections; `patience` is how long they wait for other processes."""
    patience = float(str(url.query.get("timeout", _LOCK_SECONDS)))
    connect = {"check_same_thread": False, "timeout": patience}
    # Parameters are hidden: errors are logged, and a parameter may be a secret of a waiting call.
    # A reader gets the connection used last, which knows what has changed since.
    engine = create_engine(url, connect_args=connect, hide_parameters=True, pool_use_lifo=True)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        # The driver's own BEGIN is too late to take the write lock.
        connection.isolation_level = None
        _check_writable(connection)
        _use_wal(connection, time.monotonic() + patience)
        connection.execute(f"PRAGMA synchronous={synchronous}").close()
        # The secrets of a call that waited must be erased from the file's pages.
        connection.execute("PRAGMA secure_delete=ON").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The writer has begun its transaction already, with the write lock.
        if not connection.get_execution_options().get("writes", False):
            connection.exec_driver_sql("BEGIN")

    return engine, patience


def _check_writable(connection: Any) -> None:
    """Refuse a file that can only be read.

    SQLite would notice as well, but it would first make a log that the file's owner can't
    write to.
    """
    path = find_path(connection)
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise sqlite_error(sqlite3.SQLITE_READONLY, "attempt to write a readonly database")


def _use_wal(connection: Any, until: float) -> None:
    """Let readers and the writer go on side by side.

    While the journal mode changes, SQLite does not wait for other processes by itself.
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
    # The threads that use the connections exist only in the parent.
    _files.clear()
    _forking.release()


at_fork(_forget_all, before=_rest_all, in_parent=_wake_all)
