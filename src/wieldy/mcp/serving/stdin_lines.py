"""Read standard input line by line, without keeping the program from ending."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

_CHUNK = 65536
_LONGEST = 4 * 1024 * 1024
# The reading stops when this many lines or bytes wait, so that a fast writer has to wait.
_MOST_WAITING = 64
_MOST_WAITING_BYTES = 2 * _LONGEST


class Lines:
    """The lines of a file descriptor, as they arrive.

    A separate daemon thread reads, because a thread of a pool would keep the process alive
    until the next line. A line that is too long is dropped.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[tuple[str, int] | None] = asyncio.Queue()
        self._changed = threading.Condition()
        self._waiting = self._held = 0
        threading.Thread(target=self._read_lines, name="wieldy-stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (taken := await self._lines.get()) is not None:
            line, size = taken
            with self._changed:
                self._waiting, self._held = self._waiting - 1, self._held - size
                self._changed.notify()
            yield line

    def close(self) -> None:
        """Stop here, even if more lines arrive."""
        self._lines.put_nowait(None)

    def _read_lines(self) -> None:
        rest = b""
        with suppress(OSError, RuntimeError):
            while chunk := os.read(self._descriptor, _CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._give_line(line)
                if len(rest) > _LONGEST:
                    # With this sign in front, the rest of the line can't be read as a message.
                    rest = b"!"
            if rest.strip():
                self._give_line(rest)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)

    def _give_line(self, line: bytes) -> None:
        with self._changed:
            while self._waiting >= _MOST_WAITING or self._held > _MOST_WAITING_BYTES:
                self._changed.wait()
            self._waiting, self._held = self._waiting + 1, self._held + len(line)
        text = line.decode("utf-8", "replace")
        self._loop.call_soon_threadsafe(self._lines.put_nowait, (text, len(line)))
