"""How long, how often and how many at once a tool may run."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from wieldy.core.call import Scope
from wieldy.core.choices import Isolation
from wieldy.core.schema.annotations import signature_of

ISOLATIONS = get_args(Isolation)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?b|b)", re.IGNORECASE | re.ASCII)
_UNITS = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
_SECONDS = {
    **dict.fromkeys(("s", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86400.0),
}

LimitKey = Callable[[Mapping[str, Any]], Any] | Callable[[Mapping[str, Any], Scope], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on a tool's calls. Everything is off unless set.

    Attributes:
        timeout: Seconds that one attempt may take, counted from when it has a free slot.
        retries: Attempts after the first. Only tools that are read-only or idempotent are
            tried again, unless `retry_unsafe` is set.
        retry_unsafe: Whether other tools are tried again too. A call whose process was killed
            is not.
        concurrency: How many calls may run at once; with `key`, how many for each key.
        key: A function from the arguments to a key for `concurrency`. One with two parameters
            gets `(arguments, scope)`.
        exclusive: Whether no other tool of the toolbox runs meanwhile.
        rate: Starts per time: `"10/s"`, `"100/m"`, `"5/h"`, or `(count, seconds)`.
        cache: Seconds for which the result of a read-only tool is kept and reused.
        isolation: Where the function runs; sync functions default to a thread.
        memory: Bytes, or text such as `"512MB"`, that the process of a call and all that it
            starts may hold; needs `isolation="process"`.
        max_result: The number of characters after which a result is cut, for programs too.
            Without it only what models and clients read is cut, as the toolbox says; 0 is for
            a result of which they read all.

    Raises:
        ValueError: A limit has a value that it can't have.

    Example:
        `box.add(search, limits=Limits(timeout=10, retries=2, rate="10/s"))`
    """

    timeout: float | None = None
    retries: int = 0
    retry_unsafe: bool = False
    concurrency: int | None = None
    key: LimitKey | None = None
    exclusive: bool = False
    rate: str | tuple[int, float] | None = None
    cache: float | None = None
    isolation: Isolation | None = None
    memory: int | str | None = None
    max_result: int | None = None

    def __post_init__(self) -> None:
        for name in ("timeout", "cache", "concurrency"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise ValueError(f"Limits: {name} must be a positive number, not {value!r}")
        for name in ("concurrency", "max_result", "retries"):
            value = getattr(self, name) or 0
            if not _is_whole(value):
                raise ValueError(f"Limits: {name} must be whole, not {value!r}")
            if value < 0:
                raise ValueError(f"Limits: {name} must be 0 or more, not {value!r}")
        if self.key is not None and self.concurrency is None:
            raise ValueError("Limits: key needs concurrency, the number allowed for each key")
        if self.key is not None:
            takes_scope(self.key)
        if self.isolation is not None and self.isolation not in ISOLATIONS:
            raise ValueError(
                f"Limits: isolation must be one of {', '.join(ISOLATIONS)}, not {self.isolation!r}"
            )
        if self.rate is not None:
            parse_rate(self.rate)
        _check_memory(self)


def parse_rate(rate: str | tuple[int, float]) -> tuple[int, float]:
    """Read a rate as (count, seconds)."""
    try:
        if isinstance(rate, str):
            number, _, unit = rate.partition("/")
            count, seconds = int(number), _SECONDS[unit.strip()]
        else:
            count, seconds = rate
    except (KeyError, TypeError, ValueError):
        count, seconds = 0, 0.0
    if not _is_whole(count) or count < 1 or not _is_number(seconds) or seconds <= 0:
        raise ValueError(f'Limits: rate must be like "10/s", "100/m" or (10, 1.0), not {rate!r}')
    return count, seconds


def takes_scope(key: LimitKey) -> bool:
    """Whether a key function takes `(arguments, scope)`, and not the arguments alone."""
    if not callable(key):
        raise ValueError(f"Limits: key is a function of the arguments, not {key!r}")
    try:
        every = signature_of(key).parameters.values()
    except Exception:
        # Some of what is built in does not say, and annotations may raise anything.
        return False
    taken = [each for each in every if each.kind in _BY_PLACE]
    needed = [each for each in taken if each.default is each.empty]
    if len(needed) > 2:
        raise ValueError("Limits: key is a function of (arguments) or of (arguments, scope)")
    return len(needed) == 2 or "scope" in [each.name for each in taken[1:]]


def parse_size(size: int | str) -> int:
    """A size in bytes, from a number or from text such as "512MB" or "1.5 GiB"."""
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is not None:
        size = int(float(found[1]) * _UNITS[found[2].lower()])
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f'Limits: memory must be bytes or text like "512MB", not {size!r}')
    return size


def _check_memory(limits: Limits) -> None:
    if limits.memory is not None and parse_size(limits.memory) and limits.isolation != "process":
        raise ValueError('Limits: memory needs isolation="process", which can be killed')


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


NO_LIMITS = Limits()
