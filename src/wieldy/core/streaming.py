"""The one place where pushed items become an async iterator."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_log = logging.getLogger("wieldy")
# A writer waits when its reader is behind by more than either limit.
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
            size = _item_length(item)
            self._items.append((item, size))
            self._held += size
            self._wake_reader()

    def room(self) -> Awaitable[None] | None:
        """An awaitable if the reader is behind, else None."""
        if self._closed or self._has_room():
            return None
        future = asyncio.get_running_loop().create_future()
        self._writers.append(future)
        return future

    def close(self) -> None:
        """Take no more items; the reader still gets those that are left."""
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


def _item_length(item: Any) -> int:
    """About how many bytes an item holds: the text or data of a block, or a progress message."""
    for name in ("text", "data", "message"):
        held = getattr(item, name, None)
        if isinstance(held, str | bytes):
            return len(held)
    return 0


class TellingSink:
    """Tells a listener what a call shows, in the call's own task.

    A call that shows nothing needs no task and no queue. A listener that fails, such as a
    client that has disconnected, does not fail the call.
    """

    # The result of the call comes with its outcome.
    live = True

    def __init__(self, tell: Callable[[Any], Awaitable[None]]) -> None:
        self._tell = tell
        self._items: deque[Any] = deque()

    def push(self, item: Any) -> None:
        """Take an item, which the listener gets when the call next waits, or at its end."""
        self._items.append(item)

    def room(self) -> Awaitable[None] | None:
        """An awaitable if there are items that the listener has not got yet, else None."""
        return self if self._items else None

    def __await__(self) -> Generator[Any, None, None]:
        return self._flush_items().__await__()

    async def _flush_items(self) -> None:
        while self._items:
            item = self._items.popleft()
            try:
                await self._tell(item)
            except Exception:
                _log.debug("A listener could not be told of %r", type(item), exc_info=True)


class OverhearingSink:
    """Lets somebody overhear what a call shows, beside the call's own reader if it has one.

    Whoever overhears is told at once and never waited for.
    """

    def __init__(self, reader: Any, tell: Callable[[Any], None]) -> None:
        # Without a reader nobody here wants the result, which comes with the outcome.
        self.live: bool = reader is None or reader.live
        self._reader = reader
        self._tell = tell

    def push(self, item: Any) -> None:
        """Take an item."""
        try:
            self._tell(item)
        except Exception:
            _log.exception("A listener failed on %r", type(item))
        if self._reader is not None:
            self._reader.push(item)

    def room(self) -> Awaitable[None] | None:
        """An awaitable if the call's own reader is behind, else None."""
        waiting: Awaitable[None] | None = None if self._reader is None else self._reader.room()
        return waiting


class ItemListener(Protocol):
    """Whoever is told what a call shows."""

    async def shown(self, item: Any) -> None:
        """Hear of an item."""


class TellingChannel:
    """A channel with a reader of its own, both of which begin with the first item.

    The reader runs outside of the call, and cancels it if the listener fails.
    """

    __slots__ = ("_channel", "_closed", "_listener", "_outside", "_task", "caller", "cancels")
    # The result of the call comes with its outcome.
    live = True

    def __init__(self, listener: ItemListener) -> None:
        self._listener = listener
        self._outside = copy_context()
        self._closed = False
        self.caller = asyncio.current_task()
        self.cancels = False
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None

    def push(self, item: Any) -> None:
        """Take an item; a closed channel drops it."""
        if self._closed:
            return
        if self._channel is None:
            self._channel, loop = Channel(live=True), asyncio.get_running_loop()
            told = self._tell_items(self._channel)
            self._task = loop.create_task(told, context=self._outside)
        self._channel.push(item)

    def room(self) -> Awaitable[None] | None:
        """An awaitable if the listener is behind, else None."""
        return None if self._channel is None else self._channel.room()

    async def _tell_items(self, channel: Channel) -> None:
        try:
            async for item in channel:
                await self._listener.shown(item)
        except Exception:
            if not self._closed and self.caller is not None:
                self.cancels = self.caller.cancel()
            raise

    @property
    def failure(self) -> BaseException | None:
        """What the listener has raised."""
        ended = self._task is not None and self._task.done() and not self._task.cancelled()
        return self._task.exception() if ended and self._task is not None else None

    async def finish(self) -> None:
        """Wait until the listener knows everything, and raise what it raises."""
        self._close()
        if self._task is not None:
            await self._task

    async def abandon(self) -> None:
        """Tell the listener nothing more."""
        self._close()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))

    def _close(self) -> None:
        self._closed = True
        if self._channel is not None:
            self._channel.close()


async def tell_pushed(channel: TellingChannel, pushing: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this task, and tell the listener of a channel what it pushes there.

    A coroutine that pushes nothing costs no further task. It is cancelled if the listener fails.
    """
    caller = channel.caller
    assert caller is not None
    before = caller.cancelling()
    try:
        result = await pushing
        await channel.finish()
        return result
    except asyncio.CancelledError:
        failure = channel.failure
        if failure is None or caller.cancelling() > before + channel.cancels:
            # Somebody else has cancelled the task.
            raise
        raise failure from None
    finally:
        if channel.cancels:
            caller.uncancel()
        await channel.abandon()


async def iterate_pushed(
    start: Callable[[Channel], Coroutine[Any, Any, T]], live: bool = False
) -> AsyncIterator[Any | T]:
    """Iterate over the items that a coroutine pushes, and last over its result.

    The coroutine is cancelled when its reader stops.
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
