"""Schemas of values that are no objects go into their wrapping and come out again."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Tool
from wieldy.core.schema.result_wrapping import WRAP_MARK, inner_schema, is_wrapped, wrapped_schema

LIST = {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "integer"}}}
NESTED = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}
PLACES = {"prefixItems": [{"type": "integer"}, {"$ref": "#/prefixItems/0"}], "type": "array"}
NAMED = {"$id": "urn:a", "type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": LIST["$defs"]}
VALUES = [1, "a", [], [1], ["a"], [[1]], [["a"]], [1, 2], [1, "a"], None, {}]


@pytest.mark.parametrize("schema", [{"type": "string"}, LIST, NESTED, PLACES, NAMED])
def test_a_wrapped_schema_takes_the_same_values_and_comes_out_as_it_was(
    schema: dict[str, Any],
) -> None:
    outer = wrapped_schema(schema)

    assert (outer["type"], outer["required"], outer[WRAP_MARK]) == ("object", ["result"], True)
    assert is_wrapped(outer)
    assert inner_schema(outer) == schema
    for value in VALUES:
        fits = jsonschema_rs.is_valid(schema, value)
        assert jsonschema_rs.is_valid(outer, {"result": value}) is fits, value


@given(st.recursive(st.sampled_from(["string", "integer"]), lambda each: st.lists(each)))
def test_any_schema_comes_out_as_it_went_in(shape: Any) -> None:
    def described(shape: Any) -> dict[str, Any]:
        if isinstance(shape, str):
            return {"type": shape}
        return {"anyOf": [described(each) for each in shape], "$comment": "$ref"}

    schema = described(shape)
    assert inner_schema(wrapped_schema(schema)) == schema


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {WRAP_MARK: True},
        {WRAP_MARK: "yes", "properties": {"result": {}}},
        {WRAP_MARK: True, "properties": {"other": {}}},
        {"type": "object", "properties": {"result": {}}, "required": ["result"]},
    ],
)
def test_without_the_mark_nothing_is_taken_out(schema: dict[str, Any] | None) -> None:
    assert not is_wrapped(schema)


def test_a_tool_shows_the_schema_of_its_value_and_keeps_the_one_that_was_declared() -> None:
    declared = wrapped_schema(LIST)
    tool = Tool(len, output_schema=declared)

    assert (tool.output_schema, tool.declared_output) == (LIST, declared)
    assert tool.replace(name="other").declared_output == declared


def test_nothing_is_said_of_a_value_whose_schema_speaks_of_its_wrapping() -> None:
    declared = wrapped_schema({"type": "array"})
    declared["properties"]["result"]["items"] = {"$ref": "#"}

    assert Tool(len, output_schema=declared).output_schema is None
