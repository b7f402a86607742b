"""Find out from a schema how the document can start."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wieldy.core.schema.references import choices_of

_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_ALL = frozenset({"object", "array"}) | _SCALARS
_NARROWING = {"properties": "object", "required": "object", "items": "array"}


@dataclass(frozen=True, slots=True)
class Expected:
    """The kinds of value that can be the document, or the first item of it if it is a list."""

    kinds: frozenset[str] = _ALL
    items: frozenset[str] = _ALL
    may_be_empty: bool = True

    @property
    def brackets(self) -> str:
        """The brackets the document may start with."""
        return "{" * ("object" in self.kinds) + "[" * ("array" in self.kinds)

    @property
    def scalars(self) -> bool:
        """Whether the document may be a string, a number or a literal."""
        return not self.kinds.isdisjoint(_SCALARS)

    def fits_scalar(self, first: str) -> bool:
        """Whether the document can be a scalar that starts with this character."""
        if first in "\"'":
            return "string" in self.kinds
        if first in "-+.0123456789":
            return not self.kinds.isdisjoint(("integer", "number"))
        literals = {"t": "boolean", "f": "boolean", "n": "null"}
        return literals.get(first.lower()) in self.kinds

    def fits(self, bracket: str, first: str) -> bool:
        """Whether the container can start with this character after its bracket."""
        if first in "]}":
            return self.may_be_empty or first == "]"
        if bracket == "{" or first in "/#":
            return True
        kinds = {"{": {"object"}, "[": {"array"}, '"': {"string"}, "'": {"string"}}
        return not self.items.isdisjoint(kinds.get(first, _SCALARS - {"string"}))


def expected_by(schema: Mapping[str, Any]) -> Expected:
    """The kinds that a JSON Schema expects; all kinds if it does not say."""
    parts = list(_walk_alternatives(schema, schema))
    kinds = frozenset().union(*map(_allowed_kinds, parts))
    items: frozenset[str] = frozenset()
    for part in parts:
        if "array" in _allowed_kinds(part):
            inner = part.get("items")
            found = _walk_alternatives(inner, schema) if isinstance(inner, Mapping) else [{}]
            items = items.union(*map(_allowed_kinds, found))
    may_be_empty = any(
        "object" in _allowed_kinds(part) and not part.get("required") for part in parts
    )
    return Expected(kinds or _ALL, items or _ALL, may_be_empty)


def _walk_alternatives(
    part: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """The schemas one of which holds at the top of a schema, references followed."""
    todo, seen = [part], set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        inner = choices_of(part, schema)
        if inner and "type" not in part:
            todo += inner
        else:
            yield part


def _allowed_kinds(part: Mapping[str, Any]) -> frozenset[str]:
    named = part.get("type")
    if named is not None:
        return _ALL & frozenset([named] if isinstance(named, str) else named)
    for word, kind in _NARROWING.items():
        if word in part:
            return frozenset({kind})
    return _ALL
