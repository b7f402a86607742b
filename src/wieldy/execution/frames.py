"""Messages between a process and its workers: how they are cut, written and read.

A frame is a kind, a length and a pickle. A small one is read and written on the spot. A
large one is read and written on a thread, in pieces between which other threads run.
"""

import pickle
import select
import socket
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

_HEADER = struct.Struct("<BQ")
# The largest that an event loop may handle itself: one piece of a pickle.
SMALL = 64 * 1024
_CHUNK = 256 * 1024


class Frame(IntEnum):
    """What a message is about."""

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


class TooLarge(Exception):
    """A message is for a thread."""


class _Pieces:
    """A file for a pickler: it keeps the pieces, up to a bound."""

    def __init__(self, most: int | None) -> None:
        self.pieces: list[Any] = []
        self.size = 0
        self._most = most

    def write(self, piece: Any) -> None:
        # A method in Python on purpose: other threads get their turn when it is called.
        self.pieces.append(piece)
        self.size += len(piece)
        if self._most is not None and self.size > self._most:
            raise TooLarge


MakePickler = Callable[[Any], Any]


def encode_small(kind: Frame, content: Any, pickler: MakePickler) -> bytes:
    """A frame in one piece; `TooLarge` if it is more than an event loop should handle."""
    file = _Pieces(SMALL)
    pickler(file).dump(content)
    return b"".join((_HEADER.pack(kind, file.size), *file.pieces))


def encode_large(kind: Frame, content: Any, pickler: MakePickler) -> list[Any]:
    """A frame of any size, as pieces; large bytes in it are not copied."""
    file = _Pieces(None)
    pickler(file).dump(content)
    return [_HEADER.pack(kind, file.size), *file.pieces]


def send_whole(connection: socket.socket, piece: Any) -> None:
    """Send a piece to its end, on a thread that may block."""
    view = memoryview(piece).cast("B")
    while view:
        try:
            view = view[connection.send(view) :]
        except BlockingIOError:
            _await_ready(connection, select.POLLOUT)


def _await_ready(connection: socket.socket, event: int) -> None:
    # An event loop such as uvloop makes whatever it watches non-blocking, for every thread.
    poll = select.poll()
    poll.register(connection, event)
    poll.poll()


class Inbox:
    """Bytes as they come, cut into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Frame, bytes]]:
        """The small frames that are complete now; a large one that begins raises `TooLarge`."""
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
        """The large frame that has begun, to be read from here and from the connection."""
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
        """What was sent. The frame is read to its end, also where it can't be understood."""
        try:
            return pickle.Unpickler(self).load()
        finally:
            while self._left:
                self.read(min(self._left, _CHUNK))

    def read(self, size: int) -> bytes:
        """So many bytes."""
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
        """Pickles of today's protocols have no lines."""
        raise EOFError("the message is damaged")
