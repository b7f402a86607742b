"""Schemas of documents as JSON Schema 2020-12."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.openapi.api import document, operation
from wieldy import Toolbox
from wieldy.openapi.document import Document, Node
from wieldy.openapi.schema import Schemas


def converted(schema: Any, version: str = "3.0.3", **schemas: Any) -> Any:
    whole = document({}, version, components={"schemas": schemas})
    return Schemas(Document("", "it", whole), "readOnly").whole(Node(schema, ""))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"nullable": True, "description": "d", "allOf": [{"type": "object"}]},
            {"description": "d", "anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]},
        ),
        ({"nullable": True}, {}),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 1},
        ),
        (
            {"type": "integer", "maximum": 9, "exclusiveMaximum": False},
            {"type": "integer", "maximum": 9},
        ),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
        ({"type": "string", "example": "x" * 999}, {"type": "string"}),
        ({"type": "file", "xml": {}, "x-note": 1, "externalDocs": {}}, {}),
        ({"type": "string", "pattern": "[", "minLength": "1", "enum": []}, {"type": "string"}),
        ({"properties": {"a": {"required": True}}, "required": "a"}, {"properties": {"a": {}}}),
        (
            {"oneOf": [{"type": "object"}], "discriminator": {"propertyName": "kind"}},
            {"oneOf": [{"type": "object"}]},
        ),
        (
            {"$ref": "#/components/schemas/A", "nullable": True, "description": "d"},
            {"description": "d", "$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
        ),
        (
            {"$ref": "#/components/schemas/Nowhere"},
            {"description": "The document refers to #/components/schemas/Nowhere, "
                            "which is not there."},
        ),
    ],
)  # fmt: skip
def test_version_3_0_becomes_json_schema(old: Any, new: Any) -> None:
    assert converted(old, A={"type": "object"}) == new


def test_a_definition_has_the_name_that_its_reference_means() -> None:
    schema = {"$ref": "#/components/schemas/a%20b~1c"}
    schemas: dict[str, Any] = {"a b/c": {"type": "object"}}
    assert converted(schema, **schemas) == {
        "$ref": "#/$defs/a_b_c",
        "$defs": {"a_b_c": {"type": "object"}},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"], "const": "a", "examples": ["a"]},
        {"exclusiveMinimum": 1, "prefixItems": [{"type": "string"}], "items": False},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"not": {}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}, "minProperties": 1},
        {"type": "object", "additionalProperties": False, "patternProperties": {"^x-": {}}},
    ],
)
def test_version_3_1_stays_as_it_is(schema: Any) -> None:
    given_schema = {key: value for key, value in schema.items() if key != "$defs"}
    if "$ref" in given_schema:
        given_schema["$ref"] = "#/components/schemas/A"
    assert converted(given_schema, "3.1.0", A={"type": "object"}) == schema


async def test_recursion_stays_a_reference_and_only_what_is_used_comes_along(box: Toolbox) -> None:
    schemas = {
        "Tree": {"type": "object", "properties": {"kids": {"$ref": "#/components/schemas/Trees"}}},
        "Trees": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        "Other": {"type": "string"},
    }
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Trees"}}}
    paths = {"/t": {"post": operation(requestBody={"content": content, "required": True})}}
    (tool,) = await box.add_openapi(document(paths, components={"schemas": schemas}))

    assert tool.input_schema["properties"] == {"body": {"$ref": "#/$defs/Trees"}}
    assert tool.input_schema["$defs"].keys() == {"Tree", "Trees"}
    valid = jsonschema_rs.validator_for(tool.input_schema).is_valid
    assert valid({"body": [{"kids": [{"kids": []}]}]})
    assert not valid({"body": [{"kids": [{"kids": 1}]}]})
    for provider in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
        assert len(box.schemas(provider)) == 1


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"$ref": "#/components/schemas/A"}},
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/B"}]},
         "B": {"anyOf": [{"$ref": "#/components/schemas/A"}]}},
        {"A": {"properties": {"A": {"$ref": "#/components/schemas/A/properties/A"}}}},
    ],
)  # fmt: skip
async def test_references_in_circles_end(box: Toolbox, schemas: Any) -> None:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    responses = {"200": {"description": "", "content": content}}
    body = {"content": content, "required": True}
    paths = {"/t": {"post": operation(requestBody=body, responses=responses)}}
    (tool,) = await box.add_openapi(document(paths, components={"schemas": schemas}))

    jsonschema_rs.validator_for(tool.input_schema)
    assert tool.output_schema is not None
    for provider in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
        for strict in (False, True):
            assert len(box.schemas(provider, strict)) == 1
    (argument,) = tool.input_schema["properties"]
    outcome = await box.call("it", {argument: {"A": 1}})
    assert "base_url" in str(outcome.error)


async def test_what_only_comes_back_is_not_asked_for_and_what_only_goes_not_promised(
    box: Toolbox,
) -> None:
    pet = {
        "type": "object",
        "required": ["id", "name", "pin"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "made": {"$ref": "#/components/schemas/Made"},
            "name": {"type": "string"},
            "pin": {"type": "string", "writeOnly": True},
        },
    }
    schemas = {"Pet": pet, "Made": {"type": "string", "readOnly": True}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}
    responses = {"201": {"description": "", "content": content}}
    body = {"content": content, "required": True}
    paths = {"/t": {"post": operation(requestBody=body, responses=responses)}}
    (tool,) = await box.add_openapi(document(paths, components={"schemas": schemas}))

    assert list(tool.input_schema["properties"]) == ["name", "pin"]
    assert tool.input_schema["required"] == ["name", "pin"]
    assert tool.output_schema is not None
    answer = tool.output_schema["$defs"]["Pet"]
    assert list(answer["properties"]) == ["id", "made", "name"]
    assert answer["required"] == ["id", "name"]


def test_a_schema_nested_a_thousand_deep_is_cut() -> None:
    schema: Any = {"type": "string"}
    for _ in range(600):
        schema = {"type": "array", "items": schema}
    jsonschema_rs.validator_for(converted(schema))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "allOf", "enum", "required", "nullable", "$ref",
                 "minimum", "exclusiveMinimum", "pattern", "additionalProperties", "examples",
                 "patternProperties", "readOnly", "not", "format", "default", "uniqueItems"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(schema=JSON, version=st.sampled_from(["3.0.3", "3.1.0"]))
def test_whatever_stands_for_a_schema_one_can_be_made_of_it(schema: Any, version: str) -> None:
    jsonschema_rs.validator_for(converted(schema, version))


async def test_a_dict_that_holds_itself_is_cut(box: Toolbox) -> None:
    tree: dict[str, Any] = {"type": "object", "properties": {}}
    tree["properties"] = {"left": tree, "right": tree}
    body = {"content": {"application/json": {"schema": tree}}, "required": True}
    (tool,) = await box.add_openapi(document({"/t": {"post": operation(requestBody=body)}}))
    assert list(tool.input_schema["properties"]) == ["left", "right"]


def _bomb(length: int) -> dict[str, Any]:
    both = {f"d{n}": {"oneOf": [_to(f"d{n + 1}"), _to(f"d{n + 1}")]} for n in range(length)}
    return {**both, f"d{length}": {"type": "integer"}}


def _to(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


async def test_operation_whose_schema_asks_for_too_much_is_left_out_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def takes(schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "requestBody": {"content": {"application/json": {"schema": schema}}},
            "responses": {"200": {"content": {"application/json": {"schema": _to("d0")}}}},
        }

    document = {
        "openapi": "3.1.0",
        "servers": [{"url": "https://api.example.com"}],
        "paths": {
            "/bomb": {"post": takes({"type": "object", "properties": {"x": _to("d0")}})},
            "/fine": {"post": takes({"type": "object", "properties": {"x": {"type": "string"}}})},
            "/ring": {"post": takes(_to("ring"))},
        },
        "components": {
            "schemas": {
                **_bomb(40),
                "ring": {"type": "object", "properties": {"next": _to("ring")}},
            }
        },
    }
    async with Toolbox() as box:
        tools = await box.add_openapi(document)

        assert [tool.name for tool in tools] == ["post_fine", "post_ring"]
        assert "POST /bomb is left out: it has more than 10,000 ways" in caplog.text
        assert [tool.output_schema for tool in tools] == [None, None]
        assert len(box.schemas("openai")) == 2


async def test_operation_with_more_choices_than_can_be_checked_keeps_its_names_alone() -> None:
    many = {"anyOf": [{"const": n} for n in range(10_001)]}
    parameter = {"name": "x", "in": "query", "required": True, "schema": many}
    document = {
        "openapi": "3.1.0",
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/many": {"get": {"parameters": [parameter]}}},
    }
    async with Toolbox() as box:
        (tool,) = await box.add_openapi(document)

        assert tool.input_schema == {
            "type": "object",
            "properties": {"x": {}},
            "additionalProperties": False,
            "required": ["x"],
        }
