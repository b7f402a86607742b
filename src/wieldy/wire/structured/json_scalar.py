"""Escapes, numbers and literals of JSON as models write it."""

import re
from typing import Any

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\n": ""}
_KEPT = "\"'\\/`"
_HEX = re.compile(r"\\u([0-9a-fA-F]{4})")
_BROKEN_HEX = re.compile(r"\\u[0-9a-fA-F]{0,3}")
_HEX_PREFIX = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")

_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_LITERALS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
    "undefined": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "+Infinity": float("inf"),
}
_CUT_LITERALS = ("true", "false", "null", "True", "False", "None")

ESCAPE_LENGTH = 12
"""The most characters an escape takes: two surrogates."""

UNKNOWN: Any = object()
"""Stands for the value of a word that is neither a number nor a literal."""


def read_escape(text: str) -> tuple[str, int] | None:
    """What an escape at the start of a text means and how long it is.

    None means that the text ends too early to know. An escape that JSON does not have keeps its
    backslash. A surrogate without its other half stays alone, as in `json.loads`.
    """
    unit = _HEX.match(text)
    if unit is None:
        if _HEX_PREFIX.match(text):
            return None
        if broken := _BROKEN_HEX.match(text):
            return broken[0], broken.end()
        char = text[1]
        return _ESCAPES.get(char, char if char in _KEPT else text[:2]), 2
    code = int(unit[1], 16)
    if not 0xD800 <= code < 0xDC00:
        return chr(code), 6
    second = _HEX.match(text, 6)
    if second is not None and 0xDC00 <= (low := int(second[1], 16)) < 0xE000:
        return chr(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00), 12
    waits = len(text) == 6 or _HEX_PREFIX.match(text, 6)
    return None if waits and not second else (chr(code), 6)


def cut_escape(text: str) -> str:
    """The rest of an escape that the end of the text cut off."""
    unit = _HEX.match(text)
    return chr(int(unit[1], 16)) if unit else ""


def read_word(word: str) -> Any:
    """The value of a number or literal, or `UNKNOWN`."""
    if word in _LITERALS:
        return _LITERALS[word]
    return _read_number(word) if _NUMBER.fullmatch(word) else UNKNOWN


def read_cut_word(word: str) -> Any:
    """The value of a word whose end is missing: the literal it starts, the number so far."""
    for literal in _CUT_LITERALS:
        if literal.startswith(word):
            return _LITERALS[literal]
    number = _NUMBER.match(word)
    if number is None or word[number.end() :].strip(".eE+-"):
        return UNKNOWN
    return _read_number(number[0])


def _read_number(word: str) -> int | float:
    if _INTEGER.fullmatch(word):
        try:
            return int(word)
        except ValueError:
            # Python refuses to read integers with thousands of digits, because that is slow.
            return float(word)
    return float(word)
