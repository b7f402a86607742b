"""Write to standard output, without waiting for ever for a client that does not read."""

import asyncio
import os
import queue
import threading
from contextlib import suppress

import anyio


class OutputLines:
    """A file descriptor to which one writer's messages are written.

    A separate daemon thread writes, because a write that nobody reads can't be cancelled, and a
    thread of a pool would keep the process alive.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._messages: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        # The end of the message that is being written.
        self._written: asyncio.Future[None] | None = None
        self._closed = asyncio.Event()
        threading.Thread(target=self._write_messages, name="wieldy-stdout", daemon=True).start()

    async def write(self, text: str) -> None:
        """Write a message; `ClosedResourceError` if this is closed by then."""
        if self._closed.is_set():
            raise anyio.ClosedResourceError
        self._written = written = self._loop.create_future()
        self._messages.put((text.encode("utf-8", "replace"), written))
        await written

    async def flush(self) -> None:
        """Do nothing: what was written has been handed over."""

    def close(self) -> None:
        """Write nothing more, although somebody may wait for that."""
        self._closed.set()
        if self._written is not None:
            _settle(self._written, anyio.ClosedResourceError())

    def close_after(self, seconds: float) -> None:
        """Close this in so many seconds."""
        self._loop.call_later(seconds, self.close)

    async def wait_closed(self) -> None:
        """Wait until this is closed."""
        await self._closed.wait()

    def _write_messages(self) -> None:
        while True:
            rest, written = self._messages.get()
            error: Exception | None = None
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except (BrokenPipeError, ConnectionResetError):
                # The client is gone, and with it the other end of the input.
                error = anyio.ClosedResourceError()
            except OSError as reason:
                error = reason
            # The loop may have been closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, written, error)


def _settle(written: "asyncio.Future[None]", error: Exception | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
