"""Estimate how much memory a value holds, to bound what is kept."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

# The size that is assumed for a value that raises when it is read.
_UNKNOWN = sys.maxsize


def held_bytes(value: Any, most: int) -> int:
    """Estimate the bytes that a value holds; counting stops at more than `most`.

    Containers, dataclasses, models, blocks and errors are counted with their content. Any
    other object counts with its own size.
    """
    total, seen = 0, set[int]()
    rest = [value]
    try:
        while rest:
            each = rest.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            total += sys.getsizeof(each, 0)
            if total > most:
                break
            rest.extend(_inner_values(each))
    except Exception:
        # The value is other people's code, and may raise anything when it is read.
        return _UNKNOWN
    return total


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, str | bytes | bytearray | memoryview | int | float):
        return ()
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, BaseException):
        return (*value.args, *vars(value).values())
    return _field_values(value)


def _field_values(value: Any) -> Iterable[Any]:
    kind = type(value)
    is_data = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__")
    slots = [name for each in kind.__mro__ for name in _slot_names(each)]
    if not is_data and not slots:
        return ()
    held = [getattr(value, name, None) for name in slots]
    return (*held, *getattr(value, "__dict__", {}).values())


def _slot_names(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
