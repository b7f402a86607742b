"""Convert arguments described as `{name: (type, description)}` to a JSON Schema."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from wieldy.core.schema.annotations import signature_of
from wieldy.core.schema.json_schema import output_schema

_JSON_TYPES = frozenset(("string", "integer", "number", "boolean", "array", "object", "null"))


def kwargs_schema(kwargs: Mapping[str, Any], func: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of such a description, for models that need one."""
    properties = {name: _property_schema(form) for name, form in kwargs.items() if name != "<*>"}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    try:
        listed = signature_of(func).parameters
    except (TypeError, ValueError):
        return schema
    empty = inspect.Parameter.empty
    needed = [name for name in properties if name in listed and listed[name].default is empty]
    return {**schema, "required": needed} if needed else schema


def _property_schema(form: Any) -> dict[str, Any]:
    kind, text = (form[0], form[1] if len(form) > 1 else "") if _is_pair(form) else (form, "")
    found: dict[str, Any] = {}
    if isinstance(kind, str):
        found = {"type": kind} if kind in _JSON_TYPES else {}
        text = "; ".join(filter(None, (text, "" if found else kind)))
    elif kind not in (Any, inspect.Parameter.empty):
        try:
            found = output_schema(kind) or {}
        except Exception:
            # A type that JSON Schema can't express is described only in words.
            found = {}
    return {**found, "description": text} if text else found


def _is_pair(form: Any) -> bool:
    return isinstance(form, tuple | list) and len(form) > 0
