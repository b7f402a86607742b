"""Read standard input line by line, without keeping the program from ending."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from wieldy.core.bounded_json import parse_json

from .body_values import holds_more

_CHUNK = 65536
_MAX_LENGTH = 4 * 1024 * 1024
# The reading stops when this many lines or bytes wait, so that a fast writer has to wait.
_MAX_WAITING = 64
_MAX_WAITING_BYTES = 2 * _MAX_LENGTH


Refuse = Callable[[str | int], Awaitable[None]]


class _Line(NamedTuple):
    text: str
    size: int
    has_too_many: bool = False
    request_id: str | int | None = None


class Lines:
    """The lines of a file descriptor, as they arrive.

    A separate daemon thread reads, because a thread of a pool would keep the process alive
    until the next line. A line that is too long is dropped.

    Args:
        descriptor: The file descriptor.
        max_values: How many values the JSON of a line may have; None for no limit.

    Attributes:
        refuse: Is told the id of a request that has more values, which is left out.
    """

    def __init__(self, descriptor: int, max_values: int | None = None) -> None:
        self.refuse: Refuse | None = None
        self._max_values = max_values
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[_Line | None] = asyncio.Queue()
        self._changed = threading.Condition()
        self._waiting = self._held = 0
        threading.Thread(target=self._read_lines, name="wieldy-stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (taken := await self._lines.get()) is not None:
            with self._changed:
                self._waiting, self._held = self._waiting - 1, self._held - taken.size
                self._changed.notify()
            if not taken.has_too_many:
                yield taken.text
            elif self.refuse is not None and taken.request_id is not None:
                await self.refuse(taken.request_id)

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
                if len(rest) > _MAX_LENGTH:
                    # With this sign in front, the rest of the line can't be read as a message.
                    rest = b"!"
            if rest.strip():
                self._give_line(rest)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)

    def _give_line(self, line: bytes) -> None:
        with self._changed:
            while self._waiting >= _MAX_WAITING or self._held > _MAX_WAITING_BYTES:
                self._changed.wait()
            self._waiting, self._held = self._waiting + 1, self._held + len(line)
        if self._max_values is not None and holds_more(line, self._max_values):
            given = _Line("", len(line), True, _find_id(line))
        else:
            given = _Line(line.decode("utf-8", "replace"), len(line))
        self._loop.call_soon_threadsafe(self._lines.put_nowait, given)


def _find_id(line: bytes) -> str | int | None:
    """The id of a request; None of anything else."""
    try:
        message = parse_json(line)
    except ValueError:
        return None
    found = message.get("id") if isinstance(message, dict) else None
    is_id = isinstance(found, str | int) and not isinstance(found, bool)
    return found if is_id else None
