"""One byte string per value, so that equal definitions and arguments have equal digests."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Python refuses to write longer numbers in decimal.
_MOST_BITS = 10_000


def digest(value: Any) -> str:
    """A SHA-256 over the value's canonical form; `True`, `1` and `1.0` differ."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys; what JSON does not know stands as its type and `repr`."""
    return json.dumps(_tagged(value, ()), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _tagged(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        plain = type(value) in (type(None), bool, int, float, str)
        if type(value) is int and value.bit_length() > _MOST_BITS:
            return {"!": hex(value)}
        return value if plain else {"!": f"{type(value).__qualname__}:{value!r}"}
    if id(value) in above:
        return {"!": "itself"}
    path = (*above, id(value))
    if isinstance(value, Mapping):
        return {_key(key): _tagged(item, path) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tagged(item, path) for item in value]
    return {"!": f"{type(value).__qualname__}:{value!r}"}


def _key(key: Any) -> str:
    """A key that keeps its type: JSON would make 1 and "1" one key."""
    if type(key) is str and not key.startswith("!"):
        return key
    return f"!{type(key).__qualname__}:{key!r}"
