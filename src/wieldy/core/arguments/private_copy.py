"""Private copies of arguments: the function must get exactly what was judged."""

import copy
from collections import deque
from collections.abc import Mapping, MutableMapping
from dataclasses import is_dataclass
from typing import Any

_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def private_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A private copy of the arguments; the caller may go on changing what it sent."""
    copied = dict(arguments)
    for name, value in arguments.items():
        if type(value) not in _SCALARS:
            copied[name] = private_copy(value)
    return copied


def private_copy(value: Any) -> Any:
    """A deep copy of containers, models and dataclasses.

    Other objects belong to the program and are shared, and so are those that can't be copied.
    """
    try:
        return _copy_value(value)
    except Exception:
        # The value has classes of other people, contains itself, or is nested very deeply.
        try:
            return copy.deepcopy(value)
        except Exception:
            return value


def _copy_value(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {name: _copy_value(item) for name, item in value.items()}
    if kind is list:
        return [_copy_value(item) for item in value]
    if hasattr(kind, "model_fields") or is_dataclass(kind):
        return _copied_fields(value)
    return _copied_container(value)


def _copied_container(value: Any) -> Any:
    other: Any
    if isinstance(value, MutableMapping):
        other = copy.copy(value)
        other.update({name: _copy_value(item) for name, item in value.items()})
        return other
    if isinstance(value, tuple):
        items = [_copy_value(item) for item in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, list | deque):
        other = copy.copy(value)
        other.clear()
        other.extend(_copy_value(item) for item in value)
        return other
    # The items of a set are hashable and don't change, so copying the set is enough.
    return copy.copy(value) if isinstance(value, set | bytearray) else value


def _copied_fields(value: Any) -> Any:
    """A copy of a model or a dataclass, which may be frozen or have slots."""
    other = copy.copy(value)
    declared = getattr(type(value), "model_fields", None)
    for name in type(value).__dataclass_fields__ if declared is None else declared:
        if hasattr(value, name):
            object.__setattr__(other, name, _copy_value(getattr(value, name)))
    extra = getattr(value, "__pydantic_extra__", None)
    if extra:
        object.__setattr__(other, "__pydantic_extra__", _copy_value(extra))
    return other
