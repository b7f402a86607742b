"""Check schemas against the size limits of providers."""

from collections.abc import Mapping
from typing import Any

from wieldy.core.bounded_json import MAX_DEPTH
from wieldy.core.schema.references import find_part

from .schema_facts import inner_schemas, walk_schemas

MAX_TOOLS = {"openai": 128, "openai-responses": 128, "gemini": 128, "gemini-openapi": 128}

_MAX_PROPERTIES = 5000
_MAX_LEVELS = 10
_MAX_CHOICES = 1000
_MAX_CHARACTERS = 120_000
_LONG_ENUM = 250
_LONG_ENUM_CHARACTERS = 15_000

_STRICT_TOOLS = 20
_OPTIONAL_PARAMETERS = 24
_UNION_PARAMETERS = 16


def openai_strict_faults(schema: Mapping[str, Any]) -> list[str]:
    """The limits of OpenAI that a strict schema exceeds, as phrases."""
    nodes = list(walk_schemas(schema))
    names = [name for node in nodes for name in node.get("properties") or ()]
    choices = [value for node in nodes for value in node.get("enum") or ()]
    text = sum(map(len, names)) + sum(len(each) for each in choices if isinstance(each, str))
    text += sum(map(len, schema.get("$defs") or ()))
    measured = [
        ("properties", len(names), _MAX_PROPERTIES),
        ("levels of nesting", _count_levels(schema), _MAX_LEVELS),
        ("enum values", len(choices), _MAX_CHOICES),
        ("characters in names and choices", text, _MAX_CHARACTERS),
        ("characters in one long enum", _longest_enum(nodes), _LONG_ENUM_CHARACTERS),
    ]
    return [f"{size} {what}, at most {most}" for what, size, most in measured if size > most]


class AnthropicBudget:
    """The remainder of Anthropic's limits for the strict tools of one request."""

    def __init__(self) -> None:
        self._left = [_STRICT_TOOLS, _OPTIONAL_PARAMETERS, _UNION_PARAMETERS]

    def take(self, schema: Mapping[str, Any]) -> bool:
        """Count one more strict tool if it fits, and say whether it does."""
        used = [1, 0, 0]
        for node in walk_schemas(schema):
            properties = node.get("properties") or {}
            used[1] += len(properties) - len(node.get("required") or ())
            used[2] += sum(1 for inner in properties.values() if _is_union(inner))
        left = [have - need for have, need in zip(self._left, used, strict=True)]
        if min(left) < 0:
            return False
        self._left = left
        return True


def anthropic_reason() -> str:
    """The limits for strict tools in one request, as text."""
    return (
        f"one request holds {_STRICT_TOOLS} strict tools, {_OPTIONAL_PARAMETERS} optional "
        f"parameters and {_UNION_PARAMETERS} parameters with a choice of types"
    )


def _count_levels(schema: Mapping[str, Any]) -> int:
    """The depth of nested objects; a recursive definition counts once."""
    known: dict[str, int] = {}

    def depth(here: Any, steps: int = 0) -> int:
        if not isinstance(here, Mapping) or steps > MAX_DEPTH:
            return 0
        reference = here.get("$ref")
        if isinstance(reference, str):
            if reference not in known:
                known[reference] = 0
                known[reference] = depth(find_part(reference, schema), steps + 1)
            return known[reference]
        deepest = max((depth(inner, steps + 1) for inner in inner_schemas(here)), default=0)
        return deepest + ("properties" in here)

    return depth(schema)


def _longest_enum(nodes: list[Mapping[str, Any]]) -> int:
    lists = [node["enum"] for node in nodes if len(node.get("enum") or ()) > _LONG_ENUM]
    return max((sum(len(v) for v in each if isinstance(v, str)) for each in lists), default=0)


def _is_union(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        "anyOf" in schema or isinstance(schema.get("type"), list)
    )
