"""Read JSON with trailing commas, single quotes and Python's literals, as models write it."""

import re
from typing import Any

from .text_values import read_json_values

_LITERALS = {"True": "true", "False": "false", "None": "null"}
_LOOSE = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*"?'
    r"|'(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*)(?P<closed>')?"
    r"|(?P<comma>,(?=\s{0,64}[}\]]))"
    r"|\b(?P<word>True|False|None)\b",
    re.DOTALL,
)
_IN_SINGLE = re.compile(r'\\.|"', re.DOTALL)


def read_loose_json(text: str) -> list[Any]:
    """The consecutive values in loose JSON; `ValueError` if the text is something else."""
    try:
        return read_json_values(text)
    except ValueError:
        return read_json_values(_strict_json(text))


def _strict_json(text: str) -> str:
    """The text as strict JSON."""
    return _LOOSE.sub(_correct_token, text)


def _correct_token(found: re.Match[str]) -> str:
    if found["closed"]:
        return '"' + _IN_SINGLE.sub(_requote_escape, found["single"]) + '"'
    if found["comma"]:
        return ""
    return _LITERALS[found["word"]] if found["word"] else found[0]


def _requote_escape(found: re.Match[str]) -> str:
    """An escape or a quote from a single-quoted string, rewritten for double quotes."""
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])
