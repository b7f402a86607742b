"""Read fields of providers' data, dicts or SDK objects, without trusting its shape."""

from collections.abc import Mapping
from typing import Any

_PLAIN = (str, bytes, int, float, list, tuple, type(None))


def get_field(thing: Any, *names: str) -> Any:
    """The first of these fields that exists and is not None, else None."""
    if isinstance(thing, _PLAIN):
        return None
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return None


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return list(value) if isinstance(value, list | tuple) else []


def as_text(value: Any) -> str:
    """The value if it is text, else an empty string. An enum member stands for its value."""
    value = getattr(value, "value", value)
    return value if isinstance(value, str) else ""


def as_number(value: Any) -> int | None:
    """The value if it is an integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
