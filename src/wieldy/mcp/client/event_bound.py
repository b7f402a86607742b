"""Bound the messages in a stream of server-sent events, and leave the stream as it is otherwise."""

from .message_bound import Asked, BoundedMessage

_KEPT = (b"event", b"id", b"retry")
# The longest name of a field, and the longest value of those that are no message.
_LONGEST_NAME, _LONGEST_VALUE = 64, 8192


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
        self._start += piece[: _LONGEST_NAME + 1]
        name, colon, _ = self._start.partition(b":")
        if colon:
            opened = self._open_field(name)
            return opened + self._add_value(piece[len(name) + 1 - before :])
        if len(self._start) > _LONGEST_NAME:
            # No field has so long a name, so the line says nothing.
            self._name = b""
        return b""

    def _add_value(self, piece: bytes) -> bytes:
        if self._is_fresh and piece:
            piece, self._is_fresh = piece.removeprefix(b" "), False
        if self._name == b"data":
            return self._pass_on(self._message.add(piece))
        if self._name in _KEPT:
            self._value += piece[: _LONGEST_VALUE - len(self._value)]
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
