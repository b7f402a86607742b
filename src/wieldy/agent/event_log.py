"""The events of a request, which any number of readers on any event loop can follow."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

Waiting = tuple["asyncio.Future[None]", ...]


class EventLog:
    """A list of events with one writer. Each reader gets all events from the beginning.

    The log is closed after the last event, and ends later, when its request has.
    """

    __slots__ = ("_closed", "_closing", "_ended", "_ending", "_items", "_lock", "_waiting")

    def __init__(self, lock: "threading.Lock | None" = None) -> None:
        # Names and data in turn: a pair for each event would be one more object to collect.
        self._items: Sequence[Any] = ()
        self._closed = self._ended = False
        # Those who wait for the next event, for the last one, and for the end.
        self._waiting: Waiting = ()
        self._closing: Waiting = ()
        self._ending: Waiting = ()
        self._lock = lock or threading.Lock()

    @property
    def closed(self) -> bool:
        """Whether no more events will follow."""
        return self._closed

    def add(self, event: str, data: Any) -> None:
        """Add one event."""
        with self._lock:
            if isinstance(self._items, list):
                self._items += (event, data)
            else:
                # Most logs of a request stay empty.
                self._items = [event, data]
            woken, self._waiting = self._waiting, ()
        if woken:
            _wake_readers(woken)

    def close(self) -> None:
        """Mark the log as complete."""
        with self._lock:
            self._closed = True
            woken, self._waiting, self._closing = (*self._waiting, *self._closing), (), ()
        if woken:
            _wake_readers(woken)

    def end(self) -> None:
        """Say that the request has ended, too."""
        self.close()
        with self._lock:
            self._ended = True
            woken, self._ending = self._ending, ()
        if woken:
            _wake_readers(woken)

    async def read(self) -> AsyncIterator[tuple[str, Any]]:
        """Iterate over all events, including those that are added later."""
        at = 0
        while True:
            while at < len(self._items):
                yield self._items[at], self._items[at + 1]
                at += 2
            if self._closed and at == len(self._items):
                return
            await self._next_change(at)

    def wait_closed(self) -> "asyncio.Future[None]":
        """A future that is done when no more events follow."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed:
                future.set_result(None)
            else:
                self._closing = (*self._closing, future)
        return future

    def wait_ended(self) -> "asyncio.Future[None]":
        """A future that is done when the request has ended."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._ended:
                future.set_result(None)
            else:
                self._ending = (*self._ending, future)
        return future

    def _next_change(self, count: int) -> "asyncio.Future[None]":
        """A future for the end of the log, or for more items than so many."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed or len(self._items) > count:
                future.set_result(None)
            else:
                self._waiting = (*self._waiting, future)
        return future


def _wake_readers(waiting: Waiting) -> None:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    for future in waiting:
        loop = future.get_loop()
        if loop is here:
            _settle_future(future)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_settle_future, future)


def _settle_future(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
