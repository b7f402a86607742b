"""Assemble arguments that arrive in pieces, each with its path."""

import re
from typing import Any

from .loose_fields import as_text, get_field

_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]|\[['\"]([^'\"]*)['\"]\]")
_MOST_ITEMS = 10_000


class PartialArguments:
    """An object that grows by paths such as `$.order.lines[0].name`."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {}
        self._values: dict[str, Any] = {}

    def add(self, piece: Any) -> str:
        """Add one piece; returns its text if it is part of a string."""
        path = as_text(get_field(piece, "json_path", "jsonPath"))
        words = get_field(piece, "string_value", "stringValue")
        if not path:
            return ""
        if isinstance(words, str):
            self._pieces.setdefault(path, []).append(words)
            self._values.setdefault(path, None)
            return words
        number = get_field(piece, "number_value", "numberValue")
        truth = get_field(piece, "bool_value", "boolValue")
        self._values[path] = number if truth is None else truth
        return ""

    def value(self) -> dict[str, Any]:
        """The object as far as it has arrived."""
        whole: dict[str, Any] = {}
        for path, plain in self._values.items():
            pieces = self._pieces.get(path)
            _put_value(whole, _path_steps(path), plain if pieces is None else "".join(pieces))
        return whole


def _path_steps(path: str) -> list[str | int]:
    found = (match.groups() for match in _STEP.finditer(path))
    return [int(index) if index else name or quoted or "" for name, index, quoted in found]


def _put_value(whole: dict[str, Any], steps: list[str | int], value: Any) -> None:
    here: Any = whole
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        last = following is None
        fresh: Any = value if last else ([] if isinstance(following, int) else {})
        if isinstance(here, list) and isinstance(step, int) and step < _MOST_ITEMS:
            here.extend([None] * (step + 1 - len(here)))
            if last or here[step] is None:
                here[step] = fresh
        elif isinstance(here, dict):
            here[str(step)] = fresh if last else here.get(str(step), fresh)
        else:
            return
        here = here[step if isinstance(here, list) else str(step)]
