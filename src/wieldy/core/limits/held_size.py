"""How much memory a value holds, so that what is remembered is bounded by that."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

# What is counted for a value that raises when it is looked at.
_UNKNOWN = sys.maxsize


def held_bytes(value: Any, most: int) -> int:
    """About how many bytes a value holds; counting ends as soon as it is more than `most`.

    Data is looked into: containers, dataclasses, models, blocks and errors. Any other
    object counts as what it says of itself.
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
            rest.extend(_parts(each))
    except Exception:
        # Other people's values, which may raise anything when they are looked at.
        return _UNKNOWN
    return total


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, str | bytes | bytearray | memoryview | int | float):
        return ()
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, BaseException):
        return (*value.args, *vars(value).values())
    return _fields(value)


def _fields(value: Any) -> Iterable[Any]:
    kind = type(value)
    is_data = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__")
    slots = [name for each in kind.__mro__ for name in _slots(each)]
    if not is_data and not slots:
        return ()
    held = [getattr(value, name, None) for name in slots]
    return (*held, *getattr(value, "__dict__", {}).values())


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
