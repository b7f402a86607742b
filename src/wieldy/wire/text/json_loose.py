"""JSON as models write it: with trailing commas, single quotes and Python's words."""

import re
from typing import Any

from .text_values import read_json_values

_LITERALS = {"True": "true", "False": "false", "None": "null"}
_LOOSE = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
    r"|'(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)(?P<closed>')?"
    r"|(?P<comma>,(?=\s{0,64}[}\]]))"
    r"|\b(?P<word>True|False|None)\b",
    re.DOTALL,
)
_IN_SINGLE = re.compile(r'\\.|"', re.DOTALL)


def read_loose_json(text: str) -> list[Any]:
    """The values that stand one after the other in almost JSON; `ValueError` if it is none."""
    try:
        return read_json_values(text)
    except ValueError:
        return read_json_values(_strict(text))


def _strict(text: str) -> str:
    """JSON without trailing commas, single quotes and Python's words."""
    return _LOOSE.sub(_corrected, text)


def _corrected(found: re.Match[str]) -> str:
    if found["closed"]:
        return '"' + _IN_SINGLE.sub(_requoted, found["single"]) + '"'
    if found["comma"]:
        return ""
    return _LITERALS[found["word"]] if found["word"] else found[0]


def _requoted(found: re.Match[str]) -> str:
    """An escape or a quote inside of single quotes, as it is written inside of double ones."""
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])
