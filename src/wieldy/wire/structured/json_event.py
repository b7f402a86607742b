"""The events of streaming JSON, and the places in the document that they are about."""

import re
from itertools import islice
from typing import Any, Literal

from wieldy.core.bounded_json import dump_json
from wieldy.core.schema.references import write_step

Key = str | int

_PLAIN_KEY = re.compile(r'[^.\[\]"]+')


class JsonPlace:
    """The place of a value in the document, with the value so far.

    A container is put into its parent when it opens, any other value when it is complete.
    `before` is the number of items in the parent before this one, with which the data at any
    event can be rebuilt later.
    """

    __slots__ = ("_path", "_wildcard_path", "before", "key", "parent", "parts", "value")

    def __init__(self, parent: "JsonPlace | None", key: Key, before: int) -> None:
        self.parent = parent
        self.key = key
        self.before = before
        self.value: Any = None
        self.parts: list[str] | None = None
        self._path: str | None = None
        self._wildcard_path: str | None = None

    @classmethod
    def outermost(cls) -> "JsonPlace":
        """The place around the document; its only item is the document itself."""
        place = cls(None, 0, 0)
        place.value = []
        return place

    def root(self) -> "JsonPlace":
        """The place of the document in the outermost place."""
        place = type(self)(self, 0, 0)
        place._path = place._wildcard_path = ""
        return place

    @property
    def path(self) -> str:
        """The keys from the root to here."""
        if self._path is None:
            self._path = self._write_path("_path")
        return self._path

    @property
    def wildcard_path(self) -> str:
        """The path with a star for every index."""
        if self._wildcard_path is None:
            self._wildcard_path = self._write_path("_wildcard_path")
        return self._wildcard_path

    @property
    def indexes(self) -> tuple[int, ...]:
        """The indexes on the way from the root to here."""
        keys = [place.key for place in self._place_chain()]
        return tuple(key for key in reversed(keys) if isinstance(key, int))

    def data(self, value: Any) -> Any:
        """The whole document at the time when this place was the newest and held `value`."""
        for place in self._place_chain():
            assert place.parent is not None
            around = place.parent.value
            if isinstance(around, list):
                value = [*around[: place.before], value]
            else:
                value = {**dict(islice(around.items(), place.before)), place.key: value}
        return value

    def _place_chain(self) -> list["JsonPlace"]:
        """This place and those around it, without the root."""
        chain = []
        place = self
        while place.parent is not None and place.parent.parent is not None:
            chain.append(place)
            place = place.parent
        return chain

    def _write_path(self, attribute: str) -> str:
        """A path that is kept in an attribute; the container around keeps its own as well."""
        pieces = []
        place = self
        while (known := getattr(place, attribute)) is None:
            assert place.parent is not None
            is_star = attribute == "_wildcard_path" and isinstance(place.key, int)
            pieces.append(self._path_piece("*" if is_star else place.key, is_star))
            place = place.parent
        if len(pieces) > 1:
            known = _join_pieces(known, pieces[:0:-1])
            setattr(self.parent, attribute, known)
        return _join_pieces(known, pieces[:1])

    @staticmethod
    def _path_piece(key: Key, is_star: bool) -> str:
        if is_star or not isinstance(key, str):
            return f"[{key}]"
        if _PLAIN_KEY.fullmatch(key):
            return f".{key}"
        return f"[{dump_json(key, ensure_ascii=False)}]"


def _join_pieces(known: str, pieces: list[str]) -> str:
    return known + "".join(pieces) if known else "".join(pieces).removeprefix(".")


class SlashPlace(JsonPlace):
    """A place whose paths are JSON Pointers (RFC 6901): `/l/0/k`."""

    __slots__ = ()

    @staticmethod
    def _path_piece(key: Key, is_star: bool) -> str:
        if isinstance(key, str):
            key = write_step(key)
        return f"/{key}"


class BracketPlace(JsonPlace):
    """A place whose paths are those of Agently's slash style: `/l/[0]/k`."""

    __slots__ = ()

    @staticmethod
    def _path_piece(key: Key, is_star: bool) -> str:
        if is_star or not isinstance(key, str):
            return f"/[{key}]"
        return SlashPlace._path_piece(key, is_star)


class Event:
    """Something new about one value of the document.

    `delta` is the new text of a string, or the whole text of a number or literal; for a
    container it is empty. `is_complete` is true in the one event with which the value is
    finished. The other properties are computed when they are read, and always show the state
    at this event. Treat them as read-only, because events share the containers.

    Example:
        `if event.is_complete: print(event.path, event.value)`
    """

    __slots__ = ("_count", "delta", "is_complete", "place")

    def __init__(self, place: JsonPlace, delta: str, is_complete: bool, count: int) -> None:
        self.place = place
        self.delta = delta
        self.is_complete = is_complete
        self._count = count

    @property
    def type(self) -> Literal["growing", "complete"]:
        """Whether the value is still growing or complete."""
        return "complete" if self.is_complete else "growing"

    @property
    def path(self) -> str:
        """The place of the value: `l[0].k`, or `/l/0/k`. The root is the empty string."""
        return self.place._path or self.place.path

    @property
    def wildcard_path(self) -> str:
        """The path with a star for every index: `l[*].k`."""
        return self.place.wildcard_path

    @property
    def indexes(self) -> tuple[int, ...]:
        """The indexes in the path."""
        return self.place.indexes

    @property
    def value(self) -> Any:
        """The value so far; the final one if the event is complete."""
        parts = self.place.parts
        if parts is None or self.is_complete:
            return self.place.value
        return "".join(parts[: self._count])

    @property
    def full_data(self) -> Any:
        """The whole document so far."""
        return self.place.data(self.value)

    def __repr__(self) -> str:
        return f"<Event {self.path!r} {self.delta!r} {self.type}>"
