"""Find conditions of a rule that can't meet the arguments of the tools that are here."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wieldy.core.names import find_near_names
from wieldy.core.schema.references import resolve_reference
from wieldy.core.tool import Tool

from .argument_reach import LISTS
from .conditions import Matcher
from .rules import Rule

_ALL = frozenset(("string", "number", "boolean", "null"))
_MAX_STEPS = 200


def check_conditions(rule: Rule, tools: Iterable[Tool]) -> None:
    """Raise `ValueError` if no tool here that the rule is for has what a condition compares."""
    concerned = [tool for tool in tools if rule.where and rule.concerns(tool)]
    for name, matcher in rule.where.items():
        found = [_find_misfit(tool, name, matcher) for tool in concerned]
        if found and all(found):
            raise ValueError(f"the rule {rule} would never match: {found[0]}")


def _find_misfit(tool: Tool, name: str, matcher: Matcher) -> str | None:
    """Why a condition can't meet an argument of a tool; None if it can."""
    names, path = tool.argument_names, name.split(".")
    if not names.may_have(path):
        near = find_near_names(name, sorted(names.declared() or ()))
        hint = f", but {near[0]!r}" if near else ""
        return f"{tool.name} has no argument {name!r}{hint}"
    schema = tool.input_schema["properties"].get(name)
    if schema is None:
        # A part of an argument, or one that the schema does not show.
        return None
    kinds, wanted = _kinds_of(schema, tool.input_schema), _kinds_met(matcher)
    if kinds.isdisjoint(wanted):
        has = " or ".join(sorted(kinds))
        return f"{name!r} of {tool.name} is {has}, which {matcher!r:.200} can't be compared with"
    return None


def _kinds_met(matcher: Matcher) -> frozenset[str]:
    """The kinds of values with which a condition can be compared."""
    if callable(matcher):
        return _ALL
    if isinstance(matcher, LISTS):
        return frozenset(kind for part in matcher for kind in _kinds_met(part))
    if isinstance(matcher, str | re.Pattern):
        return frozenset(("string",))
    return frozenset(("null" if matcher is None else _kind_of(matcher),))


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def _kinds_of(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of plain values that a schema allows, as far as it says so."""
    found: set[str] = set()
    for step, place in enumerate(_reach_places(schema, root)):
        said = _said_kinds(place)
        if said is None or step > _MAX_STEPS:
            return _ALL
        found |= said
    return frozenset(found)


def _reach_places(schema: Any, root: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that may describe a value: the choices of a schema, references followed."""
    rest, seen = [schema], set[int]()
    while rest:
        place = rest.pop()
        if id(place) in seen:
            continue
        seen.add(id(place))
        if not isinstance(place, Mapping):
            yield place
        elif "$ref" in place:
            rest.append(resolve_reference(place, root))
        elif choices := [*place.get("anyOf", ()), *place.get("oneOf", ())]:
            rest += choices
        else:
            yield place


def _said_kinds(place: Any) -> set[str] | None:
    """The kinds that one schema names; None if it may allow any."""
    if not isinstance(place, Mapping):
        return None
    if "const" in place or "enum" in place:
        return {_kind_of(each) for each in (*place.get("enum", ()), *_constant(place))}
    types = place.get("type")
    named = {types} if isinstance(types, str) else set(types or ())
    if not named or not named.isdisjoint(("array", "object")):
        return None
    return {"number" if each == "integer" else each for each in named}


def _constant(place: Mapping[str, Any]) -> tuple[Any, ...]:
    return (place["const"],) if "const" in place else ()
