"""Bound the messages of a server, alone and in a stream of server-sent events.

Of a longer message nothing is kept but what says whom it answers.
"""

import re
from collections.abc import Callable
from typing import Any

import mcp_types as types

from wieldy.core.bounded_json import dump_json, parse_json

# So much of both ends of a message is searched for its id.
_END = 1024
# A message that is so many times too long, and answers nobody, has no end.
_MAX_SKIPPED = 16
_FIELD = re.compile(
    rb'\s*"(jsonrpc|id|method)"\s*:\s*("(?:[^"\\]|\\.){0,200}"|\d{1,15}|null)\s*,', re.DOTALL
)
_LAST_ID = re.compile(
    rb',\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"[0-9.]{1,8}"\s*)?\}\s*\Z'
)
# The fields of an event that are passed on beside its message.
_KEPT = (b"event", b"id", b"retry")
# The longest name of a field, and the longest value of those that are no message.
_MAX_NAME, _MAX_VALUE = 64, 8192
# Gives the id of a request, or None.
Asked = Callable[[], int | str | None]


class MessageTooLong(Exception):
    """A message was too long, and it can't be said which request it answers."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it sent a message of more than {most:,} bytes")


class BoundedMessage:
    """Collects the bytes of one message after the other.

    Args:
        most: How many bytes a message may have.
        asked: Gives the id of the request that is answered, if the transport knows it.
    """

    def __init__(self, most: int, asked: Asked | None = None) -> None:
        self._most = most
        self._asked = asked
        # Many small pieces would take many times the room of their bytes.
        self._read = bytearray()
        self._size = 0
        self._tail = b""
        # Whether it is known what a message answers that is too long.
        self._too_long = self._settled = False

    def add(self, piece: bytes) -> bytes | None:
        """Take more of the message.

        Returns:
            If it has become too long just now, an error for the request that it answers, as far
            as its beginning says which that is.

        Raises:
            MessageTooLong: It answers no request, and does not end.
        """
        self._size += len(piece)
        if self._too_long:
            self._tail = (self._tail + piece)[-_END:]
            if not self._settled and self._size > self._most * _MAX_SKIPPED:
                raise MessageTooLong(self._most)
            return None
        self._read += piece
        return self._skip_rest() if self._size > self._most else None

    def end(self) -> bytes:
        """End the message, and begin the next.

        Returns:
            The message, or an error in the place of one that is too long. Nothing if that was
            returned before, or nobody waits for it.

        Raises:
            MessageTooLong: It is too long, and it is not known what it answers.
        """
        settled, tail, whole = self._settled, self._tail, bytes(self._read)
        too_long = self._too_long
        self._read, self._size, self._tail = bytearray(), 0, b""
        self._too_long = self._settled = False
        if not too_long or settled:
            return whole
        found = _LAST_ID.search(tail)
        if found is None:
            raise MessageTooLong(self._most)
        return self._write_error(parse_json(found[1]))

    def refuse(self) -> bytes:
        """An error in the place of a message; `MessageTooLong` if nobody is known to wait."""
        answered = None if self._asked is None else self._asked()
        if answered is None:
            raise MessageTooLong(self._most)
        return self._write_error(answered)

    def _skip_rest(self) -> bytes | None:
        named = _read_head(bytes(self._read[:_END]))
        self._tail, self._too_long = bytes(self._read[-_END:]), True
        self._read = bytearray()
        if named is None and self._asked is None:
            raise MessageTooLong(self._most)
        named = named or {}
        self._settled = "method" in named
        answered = named.get("id") if self._asked is None else self._asked()
        if self._settled or answered is None:
            return None
        self._settled = True
        return self._write_error(answered)

    def _write_error(self, answered: int | str) -> bytes:
        said = f"its answer has more than {self._most:,} bytes"
        error = {"code": types.INTERNAL_ERROR, "message": said}
        return dump_json({"jsonrpc": "2.0", "id": answered, "error": error}).encode()


def _read_head(head: bytes) -> dict[str, Any] | None:
    """The members with which a message begins; None if it is no object."""
    begin = head.lstrip()
    if not begin.startswith(b"{"):
        return None
    named: dict[str, Any] = {}
    at = 1
    while found := _FIELD.match(begin, at):
        try:
            named[found[1].decode()] = parse_json(found[2])
        except ValueError:
            break
        at = found.end()
    return named


class BoundedEvents:
    """Reads the bytes of a stream, and gives those of its events that are not too long.

    An event is given as soon as it is complete. What is no field of an event is left out.
    """

    def __init__(self, most: int, asked: Asked | None = None) -> None:
        self._message = BoundedMessage(most, asked)
        self._fields: dict[bytes, bytes] = {}
        self._has_data = False
        self._after_return = False
        self._begin_line()

    def feed(self, chunk: bytes) -> bytes:
        """The events that end with this chunk; `MessageTooLong` if one can't be skipped."""
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_return = chunk.endswith(b"\r")
        first, *rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        found = [self._add(first)]
        for piece in rest:
            found += [self._end_line(), self._add(piece)]
        return b"".join(found)

    def _begin_line(self) -> None:
        self._name: bytes | None = None
        self._start = b""
        self._value = b""
        self._is_fresh = True

    def _add(self, piece: bytes) -> bytes:
        """Take more of a line."""
        if self._name is not None:
            return self._add_value(piece)
        before = len(self._start)
        self._start += piece[: _MAX_NAME + 1]
        name, colon, _ = self._start.partition(b":")
        if colon:
            opened = self._open_field(name)
            return opened + self._add_value(piece[len(name) + 1 - before :])
        if len(self._start) > _MAX_NAME:
            # No field has so long a name, so the line says nothing.
            self._name = b""
        return b""

    def _add_value(self, piece: bytes) -> bytes:
        if self._is_fresh and piece:
            piece, self._is_fresh = piece.removeprefix(b" "), False
        if self._name == b"data":
            return self._pass_on(self._message.add(piece))
        if self._name in _KEPT:
            self._value += piece[: _MAX_VALUE - len(self._value)]
        return b""

    def _open_field(self, name: bytes) -> bytes:
        self._name = name
        if name != b"data":
            return b""
        again, self._has_data = self._has_data, True
        return self._pass_on(self._message.add(b"\n")) if again else b""

    def _end_line(self) -> bytes:
        if self._name is None and not self._start:
            return self._end_event()
        opened = self._open_field(self._start) if self._name is None else b""
        if self._name in _KEPT:
            self._fields[self._name or b""] = self._value
        self._begin_line()
        return opened

    def _end_event(self) -> bytes:
        message = self._message.end() if self._has_data else b""
        had_data, fields = self._has_data, self._fields
        self._has_data, self._fields = False, {}
        return _write_event(fields, message, had_data)

    def refuse(self) -> bytes:
        """The event that ends a stream which can't be unpacked within the bound."""
        return _write_event({}, self._message.refuse(), True)

    def _pass_on(self, error: bytes | None) -> bytes:
        return b"" if error is None else _write_event({}, error, True)


def _write_event(fields: dict[bytes, bytes], message: bytes, has_data: bool) -> bytes:
    lines = [b"%s: %s\n" % field for field in fields.items()]
    if has_data:
        lines.append(b"data: %s\n" % message.replace(b"\n", b"\ndata: "))
    return b"".join([*lines, b"\n"]) if lines else b""
