"""Find conditions of a rule that can't meet the arguments of the tools that are here."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.names import find_near_names
from wieldy.core.tool import Tool

from .argument_reach import LISTS, PLAIN
from .conditions import Matcher, compile_matcher, reading_matches
from .rules import Rule

_ALL = frozenset(("string", "integer", "number", "boolean", "null"))


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
        near = find_near_names(name, sorted({*(names.declared() or ())} - {path[0]}))
        hint = f", but {near[0]!r}" if near else ""
        return f"{tool.name} has no argument {name!r}{hint}"
    places = names.places(tuple(path))
    if places.others or any(_can_meet(place, matcher) for place in places.found):
        return None
    has = " or ".join(dict.fromkeys(each for place in places.found for each in _told(place)))
    return f"{name!r} of {tool.name} is {has:.200}, and {matcher!r:.200} can't match that"


def _can_meet(place: Mapping[str, Any], matcher: Matcher) -> bool:
    """Whether a value that a schema describes can match a condition."""
    listed = _listed_values(place)
    if listed is None:
        said = _said_kinds(place)
        return said is None or not said.isdisjoint(_kinds_met(matcher))
    # A function is other people's code, and is asked about nothing but arguments.
    return callable(matcher) or any(
        type(value) not in PLAIN or reading_matches(compile_matcher(matcher), value, True)
        for value in listed
    )


def _told(place: Mapping[str, Any]) -> list[str]:
    """The values, or the kinds of values, that a schema allows."""
    listed = _listed_values(place)
    return sorted(_said_kinds(place) or ()) if listed is None else [repr(each) for each in listed]


def _kinds_met(matcher: Matcher) -> frozenset[str]:
    """The kinds of values with which a condition can be compared."""
    if callable(matcher):
        return _ALL
    if isinstance(matcher, LISTS):
        return frozenset(kind for part in matcher for kind in _kinds_met(part))
    if isinstance(matcher, str | re.Pattern):
        return frozenset(("string",))
    return frozenset(_kinds_of(matcher))


def _kinds_of(value: Any) -> tuple[str, ...]:
    """The kinds of values to which a plain value can be equal."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean",)
    whole = isinstance(value, int) or value.is_integer()
    return ("integer", "number") if whole else ("number",)


def _said_kinds(place: Mapping[str, Any]) -> set[str] | None:
    """The kinds that a schema names; None if it may allow any."""
    types = place.get("type")
    named = {types} if isinstance(types, str) else set(types or ())
    return None if not named or "object" in named else named


def _listed_values(place: Mapping[str, Any]) -> list[Any] | None:
    """The only values that a schema allows, if it lists them."""
    if "const" in place:
        return [place["const"]]
    return list(place["enum"]) if "enum" in place else None
