"""Standing rules: which calls are allowed, asked about or denied, by name and arguments."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from .matching import PLAIN, Matcher, compile_matcher, holds, readings


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
        self._where = [
            (name.split("."), compile_matcher(matcher)) for name, matcher in self.where.items()
        ]

    def concerns(self, names: Iterable[str]) -> bool:
        """Whether the rule can speak about a tool known by these names."""
        return any(self._name(name) for name in names)

    def matches(self, values: Mapping[str, Any], own_names: Mapping[str, str]) -> bool:
        """Whether the arguments that the function would get are those meant.

        `own_names` are the function's names of arguments that the model sees under others.
        """
        restricts = self._restricts
        for (first, *rest), match in self._where:
            first = own_names.get(first, first)
            value = values.get(first)
            if not rest and type(value) in PLAIN and first in values:
                # A plain value can be read in one way only.
                held = [holds(match, value, restricts)]
            else:
                found = readings(values, (first, *rest))
                held = [holds(match, each, restricts) for each in found]
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
        # Counts the changes, for whoever has worked something out from the rules before.
        self.edition = 0

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
        self.edition += 1
        self._changed()

    def concerning(self, names: Iterable[str]) -> list[Rule]:
        """The rules that can speak about a tool, those that count first in front."""
        known = tuple(names)
        order = list(Verdict)
        rules = [rule for rule in self._rules if rule.concerns(known)]
        return sorted(rules, key=lambda rule: order.index(rule.verdict))

    def __iter__(self) -> Iterator[Rule]:
        return iter(tuple(self._rules))

    def __len__(self) -> int:
        return len(self._rules)

    def _add(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        self.edition += 1
        self._changed()
        return rule
