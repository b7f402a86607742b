"""Bound one message of a server: of a longer one nothing is kept but what says whom it answers."""

import re
from collections.abc import Callable
from typing import Any

import mcp_types as types

from wieldy.core.bounded_json import dump_json, parse_json

# So much of both ends of a message is searched for its id.
_END = 1024
# A message that is so many times too long, and answers nobody, has no end.
_MOST_SKIPPED = 16
_FIELD = re.compile(
    rb'\s*"(jsonrpc|id|method)"\s*:\s*("(?:[^"\\]|\\.){0,200}"|\d{1,15}|null)\s*,', re.DOTALL
)
_LAST_ID = re.compile(
    rb',\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"[0-9.]{1,8}"\s*)?\}\s*\Z'
)


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
            if not self._settled and self._size > self._most * _MOST_SKIPPED:
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
