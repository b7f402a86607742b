"""Find what the schema of a tool says of the values that a rule's argument name means."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wieldy.core.schema.references import resolve_reference

from .argument_reach import Aliases

_MAX_STEPS = 200
_Step = tuple[Any, Sequence[str]]


class Places(NamedTuple):
    """The parts of a schema that describe a value, and whether it may be something else too."""

    found: list[Mapping[str, Any]]
    others: bool


def find_places(schema: Mapping[str, Any], path: Sequence[str], aliases: Aliases) -> Places:
    """What a schema says of the plain values that a dotted name means, inside lists too.

    `aliases` has the classes of the arguments; it is empty if a function gets what was sent.
    """
    rest, found, seen = _own_parts(schema["properties"], path), list[Mapping[str, Any]](), set()
    others = not rest
    while rest and not others:
        place, names = rest.pop()
        # What is left of the name is known by its length.
        if (step := (id(place), len(names))) in seen:
            continue
        seen.add(step)
        inner: list[_Step] | None
        if not isinstance(place, Mapping) or "allOf" in place or len(seen) > _MAX_STEPS:
            inner = None
        elif "$ref" in place:
            inner = [(resolve_reference(place, schema), names)]
        elif choices := [*place.get("anyOf", ()), *place.get("oneOf", ())]:
            inner = [(choice, names) for choice in choices]
        elif names:
            inner = _named_parts(place, names, aliases)
        elif "array" in _types_of(place):
            inner = _item_parts(place, names)
        else:
            inner = []
            found.append(place)
        others = inner is None
        rest += inner or ()
    return Places(found, others)


def _types_of(place: Mapping[str, Any]) -> set[str]:
    types = place.get("type") or ()
    return {types} if isinstance(types, str) else set(types)


def _own_parts(properties: Mapping[str, Any], names: Sequence[str]) -> list[_Step]:
    ends = range(1, len(names) + 1)
    named = ((".".join(names[:end]), names[end:]) for end in ends)
    return [(properties[name], left) for name, left in named if name in properties]


def _item_parts(place: Mapping[str, Any], names: Sequence[str]) -> list[_Step] | None:
    """The items of a list; None if they may be anything."""
    items = [*place.get("prefixItems", ()), *([place["items"]] if place.get("items") else ())]
    return [(item, names) for item in items] or None


def _named_parts(
    place: Mapping[str, Any], names: Sequence[str], aliases: Aliases
) -> list[_Step] | None:
    """The parts of a value by the next names; None if the schema does not show all of them."""
    types = _types_of(place)
    inner = _item_parts(place, names) if "array" in types else []
    if inner is None or not types or (aliases and not types <= {"array", "object", "null"}):
        # An object that a text stands for may have attributes.
        return None
    if "object" not in types:
        return inner
    more = place.get("additionalProperties", not aliases) or "patternProperties" in place
    if more or "properties" not in place or _is_field(names, aliases, place["properties"]):
        return None
    return [*inner, *_own_parts(place["properties"], names)]


def _is_field(names: Sequence[str], aliases: Aliases, shown: Mapping[str, Any]) -> bool:
    """Whether a class of the arguments knows a name that its schema does not show."""
    spelled = {".".join(names[:end]) for end in range(1, len(names) + 1)} - shown.keys()
    return any(
        not spelled.isdisjoint((*named, *(field for fields in named.values() for field in fields)))
        or (kind is not None and names[0] in spelled and hasattr(kind, names[0]))
        for kind, named in aliases.items()
    )
