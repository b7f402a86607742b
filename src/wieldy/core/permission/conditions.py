"""Compare the arguments that a function would get with the conditions of a rule.

Every matcher gets each reading of an argument, and whether the rule restricts. A value that
can't be read matches a rule that restricts, and does not match a rule that allows.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from .argument_reach import LISTS, UNREADABLE

Matcher = str | int | float | bool | None | re.Pattern[str] | Sequence[Any] | Callable[[Any], bool]
Match = Callable[[Any, bool], bool]


def reading_matches(match: Match, value: Any, restricts: bool) -> bool:
    """Whether one reading matches; an error never permits a call."""
    if value is UNREADABLE:
        return restricts
    try:
        return bool(match(value, restricts))
    except Exception:
        # The matcher is other people's code, or the value can't be compared.
        return restricts


def compile_matcher(matcher: Matcher) -> Match:
    """A function of a reading and of whether the rule restricts."""
    if callable(matcher):
        return lambda value, _: matcher(value)
    if isinstance(matcher, LISTS):
        parts = [compile_matcher(part) for part in matcher]
        return lambda value, restricts: any(part(value, restricts) for part in parts)
    if isinstance(matcher, re.Pattern | str):
        # Most toolboxes have no condition on a text, and patterns take time to load.
        from .text_conditions import compile_text_matcher  # noqa: PLC0415

        return compile_text_matcher(matcher)
    if matcher is None or isinstance(matcher, bool):
        return lambda value, _: value is matcher
    return lambda value, _: not isinstance(value, bool | str) and bool(value == matcher)
