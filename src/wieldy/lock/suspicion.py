"""Find hidden text and suspicious instructions in a tool's definition."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wieldy.core.tool import Tool
from wieldy.core.visible_text import is_hidden, visible_line

from .instructions import find_instructions

_LONGEST_SHOWN = 120
# White space that pushes the text after it out of sight: wider than a screen, or many lines.
_WIDE = 80
_TALL = 12
_SPACES = re.compile(r"\s+")
# The last cell of a table row may be padded, and no text follows it.
_ROW_END = re.compile(r"\|[^\S\n]*(?:\n|\Z)")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{200,}")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ESCAPE = re.compile("[\x1b\x9b]")
_MARKS = "\u200e\u200f\u061c"
_JOINERS = "\u200c\u200d"
_KEYCAPS = "0123456789#*"
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a definition that a person should review.

    `place` is its location, such as `input_schema.properties.path.description`. `passage` is
    the text with hidden characters made visible.
    """

    place: str
    kind: str
    passage: str


def suspicions(tool: Tool) -> list[Finding]:
    """Find what a person should review before trusting a tool.

    Args:
        tool: the tool.

    Returns:
        The findings, in the order of the definition.

    Example:
        `for finding in suspicions(tool): print(finding.place, finding.kind)`
    """
    return examine(tool.name, tool.description, tool.input_schema, tool.output_schema)


def examine(
    name: str,
    description: str = "",
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """Find what a person should review in a definition that is not a tool yet."""
    found = [
        *_in_name("name", name),
        *_in_text("name", name),
        *_in_text("description", description),
    ]
    for place, schema in (("input_schema", input_schema), ("output_schema", output_schema)):
        found += _in_schema(place, schema)
    return found


def _in_schema(place: str, schema: Any) -> Iterator[Finding]:
    """Every text in a schema: names of properties, descriptions, choices, defaults, examples."""
    waiting: list[tuple[str, Any]] = [(place, schema)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, str):
            yield from _in_text(where, value)
        elif isinstance(value, Mapping):
            inner = [
                (f"{where}.{visible_line(str(key), 40)}", key, each) for key, each in value.items()
            ]
            for below, key, _ in inner:
                yield from (*_in_name(below, str(key)), *_in_text(below, str(key)))
            waiting += [(below, each) for below, _, each in reversed(inner)]
        elif isinstance(value, list | tuple):
            items = [(f"{where}[{number}]", each) for number, each in enumerate(value)]
            waiting += reversed(items)


def _in_name(place: str, name: str) -> Iterator[Finding]:
    """A name that looks like another one."""
    if name.isascii():
        return
    for word in re.findall(r"[^\W\d_]+", name):
        scripts = {_script(letter) for letter in word} - {""}
        if len(scripts) > 1 or unicodedata.normalize("NFKC", word) != word:
            yield Finding(place, "look-alike letters", f"{visible_line(word)} ({_spelled(word)})")


def _in_text(place: str, text: str) -> Iterator[Finding]:
    if not (text.isascii() and text.isprintable()):
        yield from (Finding(place, kind, passage) for kind, passage in _first_hidden(text))
    for end in _gaps(text):
        passage = visible_line(text[end : end + _LONGEST_SHOWN + 1], _LONGEST_SHOWN)
        yield Finding(place, "text pushed out of sight", passage)
    if encoded := _ENCODED.search(text):
        yield Finding(place, "encoded text", visible_line(encoded[0], _LONGEST_SHOWN))
    for kind, passage in find_instructions(_plain(text)):
        yield Finding(place, kind, visible_line(passage, _LONGEST_SHOWN))


def _gaps(text: str) -> Iterator[int]:
    """The passages after a gap that a reader would take for the end of the text."""
    for match in _SPACES.finditer(text):
        gap, end = match[0], match.end()
        if len(gap) < _TALL or end == len(text) or _ROW_END.match(text, end):
            continue
        if gap.count("\n") >= _TALL or max(map(len, gap.splitlines())) >= _WIDE:
            yield end


def _first_hidden(text: str) -> Iterator[tuple[str, str]]:
    """The first passage of each kind, with the number of further ones."""
    found: dict[str, list[tuple[int, int]]] = {}
    for start, end in _hidden_runs(text):
        kind = "terminal escape" if _ESCAPE.search(text, start, end) else "hidden characters"
        found.setdefault(kind, []).append((start, end))
    for kind, runs in found.items():
        more = f" (and {len(runs) - 1} more)" if len(runs) > 1 else ""
        yield kind, _around(text, *runs[0]) + more


def _hidden_runs(text: str) -> Iterator[tuple[int, int]]:
    """The positions of invisible characters and control characters."""
    # Direction marks are normal in right-to-left text.
    usual = _MARKS if _RIGHT_TO_LEFT.search(text) else ""
    start = None
    for index, character in enumerate(text):
        if character not in usual and _conceals(text, index):
            start = index if start is None else start
        elif start is not None:
            yield start, index
            start = None
    if start is not None:
        yield start, len(text)


def _around(text: str, start: int, end: int) -> str:
    run = text[start:end]
    said = "".join(chr(ord(each) - 0xE0000) for each in run if "\U000e0020" <= each <= "\U000e007e")
    spelled = f" (spelling {visible_line(said, _LONGEST_SHOWN)!r})" if said else ""
    before, after = text[max(0, start - 20) : start], text[end : end + 20]
    return f"{visible_line(before)}{visible_line(run[:8])}{visible_line(after)}{spelled}"


def _conceals(text: str, index: int) -> bool:
    """Whether a character hides something; some are normal in emoji and joining scripts."""
    character = text[index]
    if character in "\n\r\t" or not is_hidden(character):
        return False
    before, after = text[index - 1 : index] if index else "", text[index + 1 : index + 2]
    if character in _JOINERS:
        return not (_joins(before) and _joins(after))
    if unicodedata.category(character) == "Mn":
        return not (before and (before in _KEYCAPS or _joins(before)))
    return True


def _joins(neighbour: str) -> bool:
    return (
        bool(neighbour)
        and not neighbour.isascii()
        and (not is_hidden(neighbour) or neighbour == "\ufe0f")
    )


def _plain(text: str) -> str:
    """The text as a model reads it: without hidden characters, in ordinary letters."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if not text.isprintable():
        text = "".join(each for each in text if each in "\n\r\t" or not is_hidden(each))
    return " ".join(text.replace("\u2019", "'").split())


def _script(letter: str) -> str:
    name = unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), "")


def _spelled(word: str) -> str:
    odd = [letter for letter in word if not letter.isascii()][:3]
    return ", ".join(unicodedata.name(letter, "unnamed").lower() for letter in odd)
