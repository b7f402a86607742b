"""Merge the parts of a schema: `allOf`, references with other keywords, unions at the top."""

from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.bounded_json import MAX_DEPTH, MAX_WRAPPED, dump_json
from wieldy.core.schema.references import resolve_reference

from .schema_facts import ANNOTATIONS, properties_of, required_of, types_of

_HIGHEST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_MAX_PARTS = 200

Schema = dict[str, Any]


def fold_schema(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    lost: list[str],
    left: list[int] | None = None,
) -> Schema:
    """A schema with its `allOf` and its reference merged into it.

    Keywords that could not be merged are added to `lost`. `left` counts down the parts that
    may still be merged.
    """
    most = _MAX_PARTS if left is None else min(_MAX_PARTS, left[0])
    own = [most]
    whole = _fold_all(schema, root, lost, own)
    if left is not None:
        left[0] -= most - max(0, own[0])
    return whole


def join_schemas(first: Mapping[str, Any], second: Mapping[str, Any], lost: list[str]) -> Schema:
    """One schema with the conditions of both; conflicting keywords are added to `lost`."""
    both: Schema = dict(first)
    if _forbids_properties(first, second) or _forbids_properties(second, first):
        lost.append("additionalProperties")
    for key, value in second.items():
        if key not in both:
            both[key] = value
        elif both[key] != value and key not in ANNOTATIONS:
            combined = _combine_values(key, both[key], value)
            if combined is None:
                lost.append(key)
            else:
                both[key] = combined
    return both


def flatten_union(schema: Mapping[str, Any], root: Mapping[str, Any], lost: list[str]) -> Schema:
    """An object schema whose union at the top is replaced by the properties of all members."""
    flat = fold_schema(schema, root, lost)
    for key in ("anyOf", "oneOf"):
        members = flat.pop(key, None)
        if isinstance(members, list) and members:
            parts = [fold_schema(member, root, lost) for member in members]
            flat = _side_by_side(flat, [part for part in parts if _may_be_object(part)])
            lost.append(key)
    return flat


def distinct(schemas: Iterable[Any]) -> list[Any]:
    """The different schemas, in the order of their first occurrence."""
    found: dict[str, Any] = {}
    for each in schemas:
        found.setdefault(dump_json(each, MAX_WRAPPED, sort_keys=True, default=repr), each)
    return list(found.values())


def _fold_all(
    schema: Any, root: Mapping[str, Any], lost: list[str], left: list[int], depth: int = 0
) -> Schema:
    if not isinstance(schema, Mapping):
        return {}
    parts: list[Any] = []
    rest = {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
    if isinstance(schema.get("$ref"), str):
        parts.append(resolve_reference(schema, root))
    if isinstance(schema.get("allOf"), list):
        parts += schema["allOf"]
    for part in parts:
        # A part may refer to the whole schema, or to another part many times.
        left[0] -= 1
        if left[0] < 0 or depth >= MAX_DEPTH:
            lost.append("allOf")
            break
        rest = join_schemas(rest, _fold_all(part, root, lost, left, depth + 1), lost)
    return rest


def _combine_values(key: str, first: Any, second: Any) -> Any:
    """One value for a keyword that has two, or None."""
    try:
        if key in _HIGHEST:
            return max(first, second)
        if key in _LOWEST:
            return min(first, second)
        if key in ("properties", "$defs", "definitions"):
            return _both_maps(first, second)
        if key == "required":
            return list(dict.fromkeys([*first, *second]))
        if key == "enum":
            return [value for value in first if value in second] or None
        if key == "type":
            return _common_types(first, second)
        if key == "items":
            return {"allOf": [first, second]}
    except (TypeError, AttributeError):
        # One of the schemas is not well formed.
        pass
    return None


def _both_maps(first: Mapping[str, Any], second: Mapping[str, Any]) -> Schema:
    both = dict(first)
    for name, value in second.items():
        same = name not in both or both[name] == value
        both[name] = value if same else {"allOf": [both[name], value]}
    return both


def _common_types(first: Any, second: Any) -> Any:
    ours, theirs = types_of({"type": first}), types_of({"type": second})
    common = [kind for kind in ours if kind in theirs]
    if "integer" not in common and {"integer", "number"} <= {*ours, *theirs}:
        common.append("integer")
    return (common[0] if len(common) == 1 else common) or None


def _forbids_properties(closed: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one schema forbids properties that the other declares."""
    extra = closed.get("additionalProperties", True)
    named = properties_of(closed)
    return extra not in (True, {}) and any(name not in named for name in properties_of(other))


def _side_by_side(base: Schema, members: list[Schema]) -> Schema:
    properties: Schema = dict(properties_of(base))
    for member in members:
        for name, value in properties_of(member).items():
            known = properties.get(name)
            if known is None:
                properties[name] = value
            elif known != value:
                properties[name] = {"anyOf": [known, value]}
    everywhere = [
        name
        for name in (required_of(members[0]) if members else ())
        if all(name in required_of(member) for member in members)
    ]
    required = list(dict.fromkeys([*required_of(base), *everywhere]))
    return {**base, "type": "object", "properties": properties, "required": required}


def _may_be_object(schema: Mapping[str, Any]) -> bool:
    types = types_of(schema)
    return not types or "object" in types
