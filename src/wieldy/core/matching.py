"""Compare what a function would get with what a rule says about it.

Every matcher is asked about each reading of an argument, and told whether the
rule restricts: then what can't be read counts as a match, otherwise it does not.
"""

import fnmatch
import os.path
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any
from urllib.parse import unquote

from .secret import reveal

Matcher = str | int | float | bool | None | re.Pattern[str] | Sequence[Any] | Callable[[Any], bool]
Match = Callable[[Any, bool], bool]
Step = Callable[[str], Any]

PLAIN = frozenset({str, int, float, bool, type(None)})
LISTS = (list, tuple, set, frozenset, deque)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_MISSING: Any = object()
_UNREADABLE: Any = object()


def readings(values: Mapping[str, Any], path: Sequence[str]) -> Iterator[Any]:
    """Each plain value at a dotted path, through lists, mappings and models."""
    for found in _reach(values, path):
        yield from _leaves(found)


def holds(match: Match, value: Any, restricts: bool) -> bool:
    """Whether one reading matches; what fails or can't be read never opens a door."""
    if value is _UNREADABLE:
        return restricts
    try:
        return bool(match(value, restricts))
    except Exception:
        # Other people's matcher, or a value that can't be compared.
        return restricts


def compile_matcher(matcher: Matcher) -> Match:
    """A function of a reading and of whether the rule restricts."""
    if callable(matcher):
        return lambda value, _: matcher(value)
    if isinstance(matcher, LISTS):
        parts = [compile_matcher(part) for part in matcher]
        return lambda value, restricts: any(part(value, restricts) for part in parts)
    if isinstance(matcher, re.Pattern):
        return _expression_matcher(matcher)
    if isinstance(matcher, str):
        return _path_matcher(matcher) if "/" in matcher else _glob_matcher(matcher)
    if matcher is None or isinstance(matcher, bool):
        return lambda value, _: value is matcher
    return lambda value, _: not isinstance(value, bool | str) and bool(value == matcher)


def _reach(here: Any, path: Sequence[str]) -> Iterator[Any]:
    if not path:
        yield here
    elif isinstance(here, LISTS):
        for item in here:
            yield from _reach(item, path)
    else:
        member = _member(here, path[0])
        if member is not _MISSING:
            yield from _reach(member, path[1:])


def _member(here: Any, name: str) -> Any:
    if isinstance(here, Mapping):
        return here.get(name, _MISSING)
    try:
        found = getattr(here, name, _MISSING)
        for field, facts in getattr(type(here), "model_fields", {}).items():
            if found is _MISSING and name in (facts.alias, facts.validation_alias):
                found = getattr(here, field)
    except Exception:
        # Other people's attributes may do anything.
        return _UNREADABLE
    return found


def _leaves(value: Any) -> Iterator[Any]:
    value = reveal(value)
    if isinstance(value, Enum):
        yield from _leaves(value.value)
    elif type(value) in PLAIN:
        yield value
    elif isinstance(value, Mapping):
        yield from _leaves([*value.keys(), *value.values()])
    elif isinstance(value, LISTS):
        for item in value:
            yield from _leaves(item)
    elif hasattr(type(value), "model_fields") or is_dataclass(value):
        yield from _leaves([getattr(value, name) for name in _fields(value)])
    else:
        # An iterator can be read only once, and not by us.
        yield _UNREADABLE if hasattr(value, "__next__") else value


def _fields(value: Any) -> list[str]:
    declared = getattr(type(value), "model_fields", None)
    return list(type(value).__dataclass_fields__ if declared is None else declared)


def _text(value: Any) -> str | None:
    """The text of a value that is written as text: a path, a URL, a date, an id."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return None if value is None or isinstance(value, int | float) else str(value)


def _glob_matcher(pattern: str) -> Match:
    match = re.compile(fnmatch.translate(pattern)).match

    def matches(value: Any, restricts: bool) -> bool:
        text = _text(value)
        return text is not None and bool(match(text))

    return matches


def _expression_matcher(expression: re.Pattern[str]) -> Match:
    """A rule that restricts looks for the expression anywhere; one that allows wants all of it."""

    def matches(value: Any, restricts: bool) -> bool:
        text = _text(value)
        match = expression.search if restricts else expression.fullmatch
        return text is not None and match(text) is not None

    return matches


def _path_matcher(pattern: str) -> Match:
    """`*` stays within one folder, `**` crosses; paths are normalised before they are compared.

    A rule that restricts `/etc/**`, or `/etc/`, restricts the folder itself as well.
    """
    if pattern.endswith("/"):
        pattern += "**"
    written = [pattern, os.path.expanduser(pattern)] if pattern.startswith("~") else [pattern]
    below = [_steps(_normal(each)) for each in written]
    at_or_below = [*below, *(steps[:-2] for steps in below if steps[-2:-1] == [_any_depth])]
    absolute = any(os.path.isabs(each) for each in written)

    def matches(value: Any, restricts: bool) -> bool:
        text = _text(value)
        if text is None:
            return False
        wanted = at_or_below if restricts else below
        found = [
            any(_leads(steps, path.split("/")) for steps in wanted)
            for path in _paths(text, absolute)
        ]
        return any(found) if restricts else all(found)

    return matches


def _paths(text: str, absolute: bool) -> list[str]:
    """The ways in which a tool may read a path or a URL."""
    text = text.replace("\0", "")
    scheme = _SCHEME.match(text)
    if scheme is not None:
        forms = {text, unquote(text)}
        if scheme[1].lower() == "file":
            forms |= {"/" + form.partition("://")[2].partition("/")[2] for form in list(forms)}
        return [_normal(form) for form in forms]
    if not absolute:
        return [_normal(text)]
    home = [os.path.expanduser(text)] if text.startswith("~") else []
    return [_normal(path) for path in (os.path.abspath(text), *home)]


def _normal(path: str) -> str:
    scheme = _SCHEME.match(path)
    if scheme is not None:
        host, slash, rest = path[scheme.end() :].partition("/")
        plain = os.path.normpath(f"/{rest}").lstrip("/") if rest else ""
        return f"{scheme[0].lower()}{host.lower()}{slash}{plain}"
    plain = os.path.normpath(path.replace(os.sep, "/")) if path else ""
    # A leading "//" is "/" here, and normpath keeps it.
    return "/" + plain.lstrip("/") if plain.startswith("/") else plain


def _any_depth(step: str) -> bool:
    """Stands for `**` among the steps of a pattern."""
    return True


def _steps(pattern: str) -> list[Step]:
    """What each step of a path must be. A `**` at the end stands for at least one step."""
    steps = pattern.split("/")
    if steps[-1] == "**":
        steps.append("*")
    return [_any_depth if s == "**" else re.compile(fnmatch.translate(s)).match for s in steps]


def _leads(wanted: list[Step], steps: list[str]) -> bool:
    """Compare step by step; only the last `**` is ever tried again, so the time is bounded."""
    at = step = resumed = 0
    crossing = -1
    while step < len(steps):
        if at < len(wanted) and wanted[at] is _any_depth:
            crossing, resumed = at, step
            at += 1
        elif at < len(wanted) and wanted[at](steps[step]):
            at, step = at + 1, step + 1
        elif crossing >= 0:
            resumed += 1
            at, step = crossing + 1, resumed
        else:
            return False
    return all(rest is _any_depth for rest in wanted[at:])
