"""One byte string per value, so that equal definitions and arguments have equal digests."""

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from .bounded_json import MAX_WRAPPED, NestedTooDeep, check_depth, copy_json
from .secrets.secret import is_secret


def plain_json(value: Any, name: str) -> Any:
    """Copy the value as plain JSON, or raise an error that says why that is not possible."""
    try:
        return copy_json(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be JSON ({error})") from None


# Modules of types whose `repr` is complete, so that it can stand for the value.
_TELLING = ("builtins", "datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid")
# Python refuses to write longer numbers in decimal.
_MAX_BITS = 10_000
_PLAIN = frozenset({type(None), bool, float, str})


def digest_of(value: Any) -> str:
    """A SHA-256 over the value's canonical form; `True`, `1` and `1.0` differ."""
    # Loaded at the first digest, to keep `import wieldy` light.
    import hashlib  # noqa: PLC0415

    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys. Other values are written as their type and their content.

    An object whose content is not known is equal only to itself.
    """
    # This also refuses a value that contains itself.
    check_depth(value, MAX_WRAPPED)
    try:
        tagged = _tag_value(value)
    except RecursionError:
        # An object may hold itself in an attribute that it does not declare.
        raise NestedTooDeep(MAX_WRAPPED) from None
    # The tags make it a little deeper than the value is.
    return json.dumps(tagged, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _tag_value(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    # Most containers are lists and dicts, and their plain items are passed over here.
    if kind is list:
        return [each if type(each) in _PLAIN else _tag_value(each) for each in value]
    if kind is int:
        return value if value.bit_length() <= _MAX_BITS else {"!": hex(value)}
    if isinstance(value, int | float | str):
        return {"!": f"{kind.__qualname__}:{value!r}"}
    if isinstance(value, Mapping):
        return {_tagged_key(key): _tag_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tag_value(item) for item in value]
    return {"!": kind.__qualname__, "holds": _tag_value(_held_value(value))}


def _held_value(value: Any) -> Any:
    if is_secret(value):
        return value.get_secret_value()
    if hasattr(value, "__pydantic_fields_set__") or is_dataclass(value):
        slots = {field: getattr(value, field, None) for field in getattr(value, "__slots__", ())}
        return {**slots, **getattr(value, "__dict__", {})}
    if isinstance(value, set | frozenset):
        return sorted(map(canonical_json, value))
    told = isinstance(value, Enum) or type(value).__module__ in _TELLING
    return repr(value) if told else id(value)


def _tagged_key(key: Any) -> str:
    """A key with its type, because JSON would merge the keys 1 and "1"."""
    if type(key) is str and not key.startswith("!"):
        return key
    return f"!{type(key).__qualname__}:{key!r}"
