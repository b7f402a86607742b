"""Our own keywords for checks that a validator does not bound: patterns, uniqueness, places.

Most patterns are matched in one pass. A pattern with lookaround or backreferences is tried
again from each character of a text, so it is applied only to short texts, and its work is
counted.
"""

import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from .schema_graph import Node, SchemaRefused

PLACE, PATTERN = "x-wieldy-place", "x-wieldy-pattern"
_MAX_MATCHED = 1_000
_WORK_PER_CHARACTER = 100
_MAX_BACKTRACKS = 10_000
# The sizes of compiled patterns, in bytes.
_MAX_PATTERN = 1_000_000
_SMALL_PATTERN = 50_000
_MAX_LARGE_PATTERNS = 50


class CheckState(Protocol):
    """The state of a check: the results of other places, and how much work is left."""

    def recall(self, place: int, value: Any) -> bool:
        """The result of a place for a value."""

    def spend(self, work: int) -> bool:
        """Count work; returns whether any is left."""


def own_keywords(now: threading.local) -> dict[str, Any]:
    """The keywords for the validators of one schema; `now.asking` is each thread's check."""

    class Place:
        def __init__(self, parent: Any, value: int, path: Any) -> None:
            self.place = value

        def validate(self, instance: Any) -> None:
            if not now.asking.recall(self.place, instance):
                raise ValueError("it does not fit")

    class Pattern:
        def __init__(self, parent: Any, value: str, path: Any) -> None:
            self.value = value

        def validate(self, instance: Any) -> None:
            if isinstance(instance, str) and not matches(now.asking, self.value, instance):
                raise ValueError(f'it does not match "{self.value}"')

    return {PLACE: Place, PATTERN: Pattern, **UNIQUE}


@lru_cache(maxsize=4096)
def is_linear(pattern: str) -> bool:
    """Whether a pattern can be matched in one pass."""
    return _compiles_within(pattern, _MAX_PATTERN)


@lru_cache(maxsize=4096)
def is_pattern(pattern: str) -> bool:
    """Whether a pattern can be used at all."""
    return is_linear(pattern) or _make_matcher(pattern) is not None


def check_patterns(parts: Iterable[Node]) -> None:
    """Raise `SchemaRefused` if the patterns of a schema are too large together."""
    found = {part["pattern"] for part in parts if isinstance(part.get("pattern"), str)}
    for part in parts:
        named = part.get("patternProperties")
        found |= {*named} if isinstance(named, Mapping) else set()
    # A short pattern without counted repetitions is small.
    large = [
        p for p in found if ("{" in p or len(p) > 500) and not _compiles_within(p, _SMALL_PATTERN)
    ]
    if len(large) > _MAX_LARGE_PATTERNS:
        raise SchemaRefused(f"it has more than {_MAX_LARGE_PATTERNS} large patterns")


def pattern_options() -> Any:
    """The options for patterns that a validator matches itself."""
    # Loaded at the first foreign schema, to keep `import wieldy` light.
    import jsonschema_rs  # noqa: PLC0415

    return jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS, size_limit=_MAX_PATTERN)


def matches(asking: CheckState, pattern: str, text: str) -> bool:
    """Whether a text matches a pattern; a text that is too long for its pattern does not."""
    matcher = _make_matcher(pattern)
    if matcher is None:
        return False
    if is_linear(pattern):
        return bool(matcher.is_valid(text))
    if len(text) > _MAX_MATCHED or not asking.spend(_WORK_PER_CHARACTER * len(text)):
        return False
    return bool(matcher.is_valid(text))


@lru_cache(maxsize=1024)
def _make_matcher(pattern: str) -> Any:
    # Loaded at the first foreign schema, to keep `import wieldy` light.
    import jsonschema_rs  # noqa: PLC0415

    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=pattern_options())
    except ValueError:
        return None


def _compiles_within(pattern: str, size: int) -> bool:
    # Loaded at the first foreign schema, to keep `import wieldy` light.
    import jsonschema_rs  # noqa: PLC0415

    options = jsonschema_rs.RegexOptions(size_limit=size)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True


class _Unique:
    """`uniqueItems`, without comparing each item with each other one."""

    def __init__(self, parent: Any, value: Any, path: Any) -> None:
        self.wanted = value is True

    def validate(self, instance: Any) -> None:
        if not self.wanted or not isinstance(instance, list | tuple):
            return
        if len({_freeze_value(item) for item in instance}) < len(instance):
            raise ValueError("it has non-unique elements")


def _freeze_value(value: Any) -> Any:
    """A form that is equal for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, list | tuple):
        return list, tuple(map(_freeze_value, value))
    if isinstance(value, Mapping):
        return dict, frozenset((name, _freeze_value(item)) for name, item in value.items())
    return (bool, value) if isinstance(value, bool) else value


UNIQUE: dict[str, Any] = {"uniqueItems": _Unique}
