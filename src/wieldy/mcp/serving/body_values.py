"""Count the values in JSON before anybody reads it, because each of them costs time later."""

import asyncio
import re

# So many values are read, judged, stored and shown to a person without others noticing.
MAX_VALUES = 50_000
_CHUNK = 16_384
# The next quote, with everything before it; a sign after a backslash is not looked at.
_STRING_END = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BEGIN_VALUES = (b",", b"[", b"{")
# The time that it takes to read a number grows with the square of its digits: one of 4,000 takes
# as long as some thousands of short values.
_LONG_NUMBER = re.compile(rb"(?<!\d)\d{400,}")
_SQUARE = 4_000


async def has_more_values(body: bytes | bytearray, most: int) -> bool:
    """Whether a JSON text has more values than this; each key counts with its value.

    An empty list or object counts as two, and a number of very many digits as many. What is not
    JSON is counted by the signs of JSON in it.
    """
    # Signs in strings count here as well, so a text with few of them needs no closer look.
    return _count_signs(body) >= most and await asyncio.to_thread(holds_more, body, most)


def holds_more(body: bytes | bytearray, most: int) -> bool:
    """The same for a thread that may take its time."""
    if _count_signs(body) < most:
        return False
    # UTF-8 is the only encoding of JSON without this byte; in others strings can't be told apart.
    return b"\0" in body or _has_more(body, most)


def _has_more(body: bytes | bytearray, most: int) -> bool:
    values, strings, place = 1, 0, 0
    while place < len(body):
        quote = body.find(b'"', place, place + _CHUNK)
        end = min(place + _CHUNK, len(body)) if quote < 0 else quote
        values += _count_signs(body, place, end)
        # A value has one string, and another one if it has a key.
        if values > most or strings > 2 * most:
            return True
        closed = None if quote < 0 else _STRING_END.match(body, quote + 1)
        if quote >= 0 and closed is None:
            # A string that does not end is not JSON, and whoever reads it says so.
            return False
        place = end if closed is None else closed.end()
        strings += 1
    return False


def too_many_values(what: str, most: int | None) -> str:
    """What a client is told whose body or message has more values."""
    return f"The {what} has more than {most:,} values. The setting is `max_values`."


def _count_signs(body: bytes | bytearray, start: int = 0, end: int | None = None) -> int:
    """How many values begin in this part of a text, after the first, if no string is in it."""
    end = len(body) if end is None else end
    long = sum(len(found[0]) ** 2 // _SQUARE for found in _LONG_NUMBER.finditer(body, start, end))
    return long + sum(body.count(sign, start, end) for sign in _BEGIN_VALUES)
