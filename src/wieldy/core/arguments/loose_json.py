"""Read JSON as models and people write it.

It may have comments, commas before a closing bracket, strings in single quotes and Python's
literals. All readers of such JSON use this one; strict JSON is read as it is.
"""

import re
from typing import Any

from wieldy.core.bounded_json import parse_json

_LITERALS = {"True": "true", "False": "false", "None": "null"}
_COMMENT = r"//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/)?"
# A string or comment, closed or not, is taken as a whole: the time stays linear in the text.
_TOKEN = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*"?'
    r"|'(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*)(?P<closed>')?"
    rf"|(?P<comment>{_COMMENT})"
    rf"|(?P<comma>,(?=(?:\s++|{_COMMENT})*[}}\]]))"
    r"|\b(?P<word>True|False|None)\b",
    re.DOTALL,
)
_IN_SINGLE = re.compile(r'\\.|"', re.DOTALL)
_INK = re.compile(r"\S")


def parse_loose_json(text: str) -> Any:
    """The value of loose JSON; `ValueError` if the text is something else."""
    return parse_json(correct_json(text)[0])


def correct_json(text: str) -> tuple[str, list[str]]:
    """The text as strict JSON, and the kinds of what was corrected, in their order."""
    kinds: dict[str, None] = {}

    def correct_token(found: re.Match[str]) -> str:
        if found["closed"]:
            kinds["single_quotes"] = None
            return '"' + _IN_SINGLE.sub(_requote_escape, found["single"]) + '"'
        if found["word"]:
            kinds["python_literal"] = None
            return _LITERALS[found["word"]]
        if found["comma"] or found["comment"]:
            kinds["trailing_comma" if found["comma"] else "comment"] = None
            # Spaces keep the places that messages about the rest name.
            return _INK.sub(" ", found[0])
        return found[0]

    return _TOKEN.sub(correct_token, text), [*kinds]


def _requote_escape(found: re.Match[str]) -> str:
    """An escape or a quote from a single-quoted string, rewritten for double quotes."""
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])
