"""A PostgreSQL server as a store: one writer task on a loop of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from wieldy.core.errors import StoreUnavailable
from wieldy.core.sync import LoopThread

from .database import (
    MAX_IN_ONE_COMMIT,
    CommitMeter,
    JobIntake,
    Operation,
    StoreJob,
    deliver_results,
    fail_jobs,
)
from .database_errors import concerns_all, is_locked, is_passing, translate_error
from .migrations import HOLDERS
from .prepared_statements import Write
from .tables import metadata

T = TypeVar("T")
_CONNECT_SECONDS = 10.0
_COMMAND_SECONDS = 30.0
_VACUUM_SECONDS = 3600.0
_LOCK_TIMEOUT = "3s"
# How long to try to connect again before the operations fail.
_RETURN_SECONDS = 5.0
_SYNCHRONOUS = {"full": "on", "normal": "off"}


class Postgres:
    """Runs operations on a background loop, whichever loop they come from."""

    # A caller never commits by itself, because waiting for a server is the background loop's work.
    quiet = False
    gives_way_at = 0.0
    prepare: Operation[Any] | None = None

    def __init__(self, url: URL, durability: str) -> None:
        self._url = url
        settings = {"synchronous_commit": _SYNCHRONOUS[durability]}
        self._engine = _make_engine(url, settings, _COMMAND_SECONDS)
        self._loop = LoopThread("wieldy-store")
        self._jobs: asyncio.Queue[StoreJob | None] = asyncio.Queue()
        self._intake = JobIntake(lambda job: self._loop.call(self._jobs.put_nowait, job))
        self.submit = self._intake.submit
        self.commits = CommitMeter()
        self._connection: AsyncConnection | None = None
        self._ended: Future[None] = Future()
        self._loop.submit(self._serve_jobs(), self._ended)

    async def give_way(self) -> None:
        """Do nothing: callers don't commit here."""

    def commit_here(self, write: Write) -> bool:
        """Return False: callers don't commit here."""
        return False

    def leave_to_writer(self) -> None:
        """Do nothing: only the writer commits here."""

    def read(self, operation: Operation[T]) -> "Future[T]":
        """Run it on a connection of its own."""
        return self._intake.begin(lambda: self._start_work(self._read_patiently(operation)))

    def upgrade(self, operation: Operation[T]) -> "Future[T]":
        """Run it without a limit of time, but wait only briefly for locks that others hold."""
        return self._intake.begin(lambda: self._start_work(self._run_at_length(operation)))

    def vacuum(self) -> "Future[None]":
        """Let the server reuse the space of deleted rows, without blocking writers."""
        return self._intake.begin(lambda: self._start_work(self._vacuum_tables()))

    def close(self) -> None:
        """Finish the submitted work and close the connections."""
        self._intake.close()
        self._ended.result()
        self._loop.stop()

    def _start_work(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        answer: Future[T] = Future()
        # A connection keeps the context in which it was opened, so that is an empty one.
        Context().run(self._loop.submit, work, answer)
        return answer

    async def _read_patiently(self, operation: Operation[T]) -> T:
        async def attempt() -> T:
            async with self._engine.connect() as connection:
                try:
                    return await connection.run_sync(operation)
                except BaseException as error:
                    # A cancel that comes late would hit the next statement on this connection.
                    if is_passing(error) or isinstance(error, asyncio.CancelledError):
                        await connection.invalidate()
                    raise

        try:
            return await _try_patiently(attempt, is_passing, time.monotonic() + _RETURN_SECONDS)
        except Exception as error:
            raise translate_error(error) from error

    async def _run_at_length(self, operation: Operation[T]) -> T:
        engine = _make_engine(self._url, {"lock_timeout": _LOCK_TIMEOUT}, None)

        async def attempt() -> T:
            async with engine.begin() as connection:
                return await connection.run_sync(operation)

        try:
            return await _try_patiently(attempt, is_passing, time.monotonic() + _RETURN_SECONDS)
        except Exception as error:
            ours = translate_error(error)
            if is_locked(error):
                ours = await _name_holders(engine, ours)
            raise ours from error
        finally:
            await engine.dispose()

    async def _vacuum_tables(self) -> None:
        names = ", ".join(table.name for table in metadata.sorted_tables)
        engine = _make_engine(self._url, {"lock_timeout": _LOCK_TIMEOUT}, _VACUUM_SECONDS)
        try:
            async with engine.connect() as connection:
                # VACUUM can't run inside a transaction.
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                await connection.exec_driver_sql(f"VACUUM {names}")
        except Exception as error:
            raise translate_error(error) from error
        finally:
            await engine.dispose()

    async def _serve_jobs(self) -> None:
        going_on = True
        while going_on:
            batch = [await self._jobs.get()]
            while not self._jobs.empty() and len(batch) < MAX_IN_ONE_COMMIT:
                batch.append(self._jobs.get_nowait())
            going_on = None not in batch
            jobs = [job for job in batch if job is not None]
            try:
                await self._commit_batch(jobs, time.monotonic() + _RETURN_SECONDS)
            except Exception as error:
                # There may be no memory for an answer. The writer goes on, and nobody is left.
                fail_jobs(jobs, error)
            # The finished batch is not kept in memory while the writer waits for work.
            del batch, jobs
        # Reads that are still running get their answers before the loop stops.
        beside = [asyncio.wrap_future(answer) for answer in tuple(self._intake.answers)]
        await asyncio.gather(*beside, return_exceptions=True)
        await self._drop_connection()
        await self._engine.dispose()

    async def _commit_batch(self, batch: list[StoreJob], until: float) -> None:
        """Run a batch in one transaction; if an operation fails, run each in its own."""
        if not batch:
            return
        alone, started = len(batch) == 1, time.perf_counter()
        try:
            await _try_patiently(
                lambda: self._attempt_batch(batch),
                # One operation may fail alone, and two batches may wait for each other's rows.
                lambda error: is_passing(error) and (alone or concerns_all(error)),
                until,
            )
        except Exception as error:
            if alone or concerns_all(error):
                fail_jobs(batch, error)
            else:
                for job in list(batch):
                    await self._commit_batch([job], until)
            return
        self.commits.add(time.perf_counter() - started)
        deliver_results(batch)

    async def _attempt_batch(self, batch: list[StoreJob]) -> None:
        def run(plain: Connection) -> None:
            for job in batch:
                job.result = job.operation(plain)

        if self._connection is None:
            self._connection = await self._engine.connect()
        try:
            async with self._connection.begin():
                await self._connection.run_sync(run)
        except Exception as error:
            # Also after a cancel, which may come late and hit the next statement.
            if is_passing(error) or isinstance(error, MemoryError):
                await self._drop_connection()
            raise

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # The connection is discarded, whatever state it is in.
        with suppress(Exception):
            await connection.invalidate()
            await connection.close()


async def _try_patiently(
    attempt: Callable[[], Awaitable[T]], passes: Callable[[Exception], bool], until: float
) -> T:
    """Run an attempt, and repeat it until a time after errors that may pass."""
    pause = 0.05
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not passes(error) or time.monotonic() + pause > until:
                raise
        await asyncio.sleep(pause)
        pause *= 2


async def _name_holders(engine: AsyncEngine, error: Exception) -> Exception:
    """The error with who holds the locks that were waited for, as far as that is seen."""
    try:
        async with engine.connect() as connection:
            found = (await connection.execute(HOLDERS)).all()
    except Exception:
        return error
    named = [
        f"process {row.pid} of {row.who} ({row.program or 'unnamed'}, {row.state})" for row in found
    ]
    if not named:
        return error
    said = f"it can't be brought up to date while others use its tables: {', '.join(named)}"
    return StoreUnavailable(said, "Try again when they have finished, or end them.")


def _make_engine(url: URL, settings: dict[str, str], seconds: float | None) -> AsyncEngine:
    if "sslmode" in url.query:
        # `sslmode` is the name that every other client uses.
        mode = str(url.query["sslmode"])
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return create_async_engine(
        url,
        pool_size=5,
        pool_pre_ping=True,
        # Errors are logged, and a parameter may be a secret of a waiting call.
        hide_parameters=True,
        # Each statement must see what others have committed, whatever the server's default is.
        isolation_level="READ COMMITTED",
        connect_args={
            "timeout": _CONNECT_SECONDS,
            "command_timeout": seconds,
            "server_settings": settings,
        },
    )
