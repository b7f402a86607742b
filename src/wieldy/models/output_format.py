"""Convert a schema of the answer to the format of each provider that can enforce one."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypeIs

from wieldy.wire.schema.lowering import lower_schema

_NAME = "answer"


def openai_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema with its name, as `json_schema` wants it.

    It is strict where the answer then has the very shape that was asked for. Strict
    schemas know no optional fields and no free objects; such a schema is only a hint.
    """
    if not _is_object(schema):
        return None
    strict = lower_schema(schema, "openai", strict=True)
    if strict.strict and not strict.changes:
        return {"name": _NAME, "schema": strict.schema, "strict": True}
    return {"name": _NAME, "schema": lower_schema(schema, "openai").schema, "strict": False}


def anthropic_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema for Anthropic, which is always strict; one that would change is left out."""
    if not _is_object(schema):
        return None
    lowered = lower_schema(schema, "anthropic", strict=True)
    return lowered.schema if lowered.strict and not lowered.changes else None


def gemini_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema for Gemini, less what it does not know."""
    return lower_schema(schema, "gemini").schema if _is_object(schema) else None


def _is_object(schema: Mapping[str, Any] | None) -> TypeIs[Mapping[str, Any]]:
    return schema is not None and schema.get("type") == "object"
