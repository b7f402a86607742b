"""Compare the arguments that a function would get with the conditions of a rule.

Every matcher gets each reading of an argument, and whether the rule restricts. A value that
can't be read matches a rule that restricts, and does not match a rule that allows. So does a value
that can't be compared, such as a number with a text, unless another reading can.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any, TypeGuard

from .argument_reach import LISTS, UNREADABLE

Matcher = str | int | float | bool | None | re.Pattern[str] | Sequence[Any] | Callable[[Any], bool]
# None stands for values that can't be compared.
Match = Callable[[Any, bool], bool | None]


def reading_matches(match: Match, value: Any, restricts: bool) -> bool | None:
    """Whether one reading matches, or None if it can't be compared; an error permits nothing."""
    if value is UNREADABLE:
        return restricts
    try:
        found = match(value, restricts)
        return None if found is None else bool(found)
    except Exception:
        # The matcher is other people's code, or the value can't be compared.
        return restricts


def readings_match(found: Sequence[bool | None], restricts: bool) -> bool:
    """Whether an argument matches, by what its readings say."""
    if not found:
        return False
    return _any_match(found) is not False if restricts else all(found)


def _any_match(found: Iterable[bool | None]) -> bool | None:
    """Whether one of them matches; None if none of them can be compared."""
    said = set(found)
    return True if True in said else False if False in said else None


def compile_matcher(matcher: Matcher) -> Match:
    """A function of a reading and of whether the rule restricts; `TypeError` for anything else."""
    if callable(matcher):
        return lambda value, _: bool(matcher(value))
    if isinstance(matcher, LISTS) and matcher:
        parts = [compile_matcher(part) for part in matcher]
        return lambda value, restricts: _any_match(part(value, restricts) for part in parts)
    if isinstance(matcher, str) or _is_text_pattern(matcher):
        # Most toolboxes have no condition on a text, and patterns take time to load.
        from .text_conditions import compile_text_matcher  # noqa: PLC0415

        return compile_text_matcher(matcher)
    if matcher is None:
        return lambda value, _: value is None
    if isinstance(matcher, bool):
        return lambda value, _: value is matcher if value is None or type(value) is bool else None
    if isinstance(matcher, int | float) and matcher == matcher:
        return lambda value, _: _equal_numbers(value, matcher)
    raise TypeError(
        "a condition on an argument is a text, a number, true or false, null, a pattern, a "
        f"function or a list of these, not {matcher!r:.200}"
    )


def _is_text_pattern(matcher: Any) -> TypeGuard[re.Pattern[str]]:
    return isinstance(matcher, re.Pattern) and isinstance(matcher.pattern, str)


def _equal_numbers(value: Any, wanted: float) -> bool | None:
    if value is None:
        return False
    known: Any = value
    return None if isinstance(value, bool) or not isinstance(value, Number) else known == wanted
