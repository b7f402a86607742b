"""Wait for what happens to a call, here or in another process."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from wieldy.core.task import time_limit

_FIRST_PAUSE = 0.02
_MAX_PAUSE = 1.0


class Repeated(Exception):
    """Raised if the call was made before, as the call `first`, to wait for that one instead.

    `row` is the row of that call, where it was read just now.
    """

    def __init__(self, first: str, row: Any = None) -> None:
        super().__init__(first)
        self.first = first
        self.row = row


def shared_future() -> "Future[Any]":
    """A future for several waiters, which is not cancelled with the first of them."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


class Listener:
    """Waits for news of one call."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self.pause = _FIRST_PAUSE

    async def wait(self) -> None:
        """Wait for news from this process, or until it is time to look at the store again."""
        try:
            async with time_limit(self.pause):
                await self._news.wait()
        except TimeoutError:
            self.pause = min(self.pause * 1.6, _MAX_PAUSE)
        self._news.clear()

    def wake(self) -> None:
        """Report the news, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            # The loop was closed, so nobody waits there any more.
            return


class Bell:
    """Wakes those who wait for calls that changed in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, list[Listener]] = {}

    def ring(self, call_id: str) -> None:
        """Wake those who wait for this call."""
        if self._listeners and call_id in self._listeners:
            with self._lock:
                heard = list(self._listeners.get(call_id, ()))
            for listener in heard:
                listener.wake()

    @contextmanager
    def listening(self, call_id: str) -> Iterator[Listener]:
        """Listen for news of a call during the `with` block."""
        listener = Listener()
        with self._lock:
            self._listeners.setdefault(call_id, []).append(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners[call_id].remove(listener)
                if not self._listeners[call_id]:
                    del self._listeners[call_id]
