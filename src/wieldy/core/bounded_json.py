"""Read and write JSON, and walk values, down to one depth that is the same on every interpreter.

Without a bound of its own, each reader and writer ends where the interpreter's stack does: after
1,000 frames on Python 3.11, after many thousands on 3.14, and earlier inside a deep program.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import accumulate, count
from operator import sub
from typing import Any

from pydantic_core import from_json

# The most levels of a value from outside: arguments, a result, a schema, a document. JSON readers
# elsewhere end at 100 levels (Ruby, protobuf) or 128 (Rust's serde), and a walk with three frames
# for each level leaves room for a deep program around it.
MAX_DEPTH = 100
# The most levels of a message of ours that contains such values. Pydantic's reader ends at 200.
MAX_WRAPPED = 150

_FLAT = frozenset({str, int, float, bool, bytes, type(None)})
_ORDINARY = frozenset({list, tuple, set, frozenset})
_CONTAINERS = (dict, list, tuple, set, frozenset, deque, Mapping)
_MANY = 10_000
_INNERMOST = 4
# Everything but quotes and brackets; braces become brackets.
_WITHOUT_NESTING = bytes(set(range(256)) - set(b'"[]{}'))
_BRACES = bytes.maketrans(b"{}", b"[]")
# A string, which ends with the text if it is not closed.
_STRING = re.compile(rb'"[^"]*+"?')


class NestedTooDeep(ValueError):
    """A text or a value has more levels than we read, write or walk through."""

    def __init__(self, most: int = MAX_DEPTH) -> None:
        super().__init__(f"nested more than {most} levels deep")


class LevelCount:
    """Counts how deep a walk is that calls itself, as the context of each of its calls."""

    __slots__ = ("_count", "_most")

    def __init__(self, most: int) -> None:
        self._count = 0
        self._most = most

    def __enter__(self) -> None:
        self._count += 1
        if self._count > self._most:
            raise NestedTooDeep(self._most)

    def __exit__(self, *_: object) -> None:
        self._count -= 1


def parse_json(text: str | bytes | bytearray, most: int = MAX_DEPTH) -> Any:
    """The value of a JSON text; `ValueError` if it is not JSON, or has more than `most` levels."""
    check_text_depth(text, most)
    try:
        return from_json(text)
    except (TypeError, ValueError):
        # Lone surrogates are valid JSON, but Rust strings can't hold them.
        return json.loads(text)


def parse_json_with(text: str | bytes | bytearray, most: int = MAX_DEPTH, **options: Any) -> Any:
    """The same with the options of `json.loads`."""
    check_text_depth(text, most)
    return json.loads(text, **options)


def dump_json(value: Any, most: int = MAX_DEPTH, **options: Any) -> str:
    """A value as JSON, with the options of `json.dumps`.

    Raises:
        ValueError: It has more than `most` levels, contains itself, or has a number that may not
            be written.
        TypeError: It has a value that JSON does not know.
    """
    return bound_writer(json.dumps, value, most, **options)


def bound_writer(
    write: Callable[..., str], value: Any, most: int = MAX_DEPTH, **options: Any
) -> str:
    """What a JSON writer makes of a value; `NestedTooDeep` if that has too many levels."""
    try:
        text = write(value, **options)
    except RecursionError:
        # A writer turns objects into other values, so the value can't be measured before.
        raise NestedTooDeep(most) from None
    check_text_depth(text, most)
    return text


def bound_reader(read: Callable[[str], Any], text: str) -> Any:
    """What a reader of another format finds in a text; `NestedTooDeep` if that is too deep."""
    try:
        value = read(text)
    except RecursionError:
        # These readers are not ours, and end where the interpreter's stack does.
        raise NestedTooDeep from None
    check_depth(value)
    return value


def copy_json(value: Any, **options: Any) -> Any:
    """A value as it comes back from JSON, with the options of `json.dumps`."""
    return parse_json(dump_json(value, **options))


def check_text_depth(text: str | bytes | bytearray, most: int = MAX_DEPTH) -> None:
    """Raise `NestedTooDeep` if the brackets of a JSON text have more than `most` levels.

    This takes a part of the time that reading the text takes, also if it is not JSON.
    """
    # A bracket that is opened has to be closed, so a short text can't be both deep and JSON.
    if len(text) > 2 * most and _count_brackets(text) > most and _measure_text(text) > most:
        raise NestedTooDeep(most)


def check_depth(value: Any, most: int = MAX_DEPTH) -> None:
    """Raise `NestedTooDeep` if a value has more than `most` levels, or contains itself.

    Containers, models and dataclasses are levels; other objects are not looked into.
    """
    level = [value] if type(value) not in _FLAT else []
    for _ in range(most):
        level = [each for held in level for each in _list_inner(held)]
        if not level:
            return
        if len(level) > _MANY:
            # An object in many places would be looked into again for each of them.
            level = list({id(each): each for each in level}.values())
    if any(map(_is_level, level)):
        raise NestedTooDeep(most)


def _count_brackets(text: Any) -> int:
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return int(text.count(b"[") + text.count(b"{"))


def _measure_text(text: str | bytes | bytearray) -> int:
    """How many levels the brackets outside of strings have."""
    if isinstance(text, str):
        content = text.encode("utf-8", "surrogatepass")
    else:
        # JSON may be in UTF-16 and UTF-32 as well.
        encoding = json.detect_encoding(text)
        content = bytes(text) if encoding == "utf-8" else text.decode(encoding, "replace").encode()
    if b"\\" in content:
        content = content.replace(rb"\\", b"").replace(rb"\"", b"")
    # Strings without brackets become pairs of quotes here. Where such a pair is the end of one
    # string and the start of the next, removing it joins the two, and what is in them stays there.
    marks = content.translate(_BRACES, _WITHOUT_NESTING).replace(b'""', b"")
    if b'"' in marks:
        marks = _STRING.sub(b"", marks)
    # The innermost levels are the widest in most texts, and are removed quickly.
    removed = 0
    while removed < _INNERMOST and b"[]" in marks:
        marks = marks.replace(b"[]", b"")
        removed += 1
    # How many brackets are open before each one that closes, and at the end.
    opened = accumulate(map(len, marks.split(b"]")))
    deepest: int = max(map(sub, opened, count()))
    return removed + deepest


def _list_inner(value: Any) -> Iterable[Any]:
    """The values directly in a value that may contain others."""
    kind = type(value)
    if kind is dict:
        inner = value.values()
    elif kind in _ORDINARY:
        inner = value
    else:
        inner = _read_object(kind, value)
    return () if _FLAT.issuperset(map(type, inner)) else [e for e in inner if type(e) not in _FLAT]


def _is_level(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, _CONTAINERS) or _find_fields(kind) is not None


def _read_object(kind: type, value: Any) -> Collection[Any]:
    """What an object of another class contains."""
    if issubclass(kind, dict):
        return dict.values(value)
    for ordinary in (list, tuple, set, frozenset, deque):
        if issubclass(kind, ordinary):
            return list(ordinary.__iter__(value))
    try:
        if issubclass(kind, Mapping):
            return list(value.values())
        names = _find_fields(kind) or ()
        return [getattr(value, name) for name in names if hasattr(value, name)]
    except Exception:
        # The value is other people's code, and may raise anything when it is read.
        return ()


def _find_fields(kind: type) -> Iterable[str] | None:
    """The fields of a dataclass or a model."""
    fields: Iterable[str] | None = getattr(kind, "model_fields", None)
    return getattr(kind, "__dataclass_fields__", None) if fields is None else fields
