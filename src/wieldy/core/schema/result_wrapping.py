"""Wrap output schemas of values that are not objects, as MCP requires.

Structured content is an object. FastMCP puts any other value under `result` and marks
the schema, so that a reader can take the value out again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .references import DEFINITIONS, split_reference, write_reference

WRAP_MARK = "x-fastmcp-wrap-result"
_INSIDE = ["properties", "result"]


def is_wrapped(schema: Mapping[str, Any] | None) -> bool:
    """Whether a schema describes a wrapped value."""
    if schema is None or schema.get(WRAP_MARK) is not True:
        return False
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and "result" in properties


def wrapped_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object that has the value under `result`."""
    inner, shared = dict(schema), {}
    # A schema with an `$id` is a document of its own, so its references stay as they are.
    if "$id" not in inner:
        inner = _with_references(inner, _wrap_reference)
        shared = {key: inner.pop(key) for key in DEFINITIONS if key in inner}
    return {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
        WRAP_MARK: True,
        **shared,
    }


def inner_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema of the wrapped value; None if it can't be separated."""
    inner = schema["properties"]["result"]
    if not isinstance(inner, Mapping):
        return None
    shared = {key: schema[key] for key in DEFINITIONS if key in schema}
    try:
        return _with_references({**shared, **inner}, _out_of) or None
    except LookupError:
        return None


def _wrap_reference(reference: str) -> str:
    names = split_reference(reference)
    return reference if _is_shared(names) else write_reference(*_INSIDE, *names)


def _out_of(reference: str) -> str:
    names = split_reference(reference)
    if _is_shared(names):
        return reference
    if names[:2] != _INSIDE:
        raise LookupError(reference)
    return write_reference(*names[2:])


def _is_shared(names: list[str]) -> bool:
    return len(names) > 1 and names[0] in DEFINITIONS


def _with_references(schema: Any, change: Callable[[str], str]) -> Any:
    """The schema with each reference to a place in its own document changed."""
    if isinstance(schema, list):
        return [_with_references(item, change) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {key: _with_references(value, change) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        made["$ref"] = change(reference)
    return made
