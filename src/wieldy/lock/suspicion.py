"""Find hidden text and suspicious instructions in a tool's definition."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from wieldy.core.outside.suspicious_text import Finding, find_suspicious
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line

__all__ = ["Finding", "examine", "suspicions"]

_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


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
        scripts = {_find_script(letter) for letter in word} - {""}
        if len(scripts) > 1 or unicodedata.normalize("NFKC", word) != word:
            yield Finding(
                place, "look-alike letters", f"{visible_line(word)} ({_name_letters(word)})"
            )


def _in_text(place: str, text: str) -> Iterator[Finding]:
    return find_suspicious(place, text, "definition")


def _find_script(letter: str) -> str:
    name = unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), "")


def _name_letters(word: str) -> str:
    odd = [letter for letter in word if not letter.isascii()][:3]
    return ", ".join(unicodedata.name(letter, "unnamed").lower() for letter in odd)
