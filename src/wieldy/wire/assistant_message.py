"""Assemble the model's message from a stream, so that it can be sent back unchanged."""

from collections.abc import Mapping
from typing import Any

from .answer_content import make_encodable
from .loose_fields import as_number, get_field

# The text in these fields is repeated as a whole. Text in other fields arrives in parts.
_NAMING = frozenset({"format", "id", "index", "name", "role", "type"})


def plain_copy(thing: Any) -> Any:
    """Data of a provider as plain JSON values, from dicts or from an SDK's objects.

    Unknown fields are kept. Fields of an SDK's object that are None are dropped, because the
    provider did not send them.
    """
    dump = getattr(thing, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(thing, Mapping):
        return {str(name): plain_copy(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [plain_copy(item) for item in thing]
    if isinstance(thing, str | int | float | bool | None):
        return thing
    held = getattr(thing, "__dict__", None)
    return (
        str(thing) if held is None else {n: plain_copy(v) for n, v in held.items() if v is not None}
    )


class Pieces:
    """An object that a stream sends in parts: texts are joined, list items merged by index."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._parts: dict[str, Pieces] = {}
        self._lists: dict[str, list[Pieces]] = {}
        self._by_index: dict[tuple[str, int], Pieces] = {}
        self._others: dict[str, Any] = {}

    def add(self, part: Mapping[str, Any]) -> None:
        """Add one part, which is plain data."""
        for name, value in part.items():
            self._add_field(name, value)

    def _add_field(self, name: str, value: Any) -> None:
        if isinstance(value, str) and name not in _NAMING:
            self._texts.setdefault(name, []).append(value)
        elif isinstance(value, dict):
            self._parts.setdefault(name, Pieces()).add(value)
        elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
            for item in value:
                self._find_item(name, item).add(item)
        elif value is not None or name not in self._others:
            self._others[name] = value

    def _find_item(self, name: str, item: Mapping[str, Any]) -> "Pieces":
        """The item that a part belongs to: the one with its index, or a new one."""
        index = as_number(item.get("index"))
        found = None if index is None else self._by_index.get((name, index))
        if found is None:
            found = Pieces()
            self._lists.setdefault(name, []).append(found)
            if index is not None:
                self._by_index[name, index] = found
        return found

    def value(self) -> dict[str, Any]:
        """The object as far as it has arrived."""
        whole = dict(self._others)
        for name, texts in self._texts.items():
            # A field may be null in an early part and text in a later one.
            whole[name] = make_encodable("".join(texts))
        for name, part in self._parts.items():
            whole[name] = part.value()
        for name, items in self._lists.items():
            whole[name] = [item.value() for item in items]
        return whole


def read_counts(usage: Any, **names: tuple[str, ...]) -> dict[str, int | None]:
    """Numbers from a usage object, each found by the first of its dotted paths that exists."""
    return {each: _first_number(usage, paths) for each, paths in names.items()}


def add_counts(*counts: int | None) -> int | None:
    """The sum of the numbers that are not None, or None if all are."""
    given = [count for count in counts if count is not None]
    return sum(given) if given else None


def _first_number(usage: Any, paths: tuple[str, ...]) -> int | None:
    for path in paths:
        found = usage
        for step in path.split("."):
            found = get_field(found, step)
        count = as_number(found)
        if count is not None:
            return count
    return None
