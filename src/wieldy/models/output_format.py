"""Convert a schema of the answer to the format of each provider that can enforce one."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypeIs

from wieldy.wire.schema.lowering import lower_schema

_NAME = "answer"


def openai_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema with a name, in the form of OpenAI's `json_schema` option.

    It is strict if strict mode leaves the schema unchanged. Strict schemas can't have optional
    fields or free-form objects, so a schema with either is only a hint to the model.
    """
    if not _is_object(schema):
        return None
    strict = lower_schema(schema, "openai", strict=True)
    if strict.strict and not strict.changes:
        return {"name": _NAME, "schema": strict.schema, "strict": True}
    return {"name": _NAME, "schema": lower_schema(schema, "openai").schema, "strict": False}


def anthropic_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema for Anthropic; None if Anthropic's strict mode would change it."""
    if not _is_object(schema):
        return None
    lowered = lower_schema(schema, "anthropic", strict=True)
    return lowered.schema if lowered.strict and not lowered.changes else None


def gemini_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema for Gemini, without the keywords that Gemini does not support."""
    return lower_schema(schema, "gemini").schema if _is_object(schema) else None


def _is_object(schema: Mapping[str, Any] | None) -> TypeIs[Mapping[str, Any]]:
    return schema is not None and schema.get("type") == "object"
