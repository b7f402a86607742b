"""Write and read the messages between a process and its workers.

A frame consists of a kind, a length and a pickle. The event loop reads and writes small frames
itself. Large frames are read and written by a thread, in pieces, so that other threads can run
in between.
"""

import pickle
import select
import socket
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

_HEADER = struct.Struct("<BQ")
# The largest frame that an event loop handles itself: one piece of a pickle.
SMALL = 64 * 1024
_CHUNK = 256 * 1024


class Frame(IntEnum):
    """The kind of a message."""

    LOAD = 1
    CALL = 2
    ANSWER = 3
    PART = 4
    LOADED = 5
    RESULT = 6
    FAILURE = 7
    STREAM = 8
    ITEM = 9
    REPORT = 10
    SECRET = 11
    LOG = 12
    REQUEST = 13
    UNTRUSTED = 14


class TooLarge(Exception):
    """A message is too large for the event loop; a thread has to handle it."""


class _Pieces:
    """A file for a pickler that keeps the written pieces, up to a limit."""

    def __init__(self, most: int | None) -> None:
        self.pieces: list[Any] = []
        self.size = 0
        self._most = most

    def write(self, piece: Any) -> None:
        # This method is written in Python on purpose: calling it lets other threads run.
        self.pieces.append(piece)
        self.size += len(piece)
        if self._most is not None and self.size > self._most:
            raise TooLarge


MakePickler = Callable[[Any], Any]


def encode_small(kind: Frame, content: Any, pickler: MakePickler) -> bytes:
    """A frame as one piece; `TooLarge` if it is larger than an event loop should handle."""
    file = _Pieces(SMALL)
    pickler(file).dump(content)
    return b"".join((_HEADER.pack(kind, file.size), *file.pieces))


def encode_large(kind: Frame, content: Any, pickler: MakePickler) -> list[Any]:
    """A frame of any size as a list of pieces; large bytes in it are not copied."""
    file = _Pieces(None)
    pickler(file).dump(content)
    return [_HEADER.pack(kind, file.size), *file.pieces]


def send_whole(connection: socket.socket, piece: Any) -> None:
    """Send a whole piece, on a thread that may block."""
    view = memoryview(piece).cast("B")
    while view:
        try:
            view = view[connection.send(view) :]
        except BlockingIOError:
            _await_ready(connection, select.POLLOUT)


def _await_ready(connection: socket.socket, event: int) -> None:
    # An event loop such as uvloop makes the sockets it watches non-blocking for every thread.
    poll = select.poll()
    poll.register(connection, event)
    poll.poll()


class Inbox:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Frame, bytes]]:
        """The small frames that are complete now; the beginning of a large one is `TooLarge`."""
        held = self._held
        held += data
        while len(held) >= _HEADER.size:
            kind, size = _HEADER.unpack_from(held)
            if size > SMALL:
                raise TooLarge
            end = _HEADER.size + size
            if len(held) < end:
                return
            payload = bytes(held[_HEADER.size : end])
            del held[:end]
            yield Frame(kind), payload

    def take_large(self, connection: socket.socket) -> "tuple[Frame, LargeFrame]":
        """The large frame that has begun, whose rest is read from the connection."""
        kind, size = _HEADER.unpack_from(self._held)
        begun = bytes(self._held[_HEADER.size : _HEADER.size + size])
        del self._held[: _HEADER.size + size]
        return Frame(kind), LargeFrame(connection, begun, size)


class LargeFrame:
    """A file for an unpickler, which reads a large frame from its connection."""

    def __init__(self, connection: socket.socket, begun: bytes, size: int) -> None:
        self._connection = connection
        self._begun = memoryview(begun)
        self._left = size

    def load(self) -> Any:
        """The value that was sent. The frame is read to its end even if it can't be unpickled."""
        try:
            return pickle.Unpickler(self).load()
        finally:
            while self._left:
                self.read(min(self._left, _CHUNK))

    def read(self, size: int) -> bytes:
        """Read this many bytes."""
        piece = bytearray(size)
        self.readinto(piece)
        return bytes(piece)

    def readinto(self, target: Any) -> int:
        """Fill a buffer."""
        view = memoryview(target).cast("B")
        wanted = len(view)
        if wanted > self._left:
            raise EOFError("the message ends too early")
        self._left -= wanted
        if self._begun:
            first = min(len(self._begun), wanted)
            view[:first] = self._begun[:first]
            self._begun, view = self._begun[first:], view[first:]
        while view:
            try:
                count = self._connection.recv_into(view)
            except BlockingIOError:
                _await_ready(self._connection, select.POLLIN)
                continue
            if not count:
                self._left = 0
                raise EOFError("the connection has ended")
            view = view[count:]
        return wanted

    def readline(self) -> bytes:
        """Raise, because the pickles of current protocols contain no lines."""
        raise EOFError("the message is damaged")
