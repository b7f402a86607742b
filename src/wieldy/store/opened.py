"""A store in use: its database, this process as its owner, and a pulse."""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from wieldy.core.errors import StoreError

from .database import Job, Operation, open_database
from .migrations import migrate
from .owner import PULSE_SECONDS, Owner
from .pruning import Pruning, Step, claim

T = TypeVar("T")
_MOST_OWED = 1000
_log = logging.getLogger("wieldy")


class Opened:
    """What there is only after a store was opened. Made on a thread that may block."""

    def __init__(self, url: URL, durability: str, pruning: Pruning) -> None:
        self.owner = Owner()
        self.database = open_database(url, durability)
        self._owed: deque[Operation[Any]] = deque(maxlen=_MOST_OWED)
        self._closing = threading.Event()
        self._pruning = pruning
        self._prunable: list[Step] = []
        try:
            self._note(self._wait_for(self._arrive))
        except BaseException:
            self.database.close()
            raise
        self._pulse = threading.Thread(target=self._beat, name="wieldy-pulse", daemon=True)
        self._pulse.start()

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it; a forked child has none of its parent's threads."""
        return self.owner.pid == os.getpid()

    def write(self, operation: Operation[T]) -> "asyncio.Future[T]":
        """Run it and answer when it is durable; concurrent writers share a commit."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.database.submit(Job(operation, future))
        return future

    def submit(self, operation: Operation[T]) -> "Future[T]":
        """The same from any thread."""
        future: Future[T] = Future()
        self.database.submit(Job(operation, future))
        return future

    def owe(self, operation: Operation[Any]) -> None:
        """Try an operation again with the next pulse, and the next, until it gets through."""
        self._owed.append(operation)

    def close(self) -> None:
        """Say goodbye and let go. It blocks."""
        self._closing.set()
        self._pulse.join()
        for operation in (*self._owed, self.owner.leave):
            try:
                self._wait_for(operation)
            except StoreError:
                # Who can't say goodbye is found dead later.
                _log.debug("The store could not be written on closing", exc_info=True)
        self.database.close()

    def _arrive(self, connection: Connection) -> bool:
        migrate(connection)
        due = self._sign(connection)
        self.owner.sweep(connection)
        return due

    def _sign(self, connection: Connection) -> bool:
        """Say that we are here; whether it is for us to prune now."""
        self.owner.beat(connection)
        return claim(connection)

    def _note(self, due: bool) -> None:
        if due:
            self._prunable = self._pruning.steps()

    def _beat(self) -> None:
        self._prune()
        while not self._closing.wait(PULSE_SECONDS):
            owed = [self._owed.popleft() for _ in range(len(self._owed))]
            try:
                self._note(self._wait_for(self._sign))
            except StoreError:
                _log.warning("The store can't be written; it is tried again", exc_info=True)
            for operation in owed:
                try:
                    self._wait_for(operation)
                except StoreError:
                    _log.warning("The store can't be written; it is tried again", exc_info=True)
                    self._owed.append(operation)
            self._prune()

    def _prune(self) -> None:
        """Remove what need not be kept, step by step, until the next pulse is near."""
        until = time.monotonic() + PULSE_SECONDS / 2
        while self._prunable and not self._closing.is_set() and time.monotonic() < until:
            try:
                removed = self._wait_for(self._prunable[0][1])
            except Exception:
                # Without a pulse others would take us for dead.
                _log.warning("The store could not be pruned; it is tried again", exc_info=True)
                return
            if not removed:
                self._prunable.pop(0)

    def _wait_for(self, operation: Operation[T]) -> T:
        return self.submit(operation).result()
