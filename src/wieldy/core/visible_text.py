"""Escape text from outside, so that a person sees all of it and a terminal obeys none of it."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from pydantic_core import to_jsonable_python

from .bounded_json import MAX_WRAPPED, dump_json
from .short_text import cut_text

# Printable characters that show nothing, including variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00016fe4"
    "\U0001d159\U000e0100-\U000e01ef]"
)
# Combining strokes and frames that are drawn over the character before them.
_OVERLAY = re.compile("[\u0334-\u0338\u0488\u0489\u1abe\u20d2-\u20ea]")
_PLAIN = re.compile(r"[ -~\n]*\Z")
_SIMPLE_NAME = re.compile(r"[\w.$/@:-]+\Z")


def is_hidden(character: str) -> bool:
    """Whether a reader would not see the character, or a terminal would act on it."""
    # A space of any width is visible as a gap.
    return _is_unseen(character) and unicodedata.category(character) != "Zs"


def visible_line(text: str, limit: int | None = None) -> str:
    """The text on one line, with everything that a reader can't recognise escaped."""
    if limit is not None:
        text = cut_text(text, limit)
    return "".join(
        each.encode("unicode_escape").decode() if _is_unclear(each) else each for each in text
    )


def visible_lines(text: str) -> str:
    """Text of several lines, escaped like `visible_line`; the lines stay."""
    return "\n".join(map(visible_line, text.replace("\r\n", "\n").split("\n")))


def visible_json(value: Any) -> str:
    """Data as escaped JSON with sorted keys, one fact to a line."""
    return _escape_all(dump_json(value, MAX_WRAPPED, indent=2, sort_keys=True, ensure_ascii=False))


def visible_value(value: Any) -> str:
    """A value as escaped JSON on one line.

    `ValueError` if it can't be shown, for example because it is nested too deeply.
    """
    try:
        return _escape_all(dump_json(value, MAX_WRAPPED, ensure_ascii=False, default=_plain_value))
    except TypeError as error:
        raise ValueError(f"it can't be shown: {error}") from None


def visible_name(name: str) -> str:
    """A name as it is, or as quoted JSON if it has unusual characters."""
    simple = _SIMPLE_NAME.match(name) is not None and not any(map(_is_unclear, name))
    return name if simple else visible_value(name)


def _escape_all(text: str) -> str:
    if _PLAIN.match(text):
        return text
    # Line ends separate facts; inside strings they are escaped already.
    return "".join(
        _escape_character(each) if each != "\n" and _is_unclear(each) else each for each in text
    )


def _is_unseen(character: str) -> bool:
    return not character.isprintable() or _BLANK.match(character) is not None


def _is_unclear(character: str) -> bool:
    return _is_unseen(character) or _OVERLAY.match(character) is not None


def _escape_character(character: str) -> str:
    # JSON does not escape DEL.
    return dump_json(character)[1:-1] if character != "\x7f" else "\\u007f"


def _plain_value(value: Any) -> Any:
    return to_jsonable_python(
        value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings", serialize_unknown=True
    )


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for a notebook; every cell is text, whatever it looks like."""
    lines = [_html_row("th", headings), *(_html_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def html_text(text: str) -> str:
    """Text for a notebook, with its lines as they are."""
    return f"<pre>{escape(visible_lines(text))}</pre>"


def _html_row(kind: str, cells: Sequence[str]) -> str:
    shown = "".join(f"<{kind}>{escape(visible_line(cell))}</{kind}>" for cell in cells)
    return f"<tr>{shown}</tr>"
