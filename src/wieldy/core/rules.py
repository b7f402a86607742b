"""Standing rules: which calls are allowed, asked about or denied, by name and arguments."""

import fnmatch
import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from .secret import reveal

Matcher = str | int | float | bool | None | list[Any] | Callable[[Any], bool]
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_MISSING: Any = object()
_PLAIN = frozenset({str, int, float, bool, type(None)})


def _any_depth(step: str) -> bool:
    """Stands for `**` among the steps of a pattern."""
    return True


class Verdict(Enum):
    """What a rule says. The order is the order in which rules count."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


class Rule:
    """One verdict on the tools and arguments that match.

    A rule that restricts matches if any reading of an argument matches; a rule
    that allows matches only if every reading does. So a list, or a path that can
    be read in two ways, never slips past a denial nor into a permission.
    """

    __slots__ = ("_name", "_restricts", "_where", "pattern", "reason", "verdict", "where")

    def __init__(
        self,
        verdict: Verdict,
        pattern: str,
        where: Mapping[str, Matcher] | None = None,
        reason: str | None = None,
    ) -> None:
        self.verdict = verdict
        self._restricts = verdict is not Verdict.ALLOW
        self.pattern = pattern
        self.where = dict(where or {})
        self.reason = reason
        self._name = re.compile(fnmatch.translate(pattern)).match
        self._where = [(name.split("."), _compile(matcher)) for name, matcher in self.where.items()]

    def concerns(self, names: Iterable[str]) -> bool:
        """Whether the rule can speak about a tool known by these names."""
        return any(self._name(name) for name in names)

    def matches(self, values: Mapping[str, Any], own_names: Mapping[str, str]) -> bool:
        """Whether the arguments that the function would get are those meant.

        `own_names` are the function's names of arguments that the model sees under others.
        """
        restricts = self._restricts
        for path, match in self._where:
            value = _at(values, path, own_names)
            # A plain value can be read in one way only.
            readings = [value] if type(value) in _PLAIN else [*_readings(value)]
            held = [_holds(match, each, restricts) for each in readings]
            if not held or not (any(held) if restricts else all(held)):
                return False
        return True

    def __str__(self) -> str:
        return f"{self.verdict.value} {self.pattern!r}"

    def __repr__(self) -> str:
        where = f", where={self.where!r}" if self.where else ""
        return f"Rule({self.verdict.value} {self.pattern!r}{where})"


class Rules:
    """The rules of one toolbox, in the order they were made."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._rules: list[Rule] = []
        self._changed = changed

    def allow(self, pattern: str, where: Mapping[str, Matcher] | None = None) -> Rule:
        """Let matching calls run without asking."""
        return self._add(Rule(Verdict.ALLOW, pattern, where))

    def ask(
        self, pattern: str, where: Mapping[str, Matcher] | None = None, reason: str | None = None
    ) -> Rule:
        """Ask a person before matching calls run."""
        return self._add(Rule(Verdict.ASK, pattern, where, reason))

    def deny(
        self, pattern: str, where: Mapping[str, Matcher] | None = None, reason: str | None = None
    ) -> Rule:
        """Never let matching calls run."""
        return self._add(Rule(Verdict.DENY, pattern, where, reason))

    def remove(self, rule: Rule) -> None:
        """Take a rule back; `ValueError` if it is not here."""
        self._rules.remove(rule)
        self._changed()

    def concerning(self, names: Iterable[str]) -> list[Rule]:
        """The rules that can speak about a tool, those that count first in front."""
        known = tuple(names)
        order = list(Verdict)
        rules = [rule for rule in self._rules if rule.concerns(known)]
        return sorted(rules, key=lambda rule: order.index(rule.verdict))

    def __iter__(self) -> Any:
        return iter(tuple(self._rules))

    def __len__(self) -> int:
        return len(self._rules)

    def _add(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        self._changed()
        return rule


def _at(values: Mapping[str, Any], path: list[str], own_names: Mapping[str, str]) -> Any:
    here: Any = values.get(own_names.get(path[0], path[0]), _MISSING)
    for step in path[1:]:
        if isinstance(here, Mapping):
            here = here.get(step, _MISSING)
        else:
            here = getattr(here, step, _MISSING)
    return here


def _readings(value: Any) -> Iterable[Any]:
    """The plain values that an argument stands for: each item of a list, text for a path."""
    if value is _MISSING:
        return
    value = reveal(value)
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _readings(item)
    elif isinstance(value, Enum):
        yield value.value
    elif isinstance(value, PurePath):
        yield str(value)
    else:
        yield value


def _holds(match: Callable[[Any, bool], bool], value: Any, restricts: bool) -> bool:
    try:
        return bool(match(value, restricts))
    except Exception:
        # Other people's matcher: when it fails, the cautious answer.
        return restricts


def _compile(matcher: Matcher) -> Callable[[Any, bool], bool]:
    """A function of a value and of whether any of its readings is enough."""
    if callable(matcher):
        return lambda value, _: matcher(value)
    if isinstance(matcher, list | tuple | set | frozenset):
        parts = [_compile(part) for part in matcher]
        return lambda value, restricts: any(part(value, restricts) for part in parts)
    if isinstance(matcher, str) and "/" in matcher:
        return _path_matcher(matcher)
    if isinstance(matcher, str):
        match = re.compile(fnmatch.translate(matcher)).match
        return lambda value, _: isinstance(value, str) and bool(match(value))
    return lambda value, _: type(value) is type(matcher) and value == matcher


def _path_matcher(pattern: str) -> Callable[[Any, bool], bool]:
    """`*` stays within one folder, `**` crosses; paths are normalised before they are compared."""
    folders = _folders(_normal(pattern))
    absolute = os.path.isabs(pattern)

    def matches(value: Any, restricts: bool) -> bool:
        if not isinstance(value, str):
            return False
        across = any if restricts else all
        return across(_below(folders, path.split("/")) for path in _paths(value, absolute))

    return matches


def _folders(pattern: str) -> list[Callable[[str], Any]]:
    """What each step of a path must be. A `**` at the end stands for at least one step."""
    steps = pattern.split("/")
    if steps[-1] == "**":
        steps.append("*")
    return [_any_depth if s == "**" else re.compile(fnmatch.translate(s)).match for s in steps]


def _below(folders: list[Callable[[str], Any]], steps: list[str]) -> bool:
    """Compare step by step; only the last `**` is ever tried again, so the time is bounded."""
    at = step = resumed = 0
    crossing = -1
    while step < len(steps):
        if at < len(folders) and folders[at] is _any_depth:
            crossing, resumed = at, step
            at += 1
        elif at < len(folders) and folders[at](steps[step]):
            at, step = at + 1, step + 1
        elif crossing >= 0:
            resumed += 1
            at, step = crossing + 1, resumed
        else:
            return False
    return all(rest is _any_depth for rest in folders[at:])


def _paths(value: str, absolute: bool) -> list[str]:
    """The ways in which a tool may read a path."""
    paths = [value]
    if absolute and not _SCHEME.match(value):
        paths = [os.path.abspath(value.replace("\0", ""))]
        if value.startswith("~"):
            paths.append(os.path.expanduser(value))
    return [_normal(path) for path in paths]


def _normal(path: str) -> str:
    scheme = _SCHEME.match(path)
    start = scheme.group() if scheme else ""
    rest = os.path.normpath(path[len(start) :].replace(os.sep, "/")) if path[len(start) :] else ""
    # A leading "//" is "/" here, and normpath keeps it.
    return start + ("/" + rest.lstrip("/") if rest.startswith("/") else rest)
