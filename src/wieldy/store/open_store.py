"""A store in use: its database, this process as its owner, and a pulse."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from time import perf_counter
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from wieldy.core.errors import StoreUnavailable

from .databases.database import Operation, StoreJob, open_database
from .databases.database_errors import ValueRefused
from .databases.migrations import migrate_database, require_current
from .databases.prepared_statements import Write
from .process_owner import PULSE_SECONDS, ProcessOwner
from .pruning import Pruning, Step, claim_pruning, give_back

T = TypeVar("T")
# Few ends are owed at a time, because no call starts while nothing can be written.
_MAX_OWED = 10_000
_RETRY_SECONDS = 1.0
_log = logging.getLogger("wieldy")


class StoreClosed(StoreUnavailable):
    """Raised if the store was closed before the operation was submitted."""


class Opened:
    """An opened store. It is made on a thread that may block."""

    def __init__(self, url: URL, durability: str, pruning: Pruning, upgrades: bool = True) -> None:
        self.owner = ProcessOwner()
        self.database = open_database(url, durability)
        self.commit_here = self.database.commit_here
        self._owed: deque[Operation[Any]] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._away = False
        self._closing = threading.Event()
        self._pruning = pruning
        self._prunable: list[Step] = []
        self._stirred = threading.Event()
        try:
            if upgrades:
                self.database.upgrade(migrate_database).result()
            else:
                self.database.read(require_current).result()
            self._note_pulse(self._wait_for(self._write_pulse))
            self.database.prepare = self._sign_in
        except BaseException:
            self.database.close()
            raise
        self._pulse = threading.Thread(target=self._keep_pulse, name="wieldy-pulse", daemon=True)
        self._pulse.start()

    def write(self, operation: Operation[T]) -> Awaitable[T]:
        """Run an operation, and answer when it is durable; concurrent writers share a commit.

        `StoreClosed` is raised at once, or by the awaitable.
        """
        database = self.database
        if database.quiet and perf_counter() > database.gives_way_at:
            return self._write_alone(operation)
        return self._write_together(operation)

    async def _write_alone(self, operation: Operation[T]) -> T:
        """Write on this thread if there is still no other writer after a turn of the loop."""
        await self.database.give_way()
        if isinstance(operation, Write) and self.database.commit_here(operation):
            done: T = operation.done
            return done
        return await self._write_together(operation)

    def _write_together(self, operation: Operation[T]) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._submit_job(StoreJob(operation, future, loop))
        return future

    def read(self, operation: Operation[T]) -> "Future[T]":
        """Run an operation beside the writer."""
        with self._lock:
            if self._closed:
                raise _closed_error()
            return self.database.read(operation)

    def insist(self, operation: Operation[Any]) -> None:
        """Run an operation soon, and again until it succeeds. From any thread."""

        def look(done: "Future[Any]") -> None:
            left = _left_owed(operation, done.exception())
            if left is not None:
                self.owe(left)

        future: Future[Any] = Future()
        future.add_done_callback(look)
        self._submit_job(StoreJob(operation, future))

    def owe(self, operation: Operation[Any]) -> None:
        """Try an operation again every second, until it succeeds."""
        if len(self._owed) < _MAX_OWED:
            self._owed.append(operation)
            self._stirred.set()
        else:
            if isinstance(operation, Write):
                operation.refused()
            _log.error("The store can't be written for long; the end of a call is not recorded")

    def close(self) -> None:
        """Remove this process from the owners and close the database. It blocks."""
        self._closing.set()
        self._stirred.set()
        self._pulse.join()
        with self._lock:
            # A call that starts from now on must not use this owner, which is about to leave.
            self._closed = True
        self.database.leave_to_writer()
        self._pay_owed()
        if self._prunable:
            self._try_out(give_back)
        # If the owner can't be removed now, others find it dead later.
        self._try_out(self.owner.leave)
        self.database.close()

    def _sign_in(self, connection: Connection) -> bool:
        migrate_database(connection)
        return self._write_pulse(connection)

    def _write_pulse(self, connection: Connection) -> bool:
        """Write our pulse, and sweep dead owners; returns whether it is our turn to prune."""
        self.owner.beat(connection)
        self.owner.sweep(connection)
        return self._pruning.due_by_itself and claim_pruning(connection)

    def _note_pulse(self, due: bool) -> None:
        self.owner.heard()
        if due:
            self._prunable = self._pruning.steps()

    def _keep_pulse(self) -> None:
        self._prune_steps()
        while not self._closing.is_set():
            self._stirred.wait(PULSE_SECONDS)
            self._stirred.clear()
            if self._owed:
                self._closing.wait(_RETRY_SECONDS)
            self._try_out(self._write_pulse, self._note_pulse)
            self._pay_owed()
            self._prune_steps()
            if self._owed:
                self._stirred.set()

    def _prune_steps(self) -> None:
        """Prune step by step, until the next pulse is near."""
        until = time.monotonic() + PULSE_SECONDS / 2
        while self._prunable and not self._closing.is_set() and time.monotonic() < until:
            try:
                removed = self._wait_for(self._prunable[0][1])
            except Exception:
                # The error is only logged: without a pulse, others would take us for dead.
                _log.warning("The store could not be pruned; pruning is tried again", exc_info=True)
                return
            if not removed:
                self._prunable.pop(0)

    def _pay_owed(self) -> None:
        """Write what is owed; what the store refuses for now comes after the others next time."""
        for _ in range(len(self._owed)):
            operation = self._owed[0]
            error = self._try_out(operation)
            if isinstance(error, StoreUnavailable):
                return
            self._owed.popleft()
            left = _left_owed(operation, error)
            if left is not None:
                self._owed.append(left)

    def _try_out(
        self, operation: Operation[T], then: Callable[[T], None] | None = None
    ) -> Exception | None:
        """Run an operation; returns why it is not written, which is logged once."""
        try:
            result = self._wait_for(operation)
            if then is not None:
                then(result)
        except Exception as error:
            # A pulse and what is owed are tried again each time; one warning is enough.
            level = logging.DEBUG if self._away else logging.WARNING
            _log.log(level, "The store can't be written; writing is tried again", exc_info=True)
            self._away = True
            return error
        self._away = False
        return None

    def _submit_job(self, job: StoreJob) -> None:
        with self._lock:
            if self._closed:
                raise _closed_error()
            self.database.submit(job)

    def _wait_for(self, operation: Operation[T]) -> T:
        future: Future[T] = Future()
        self.database.submit(StoreJob(operation, future))
        return future.result()


def _left_owed(operation: Operation[Any], error: BaseException | None) -> Operation[Any] | None:
    """What remains to be written after an operation was tried."""
    if isinstance(error, StoreUnavailable):
        return operation
    if not isinstance(operation, Write):
        if error is not None:
            _log.error("The store refused what it was owed", exc_info=error)
        return None
    if error is None:
        operation.settled()
        return None
    # What is refused for another reason than its value stays, since that can be set right.
    smaller = operation.smaller(error) if isinstance(error, ValueRefused) else operation
    if smaller is None:
        _log.error("The store refused what it was owed", exc_info=error)
        operation.refused()
    return smaller


def _closed_error() -> StoreClosed:
    return StoreClosed("it was closed", "The next call opens it again.")
