"""Convert scalars that were sent as strings, where that loses nothing."""

import math
import numbers
from collections.abc import Callable
from typing import Any

from wieldy.core.bounded_json import parse_json

UNCHANGED: Any = object()
_LONGEST_SCALAR = 400
_MOST_EXACT = 2**53


def convert_value(value: Any, kind: str) -> Any:
    """The value as this JSON type if that loses nothing, else `UNCHANGED`."""
    conversion = _CONVERSIONS.get(kind)
    if conversion is None or (isinstance(value, str) and len(value) > _LONGEST_SCALAR):
        return UNCHANGED
    return conversion(value)


def _to_integer(value: Any) -> Any:
    if isinstance(value, bool):
        return UNCHANGED
    if isinstance(value, numbers.Integral):
        return int(value)
    number = value if isinstance(value, float) else _to_number(value)
    if isinstance(number, float):
        exact = number.is_integer() and abs(number) <= _MOST_EXACT
        return int(number) if exact else UNCHANGED
    return number


def _to_number(value: Any) -> Any:
    if isinstance(value, numbers.Real) and not isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return UNCHANGED
    try:
        number = parse_json(value.strip().removeprefix("+"))
    except ValueError:
        return UNCHANGED
    if isinstance(number, bool) or not isinstance(number, int | float):
        return UNCHANGED
    return UNCHANGED if isinstance(number, float) and not math.isfinite(number) else number


def _to_boolean(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), UNCHANGED)
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else UNCHANGED


def _to_null(value: Any) -> Any:
    is_text = isinstance(value, str) and value.strip().lower() in ("null", "none")
    return None if is_text else UNCHANGED


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "null": _to_null,
}
