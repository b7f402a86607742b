"""Read YAML as JSON data: no tags that create objects, no dates, no exploding aliases.

This module builds the data from the parser's events one by one. Deep nesting and aliases of
aliases are therefore refused safely, and `no` or a date stays text, as in a JSON document.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from wieldy.core.bounded_json import MAX_DEPTH, NestedTooDeep

_MAX_REPEATED = 1_000_000
_TAGS = ("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


def read_yaml_text(text: str) -> Any:
    """The only document in a YAML text; `ValueError` if it can't be read."""
    try:
        return _Reader().read(yaml.parse(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise ValueError(f"{said}{where}") from None


class _Frame:
    """An open list or object, and its size: the values in it and their characters."""

    __slots__ = ("anchor", "key", "merged", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.merged: list[Any] = []
        self.size = 1


class _Reader:
    def __init__(self) -> None:
        self.frames: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.repeated = 0
        self.result: Any = None
        self.documents = 0
        self.steps: dict[type, Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self.document,
            yaml.ScalarEvent: self.scalar,
            yaml.AliasEvent: self.alias,
            yaml.MappingStartEvent: lambda event: self.open({}, event),
            yaml.SequenceStartEvent: lambda event: self.open([], event),
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
        }

    def read(self, events: Iterable[Any]) -> Any:
        for event in events:
            step = self.steps.get(type(event))
            if step is not None:
                step(event)
        return self.result

    def document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise ValueError("more than one YAML document")

    def open(self, value: Any, event: Any) -> None:
        _check_tag(event)
        if len(self.frames) >= MAX_DEPTH:
            raise NestedTooDeep
        if self.frames and isinstance(self.frames[-1].value, dict) and self.frames[-1].key is None:
            raise ValueError(f"a key that is not text in line {event.start_mark.line + 1}")
        self.frames.append(_Frame(value, event.anchor))

    def close(self, event: Any) -> None:
        frame = self.frames.pop()
        for merged in frame.merged:
            frame.value = {**merged, **frame.value}
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, frame.size)
        self.put(frame.value, frame.size)

    def scalar(self, event: Any) -> None:
        _check_tag(event)
        frame = self.frames[-1] if self.frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            frame.key = event.value
            frame.size += len(event.value)
            return
        value = _plain_scalar(event)
        size = 1 + len(event.value)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, size)
        self.put(value, size)

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise ValueError(f"the alias *{event.anchor} refers to itself or to nothing")
        value, size = self.anchors[event.anchor]
        self.repeated += size
        if self.repeated > _MAX_REPEATED:
            raise ValueError("its aliases repeat too much")
        frame = self.frames[-1]
        if isinstance(frame.value, dict) and frame.key is None:
            if not isinstance(value, str):
                raise ValueError(f"a key that is not text in line {event.start_mark.line + 1}")
            frame.key = value
            return
        self.put(value, size)

    def put(self, value: Any, size: int) -> None:
        if not self.frames:
            self.result = value
            return
        frame = self.frames[-1]
        frame.size += size
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key == "<<":
            merged = value if isinstance(value, list) else [value]
            frame.merged += [each for each in merged if isinstance(each, dict)]
            frame.key = None
        else:
            frame.value[frame.key] = value
            frame.key = None


def _check_tag(event: Any) -> None:
    tag = event.tag
    if tag is not None and tag.removeprefix("tag:yaml.org,2002:") not in _TAGS and tag != "!":
        raise ValueError(f"the tag {tag} in line {event.start_mark.line + 1} is not data")


def _plain_scalar(event: Any) -> Any:
    """The value of a scalar by the rules of JSON: quoted scalars and dates are text."""
    text = event.value
    if event.style or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    return float(text) if _FLOAT.match(text) else text
