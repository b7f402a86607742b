"""What stands in a row for a value that a database should not have had in that column."""

from typing import Any


class DamagedText(str):
    """Text of a file that has bytes which are no text, each as a lone surrogate."""

    __slots__ = ()


class DamagedNumber(float):
    """What a file has in the place of a number."""

    __slots__ = ()


class DamagedCount(int):
    """What a file has in the place of a whole number."""

    __slots__ = ()


# A column of a SQLite file takes values of any type. Whoever reads a row by itself looks for
# these; in a list such a value is like any other, and the other rows are there.
DAMAGED = (DamagedText, DamagedNumber, DamagedCount, bytes)


def show_value(value: Any) -> Any:
    """A value of a row for a list: text is text, whatever its bytes are."""
    if isinstance(value, DamagedText):
        value = value.encode(errors="surrogateescape")
    return value.decode(errors="replace") if isinstance(value, bytes) else value
