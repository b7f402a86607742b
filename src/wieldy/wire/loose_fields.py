"""Read what providers send, as dicts or as their SDKs' objects, without trusting its shape."""

from collections.abc import Mapping
from typing import Any

_PLAIN = (str, bytes, int, float, list, tuple, type(None))


def get_field(thing: Any, *names: str) -> Any:
    """The first of these fields that is there and is not None."""
    if isinstance(thing, _PLAIN):
        return None
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return None


def as_list(value: Any) -> list[Any]:
    """A list, also where none was sent."""
    return list(value) if isinstance(value, list | tuple) else []


def as_text(value: Any) -> str:
    """Text, also where none was sent. A member of an enumeration is its value."""
    value = getattr(value, "value", value)
    return value if isinstance(value, str) else ""


def as_number(value: Any) -> int | None:
    """A whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
