"""Make example values from a schema; they are valid if possible."""

import math
from collections.abc import Mapping
from typing import Any

from wieldy.core.schema.references import resolve_reference
from wieldy.wire.text.text_values import Schema, branch_of, kinds_of

_DEPTH = 6
# An example is for reading, so objects and lists beyond this number of parts stay empty.
_MAX_PARTS = 500
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
}
_ORDER = ("string", "integer", "number", "boolean", "array", "object", "null")


def example_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An example value for each argument; optional ones that default to None are left out."""
    return _example_members(schema, schema, 0, [_MAX_PARTS])


def _example_members(schema: Schema, root: Schema, depth: int, left: list[int]) -> dict[str, Any]:
    required = schema.get("required", ())
    members: dict[str, Any] = {}
    for name, declared in (schema.get("properties") or {}).items():
        value = _example_value(declared, name, root, depth, left)
        if name in required or (value is not None and depth < _DEPTH // 2):
            members[name] = value
    return members


def _example_value(schema: Any, name: str, root: Schema, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    schema = resolve_reference(schema, root)
    given = _given_example(schema)
    if given:
        return given[0]
    kinds = kinds_of(schema, root)
    kind = next((kind for kind in _ORDER if kind in kinds), "string")
    schema = branch_of(schema, root, kind)
    given = _given_example(schema)
    if given:
        return given[0]
    if kind in ("integer", "number"):
        return _example_number(schema, kind)
    if kind == "array":
        return _example_items(schema, name, root, depth, left)
    if kind == "object":
        deeper = depth < _DEPTH and left[0] > 0
        return _example_members(schema, root, depth + 1, left) if deeper else {}
    return {"string": _example_text(schema, name), "boolean": True}.get(kind)


def _given_example(schema: Schema) -> list[Any]:
    """An example that the schema itself gives, in a list; an empty list if it gives none."""
    for key in ("examples", "enum"):
        if schema.get(key) and isinstance(schema[key], list) and "default" not in schema:
            return [schema[key][0]]
    if "const" in schema:
        return [schema["const"]]
    # An empty list or object makes a poor example.
    return [schema["default"]] if schema.get("default", []) not in ([], {}) else []


def _example_text(schema: Schema, name: str) -> str:
    text = _FORMATS.get(str(schema.get("format")), f"your_{name}_here")
    text = text.ljust(schema.get("minLength", 0), "x")
    longest = schema.get("maxLength")
    return text if longest is None else text[:longest]


def _example_number(schema: Schema, kind: str) -> int | float:
    step = schema.get("multipleOf", 1)
    low = max(schema.get("minimum", -math.inf), _nearest_allowed(schema, "exclusiveMinimum", step))
    high = min(schema.get("maximum", math.inf), -_nearest_allowed(schema, "exclusiveMaximum", step))
    value = min(max(step, low), high)
    if step and value % step:
        value = math.ceil(value / step) * step
    return int(value) if kind == "integer" or float(value).is_integer() else value


def _nearest_allowed(schema: Schema, key: str, step: float) -> float:
    """The nearest allowed number, counted from below for a minimum, negated for a maximum."""
    if key not in schema:
        return -math.inf
    limit: float = schema[key] if key == "exclusiveMinimum" else -schema[key]
    return limit + min(step, 1)


def _example_items(
    schema: Schema, name: str, root: Schema, depth: int, left: list[int]
) -> list[Any]:
    first = list(schema.get("prefixItems", ()))
    wanted = max(schema.get("minItems", 0), len(first) or 1)
    wanted = min(wanted, schema.get("maxItems", wanted), 20)
    if depth >= _DEPTH or left[0] <= 0:
        return []
    rest = [schema.get("items", {})] * (wanted - len(first))
    return [_example_value(item, name, root, depth + 1, left) for item in [*first, *rest][:wanted]]
