"""Describing a tool, and reading a model's arguments back, is bounded whatever the schema."""

from collections.abc import Callable
from typing import Any

import pytest

from wieldy import Tool
from wieldy.wire.prompt import tool_instructions
from wieldy.wire.schema.example_values import example_arguments
from wieldy.wire.schema.lifting import lift_value
from wieldy.wire.schema.lowering import lower_schema
from wieldy.wire.text.text_values import branch_of, kinds_of, typed_value

Schema = dict[str, Any]
PROVIDERS = ("openai", "openai-responses", "anthropic", "gemini", "gemini-openapi", "mcp")


def _chain(length: int, link: Callable[[Schema], Schema]) -> Schema:
    steps = {f"d{n}": link({"$ref": f"#/$defs/d{n + 1}"}) for n in range(length)}
    return {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}},
        "$defs": {**steps, f"d{length}": {"type": "integer"}},
    }


def _ring(key: str) -> Schema:
    every = [{"$ref": f"#/$defs/d{n}"} for n in range(15)]
    return {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}},
        "$defs": {f"d{n}": {key: every, "type": "object"} for n in range(15)},
    }


def _object(properties: Schema, fewest: int) -> Schema:
    return {"type": "object", "properties": properties, "minProperties": fewest}


HOSTILE: dict[str, Schema] = {
    "unions of unions": _chain(11, lambda ref: {"anyOf": [ref, ref]}),
    "parts of parts": _chain(11, lambda ref: {"allOf": [ref, ref]}),
    "choices inside": _chain(
        40,
        lambda ref: {
            "anyOf": [_object({"x": ref}, n) for n in (0, 1)],
        },
    ),
    "parts inside": _chain(
        40,
        lambda ref: {
            "allOf": [_object({"x": ref}, n) for n in (0, 1)],
        },
    ),
    "many names": _chain(
        40, lambda ref: {"type": "object", "properties": dict.fromkeys("xabcdefgh", ref)}
    ),
    "ring of choices": _ring("anyOf"),
    "ring of parts": _ring("allOf"),
    "ring at the top": {**_ring("allOf"), "allOf": [{"$ref": f"#/$defs/d{n}"} for n in range(15)]},
    "many members": {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/v"}},
        "$defs": {
            "v": {
                "anyOf": [
                    {"type": "array", "items": {"$ref": "#/$defs/v"}, "maxItems": n}
                    for n in range(3000)
                ]
            }
        },
    },
}


def _nested(leaf: Any, depth: int = 40) -> Any:
    for _ in range(depth):
        leaf = {"x": leaf}
    return leaf


async def take(**values: Any) -> None:
    """Take it."""


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_hostile_schema_is_described_to_every_provider(schema: Schema) -> None:
    for provider in PROVIDERS:
        for strict in (False, True):
            assert lower_schema(schema, provider, strict).schema["type"].lower() == "object"
    assert isinstance(example_arguments(schema), dict)
    assert "take" in tool_instructions([Tool(take, input_schema=schema)])
    assert kinds_of(schema["properties"]["x"], schema) is not None
    assert branch_of(schema["properties"]["x"], schema, "object") is not None
    assert typed_value("1", schema["properties"]["x"], schema) is not None


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "value", ["a", _nested("a"), [{"x": str(n), "k": None} for n in range(3000)]]
)
def test_arguments_for_a_hostile_schema_are_read_or_left_as_they_are(
    schema: Schema, value: Any
) -> None:
    assert lift_value({"x": value}, schema).keys() == {"x"}


def test_arguments_that_are_many_are_still_lifted() -> None:
    line = {"type": "object", "properties": {"n": {"type": "integer"}, "note": {"type": "string"}}}
    schema = {"type": "object", "properties": {"lines": {"type": "array", "items": line}}}

    lifted = lift_value({"lines": [{"n": 1.0, "note": None}] * 5000}, schema)

    assert lifted == {"lines": [{"n": 1}] * 5000}
