"""The one place where pushed items become an async iterator."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
# A writer waits when its reader is behind by more than either.
_AHEAD = 64
_AHEAD_BYTES = 4 * 1024 * 1024


class Channel:
    """A queue between one running call and one reader, on one loop.

    A writer that is more than a few items or megabytes ahead is asked to wait. A live
    reader wants only what is shown while the call runs.
    """

    def __init__(self, live: bool = False) -> None:
        self.live = live
        self._items: deque[tuple[Any, int]] = deque()
        self._held = 0
        self._closed = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []

    def push(self, item: Any) -> None:
        """Take an item; a closed channel drops it."""
        if not self._closed:
            size = _length(item)
            self._items.append((item, size))
            self._held += size
            self._wake_reader()

    def room(self) -> Awaitable[None] | None:
        """Something to wait for when the reader is behind."""
        if self._closed or self._has_room():
            return None
        future = asyncio.get_running_loop().create_future()
        self._writers.append(future)
        return future

    def close(self) -> None:
        """No more items; the reader ends after those that are left."""
        self._closed = True
        self._wake_reader()
        self._wake_writers()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            while self._items:
                item, size = self._items.popleft()
                self._held -= size
                if self._has_room():
                    self._wake_writers()
                yield item
            if self._closed:
                return
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def _has_room(self) -> bool:
        return len(self._items) <= _AHEAD and self._held <= _AHEAD_BYTES

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _wake_writers(self) -> None:
        for future in self._writers:
            if not future.done():
                future.set_result(None)
        self._writers.clear()


def _length(item: Any) -> int:
    """About how many bytes an item holds: the text or data of a block, what progress says."""
    for name in ("text", "data", "message"):
        held = getattr(item, name, None)
        if isinstance(held, str | bytes):
            return len(held)
    return 0


async def streamed(
    start: Callable[[Channel], Coroutine[Any, Any, T]], live: bool = False
) -> AsyncIterator[Any | T]:
    """What a coroutine pushes as it comes, and last what it gives.

    Whoever stops reading stops the coroutine.
    """
    channel = Channel(live)
    task = asyncio.create_task(start(channel))
    task.add_done_callback(lambda _: channel.close())
    try:
        async for item in channel:
            yield item
        yield await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
