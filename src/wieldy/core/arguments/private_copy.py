"""Copies that nobody else holds: what was judged must be what the function gets."""

import copy
from collections import deque
from collections.abc import Mapping, MutableMapping
from dataclasses import is_dataclass
from typing import Any

_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def private_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments apart from the caller, who may go on changing what it sent."""
    copied = dict(arguments)
    for name, value in arguments.items():
        if type(value) not in _SCALARS:
            copied[name] = private_copy(value)
    return copied


def private_copy(value: Any) -> Any:
    """A copy of containers, models and dataclasses, and of all such things in them.

    Other objects stay themselves: they are the program's own, and so is what can't be copied.
    """
    try:
        return _copied(value)
    except Exception:
        # Other people's classes, or data that holds itself, or is nested very deeply.
        try:
            return copy.deepcopy(value)
        except Exception:
            return value


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {name: _copied(item) for name, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    if hasattr(kind, "model_fields") or is_dataclass(kind):
        return _copied_fields(value)
    return _copied_container(value)


def _copied_container(value: Any) -> Any:
    other: Any
    if isinstance(value, MutableMapping):
        other = copy.copy(value)
        other.update({name: _copied(item) for name, item in value.items()})
        return other
    if isinstance(value, tuple):
        items = [_copied(item) for item in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, list | deque):
        other = copy.copy(value)
        other.clear()
        other.extend(_copied(item) for item in value)
        return other
    # What is in a set can be looked up, so it does not change.
    return copy.copy(value) if isinstance(value, set | bytearray) else value


def _copied_fields(value: Any) -> Any:
    """A model or a dataclass, also one that is frozen or has slots."""
    other = copy.copy(value)
    declared = getattr(type(value), "model_fields", None)
    for name in type(value).__dataclass_fields__ if declared is None else declared:
        if hasattr(value, name):
            object.__setattr__(other, name, _copied(getattr(value, name)))
    extra = getattr(value, "__pydantic_extra__", None)
    if extra:
        object.__setattr__(other, "__pydantic_extra__", _copied(extra))
    return other
