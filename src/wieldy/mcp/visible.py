"""Text from outside, written so that a person sees all of it and a terminal obeys none of it."""

import json
import re
import unicodedata
from typing import Any

# Letters and symbols that are printable and yet show nothing; selectors of variants are like them.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_PLAIN = re.compile(r"[ -~\n]*\Z")


def is_hidden(character: str) -> bool:
    """Whether a reader would not see the character, or a terminal would act on it."""
    # A space of another width is seen as a gap.
    return _is_unclear(character) and unicodedata.category(character) != "Zs"


def visible(text: str, limit: int | None = None) -> str:
    """The text on one line, in which whatever a reader could not tell is written as an escape."""
    if limit is not None and len(text) > limit:
        text = text[:limit] + "…"
    return "".join(
        each.encode("unicode_escape").decode() if _is_unclear(each) else each for each in text
    )


def visible_json(value: Any) -> str:
    """The same for data: JSON with sorted keys, one fact to a line."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    if _PLAIN.match(text):
        return text
    # Line ends stand between facts; inside strings they are escapes already.
    return "".join(_escaped(each) if each != "\n" and _is_unclear(each) else each for each in text)


def _is_unclear(character: str) -> bool:
    return not character.isprintable() or _BLANK.match(character) is not None


def _escaped(character: str) -> str:
    # To JSON, DEL is a character like any other.
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"
