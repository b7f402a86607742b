"""Schemas on their way to a provider and arguments on their way back."""

import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.wire.schemas import Schema, tool_schemas, values
from wieldy import Toolbox
from wieldy.core.choices import ProviderFormat
from wieldy.core.tool import Tool
from wieldy.wire.checking import report
from wieldy.wire.schema.lifting import lift_arguments, lift_value
from wieldy.wire.schema.lowering import lower_schema
from wieldy.wire.schema.target import PROVIDERS

OPENAI_KEYWORDS = {
    "$defs", "$ref", "additionalProperties", "anyOf", "description", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems", "minimum",
    "multipleOf", "pattern", "properties", "required", "type",
}  # fmt: skip
ANTHROPIC_KEYWORDS = {
    "additionalProperties", "anyOf", "description", "enum", "format", "items", "minItems",
    "pattern", "properties", "required", "type",
}  # fmt: skip
GEMINI_KEYWORDS = {
    "$defs", "$ref", "additionalProperties", "anyOf", "description", "enum", "format", "items",
    "maxItems", "maximum", "minItems", "minimum", "prefixItems", "properties", "required", "type",
}  # fmt: skip
OPENAPI_KEYWORDS = {
    "anyOf", "description", "enum", "format", "items", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minProperties", "minimum", "nullable", "pattern",
    "properties", "required", "type",
}  # fmt: skip
OPENAPI_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"}

many = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def nodes(schema: Schema) -> Iterator[Schema]:
    """Every schema inside a lowered one."""
    yield schema
    for group in ("properties", "$defs"):
        for inner in (schema.get(group) or {}).values():
            yield from nodes(inner)
    for inner in [*(schema.get("anyOf") or ()), *(schema.get("prefixItems") or ())]:
        yield from nodes(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


def assert_openai_strict(schema: Schema) -> None:
    """What OpenAI's guide asks of a strict schema."""
    assert schema["type"] == "object"
    assert "anyOf" not in schema
    for node in nodes(schema):
        assert set(node) <= OPENAI_KEYWORDS
        if "$ref" in node:
            assert set(node) == {"$ref"}
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]
            continue
        assert "type" in node or "anyOf" in node
        if "object" in node.get("type", ()):
            assert node["additionalProperties"] is False
            assert sorted(node["properties"]) == sorted(node.get("required", []))
        if "array" in node.get("type", ()):
            assert "items" in node


@many
@given(tool_schemas())
def test_every_openai_strict_schema_meets_what_the_guide_asks(schema: Schema) -> None:
    lowered = lower_schema(schema, "openai", strict=True)

    assert lowered.strict
    assert_openai_strict(lowered.schema)


@many
@given(tool_schemas())
def test_every_anthropic_strict_schema_is_closed_and_without_references(schema: Schema) -> None:
    lowered = lower_schema(schema, "anthropic", strict=True)

    for node in nodes(lowered.schema):
        assert set(node) <= ANTHROPIC_KEYWORDS
        assert node.get("minItems", 0) in (0, 1)
        if node.get("type") == "object":
            assert node["additionalProperties"] is False


@many
@given(tool_schemas())
def test_every_gemini_schema_has_only_the_keywords_that_count(schema: Schema) -> None:
    lowered = lower_schema(schema, "gemini")

    for node in nodes(lowered.schema):
        assert set(node) <= GEMINI_KEYWORDS
        assert "$ref" not in node or set(node) == {"$ref"}


@many
@given(tool_schemas())
def test_every_schema_in_geminis_old_subset_has_only_its_keywords(schema: Schema) -> None:
    lowered = lower_schema(schema, "gemini-openapi")

    for node in nodes(lowered.schema):
        assert set(node) <= OPENAPI_KEYWORDS
        assert node.get("type", "STRING") in OPENAPI_TYPES
        assert all(isinstance(value, str) for value in node.get("enum", ()))
        assert "anyOf" in node or "type" in node
        if node.get("type") == "OBJECT" and node is not lowered.schema:
            assert node["properties"]


def as_json_schema(schema: Any) -> Any:
    """A schema of Gemini's old subset as JSON Schema."""
    if isinstance(schema, list):
        return [as_json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: as_json_schema(value) for key, value in schema.items() if key != "nullable"}
    if isinstance(plain.get("type"), str):
        plain["type"] = plain["type"].lower()
    if plain.get("format") == "enum":
        del plain["format"]
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") else plain


@pytest.mark.parametrize(
    ("provider", "strict"),
    [("openai", True), ("anthropic", True), ("gemini", False), ("gemini-openapi", False)],
)
@many
@given(data=st.data())
def test_what_fits_the_lowered_schema_fits_the_tools_own_where_nothing_was_lost(
    provider: ProviderFormat, strict: bool, data: st.DataObject
) -> None:
    schema = data.draw(tool_schemas())
    lowered = lower_schema(schema, provider, strict)
    assume(not lowered.lost)
    sent = lowered.schema if provider != "gemini-openapi" else as_json_schema(lowered.schema)
    value = data.draw(values(sent, sent))
    assume(jsonschema_rs.is_valid(sent, value))

    lifted = lift_value(value, schema)

    jsonschema_rs.validate(schema, lifted)


@many
@given(st.data())
def test_what_fits_a_tools_own_schema_is_never_touched_by_lifting(data: st.DataObject) -> None:
    schema = data.draw(tool_schemas())
    value = data.draw(values(schema, schema))
    assume(jsonschema_rs.is_valid(schema, value))

    assert lift_value(value, schema) == value


class Node(BaseModel):
    name: str
    kids: list["Node"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: dict[str, int] = {}


def made(function: Any, **options: Any) -> Tool:
    return Toolbox().add(function, **options)


def given_schema(schema: Schema) -> Tool:
    return Toolbox().add(lambda **_: None, name="outside", input_schema=schema)


def test_an_optional_parameter_is_required_and_nullable_and_null_gives_its_default() -> None:
    def find(word: str, limit: int = 3) -> None: ...

    tool = made(find)
    lowered = lower_schema(tool.input_schema, "openai", strict=True)

    assert lowered.schema == {
        "type": "object",
        "properties": {
            "word": {"type": "string"},
            "limit": {"type": ["integer", "null"], "description": "Default: 3."},
        },
        "required": ["word", "limit"],
        "additionalProperties": False,
    }
    assert [str(change) for change in lowered.changes] == [
        "limit: changed: required may be null instead of absent (all are required)"
    ]
    assert lift_arguments({"word": "a", "limit": None}, tool) == {"word": "a"}


def test_null_stays_where_the_parameter_may_be_null() -> None:
    def find(word: str | None = "a") -> None: ...

    assert lift_arguments({"word": None}, made(find)) == {"word": None}


def test_a_free_form_object_travels_as_json_text() -> None:
    def save(fields: dict[str, int]) -> None: ...

    tool = made(save)
    lowered = lower_schema(tool.input_schema, "openai", strict=True)

    assert lowered.schema["properties"]["fields"] == {
        "type": "string",
        "description": "The value as JSON text: object with values of integer.",
    }
    assert [change.keyword for change in lowered.lost] == ["type"]
    assert lift_arguments({"fields": '{"a": 1}'}, tool) == {"fields": {"a": 1}}
    assert lift_arguments({"fields": "no json"}, tool) == {"fields": "no json"}


def test_json_text_is_marked_where_plain_text_is_allowed_too() -> None:
    def save(body: dict[str, Any] | str) -> None: ...

    tool = made(save)
    free, plain = lower_schema(tool.input_schema, "openai", strict=True).schema["properties"][
        "body"
    ]["anyOf"]

    assert list(free["properties"]) == ["json_text"]
    assert plain == {"type": "string"}
    assert lift_arguments({"body": {"json_text": '{"a": 1}'}}, tool) == {"body": {"a": 1}}
    assert lift_arguments({"body": '{"a": 1}'}, tool) == {"body": '{"a": 1}'}


def test_a_recursive_type_stays_recursive_where_references_are_allowed() -> None:
    def plant(tree: Node) -> None: ...

    lowered = lower_schema(made(plant).input_schema, "openai", strict=True)

    assert lowered.schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    kids = lowered.schema["$defs"]["Node"]["properties"]["kids"]
    assert kids["items"] == {"$ref": "#/$defs/Node"}
    assert lowered.lost == ()


@pytest.mark.parametrize(("provider", "strict"), [("anthropic", True), ("gemini-openapi", False)])
def test_a_recursive_type_is_cut_and_goes_on_as_json_text(
    provider: ProviderFormat, strict: bool
) -> None:
    def plant(tree: Node) -> None: ...

    tool = made(plant)
    lowered = lower_schema(tool.input_schema, provider, strict)

    assert [(change.path, change.keyword) for change in lowered.lost] == [
        ("tree.kids[].kids[]", "$ref")
    ]
    deep = {"name": "a", "kids": [{"name": "b", "kids": ['{"name": "c", "kids": []}']}]}
    assert lift_arguments({"tree": deep}, tool) == {
        "tree": {"name": "a", "kids": [{"name": "b", "kids": [{"name": "c", "kids": []}]}]}
    }


def test_gemini_gets_a_required_recursion_as_an_optional_one() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/N"}, "v": {"type": "string"}},
        "required": ["next", "v"],
    }
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}

    lowered = lower_schema(schema, "gemini")

    assert lowered.schema["$defs"]["N"]["required"] == ["v"]
    assert [change.path for change in lowered.lost] == ["$defs.N.next"]


def test_a_tagged_union_loses_nothing_and_an_untagged_one_says_so() -> None:
    def feed(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    tagged = lower_schema(made(feed).input_schema, "gemini")
    both = [{"type": "integer"}, {"type": "number"}]
    loose = lower_schema({"type": "object", "properties": {"n": {"oneOf": both}}}, "gemini")

    assert tagged.lost == ()
    assert [change.keyword for change in loose.lost] == ["oneOf"]


def test_constraints_that_do_not_hold_are_told_in_words() -> None:
    def pick(
        n: Annotated[int, Field(gt=0, le=9, description="How many.")],
        code: Annotated[str, Field(pattern="^(?=a)b$", min_length=2)],
    ) -> None: ...

    lowered = lower_schema(made(pick).input_schema, "anthropic", strict=True)

    assert lowered.schema["properties"] == {
        "n": {"type": "integer", "description": "How many. (exclusiveMinimum: 0, maximum: 9)"},
        "code": {"type": "string", "description": '(minLength: 2, pattern: "^(?=a)b$")'},
    }
    assert sorted(change.keyword for change in lowered.lost) == [
        "exclusiveMinimum", "maximum", "minLength", "pattern",
    ]  # fmt: skip


def test_gemini_gets_an_exclusive_bound_of_whole_numbers_as_an_inclusive_one() -> None:
    def pick(n: Annotated[int, Field(gt=0, lt=10)]) -> None: ...

    lowered = lower_schema(made(pick).input_schema, "gemini")

    assert lowered.schema["properties"]["n"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert lowered.changes == ()


def test_the_old_subset_has_choices_of_text_and_a_flag_for_null() -> None:
    def pick(n: Literal[1, 2], mood: Literal["a", "b"] | None) -> None: ...

    tool = made(pick)
    lowered = lower_schema(tool.input_schema, "gemini-openapi")

    assert lowered.schema["properties"] == {
        "n": {"type": "STRING", "format": "enum", "enum": ["1", "2"]},
        "mood": {"type": "STRING", "format": "enum", "enum": ["a", "b"], "nullable": True},
    }
    assert lowered.lost == ()
    assert lift_arguments({"n": "2", "mood": "a"}, tool) == {"n": 2, "mood": "a"}


def test_whole_numbers_come_back_as_whole_numbers() -> None:
    def pick(n: int, share: float) -> None: ...

    lifted = lift_arguments({"n": 3.0, "share": 3.0}, made(pick))

    assert [type(lifted["n"]), type(lifted["share"])] == [int, float]


def test_names_of_properties_are_made_legal_and_given_back() -> None:
    schema = {
        "type": "object",
        "properties": {"filter[name]": {"type": "string"}, "ok": {"type": "string"}},
        "required": ["filter[name]"],
    }
    tool = given_schema(schema)

    for strict in (False, True):
        shown = lower_schema(schema, "anthropic", strict).schema
        name = next(iter(shown["properties"]))
        assert name.startswith("filter_name_")
        assert name in shown["required"]
        assert lift_arguments({name: "a", "ok": "b"}, tool) == {"filter[name]": "a", "ok": "b"}


def test_a_tool_that_takes_any_argument_is_left_without_strict() -> None:
    def log(**fields: int) -> None: ...

    lowered = lower_schema(made(log).input_schema, "openai", strict=True)

    assert not lowered.strict
    assert lowered.schema["additionalProperties"] == {"type": "integer"}
    assert [change.keyword for change in lowered.lost] == ["strict"]


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({f"p{n}": {"type": "string"} for n in range(5001)}, "5001 properties, at most 5000"),
        ({"e": {"enum": [f"v{n}" for n in range(1001)]}}, "1001 enum values, at most 1000"),
        ({"x" * 120_001: {"type": "string"}}, "120001 characters in names and choices"),
        ({"e": {"enum": [f"{n:060}" for n in range(260)]}}, "15600 characters in one long enum"),
    ],
    ids=["properties", "choices", "names", "enum"],
)
def test_a_schema_over_openais_limits_is_left_without_strict(schema: Schema, fault: str) -> None:
    lowered = lower_schema({"type": "object", "properties": schema}, "openai", strict=True)

    assert not lowered.strict
    assert fault in lowered.changes[0].why


def test_ten_levels_are_strict_and_eleven_are_not() -> None:
    def nested(levels: int) -> Schema:
        inner: Schema = {"type": "string"}
        for _ in range(levels):
            inner = {"type": "object", "properties": {"in": inner}, "required": ["in"]}
        return inner

    assert lower_schema(nested(10), "openai", strict=True).strict
    assert not lower_schema(nested(11), "openai", strict=True).strict


def test_a_union_at_the_top_becomes_one_object() -> None:
    members = [
        {"type": "object", "properties": {"a": {"type": "string"}, "k": {}}, "required": ["k"]},
        {"type": "object", "properties": {"b": {"type": "string"}, "k": {}}, "required": ["k"]},
    ]
    for provider in ("openai", "anthropic", "gemini"):
        lowered = lower_schema({"anyOf": members}, provider)
        assert list(lowered.schema["properties"]) == ["a", "k", "b"]
        assert lowered.schema["required"] == ["k"]
        assert [change.keyword for change in lowered.lost] == ["anyOf"]


def test_mcp_and_what_needs_no_change_are_passed_on_as_they_are() -> None:
    def add(a: int, b: list[int]) -> None: ...

    schema = made(add).input_schema

    for provider in ("mcp", "openai", "anthropic"):
        assert lower_schema(schema, provider).schema == schema
        assert lower_schema(schema, provider).changes == ()


def test_openai_is_told_that_items_may_be_anything() -> None:
    lowered = lower_schema({"type": "object", "properties": {"l": {"type": "array"}}}, "openai")

    assert lowered.schema["properties"]["l"] == {"type": "array", "items": {}}


def test_references_to_other_documents_are_left_out_and_reported() -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "https://example.org/s.json"}}}

    lowered = lower_schema(schema, "openai", strict=True)

    assert ("x", "$ref") in [(change.path, change.keyword) for change in lowered.lost]
    assert_openai_strict(lowered.schema)


@pytest.mark.parametrize(
    ("provider", "strict"),
    [("openai", True), ("openai", False), ("anthropic", True), ("gemini", False),
     ("gemini-openapi", False), ("mcp", False)],
)  # fmt: skip
def test_schemas_that_double_at_every_step_or_never_end_are_bounded(
    provider: ProviderFormat, strict: bool
) -> None:
    doubling = {
        f"D{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/D{n + 1}"} for k in "ab"}}
        for n in range(40)
    }
    folding = {f"F{n}": {"allOf": [{"$ref": f"#/$defs/F{n + 1}"}] * 2} for n in range(40)}
    itself = {"I": {"allOf": [{"$ref": "#/$defs/I"}]}, "J": {"$ref": "#/$defs/J"}}
    deep: Schema = {"type": "string"}
    for _ in range(20_000):
        deep = {"type": "array", "items": deep}
    for inner in ({"$ref": "#/$defs/D0"}, {"$ref": "#/$defs/F0"}, {"$ref": "#/$defs/I"}, deep,
                  {"$ref": "#/$defs/J"}):  # fmt: skip
        schema = {
            "type": "object",
            "properties": {"x": inner},
            "$defs": {**doubling, **folding, **itself},
        }
        lowered = lower_schema(schema, provider, strict)
        assert lowered.schema["type"] in ("object", "OBJECT")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"x": {"type": "object", "required": "x"}}},
        {"type": "object", "properties": {"x": {"anyOf": []}}},
        {"type": "object", "properties": {"x": True, "y": False}},
        {"type": "object", "properties": {"x": {"type": "array", "items": [{"type": "string"}]}}},
        {"type": "object", "properties": {"x": {"enum": [{"a": 1}, [2]]}}},
        {"type": "object", "properties": {"x": {"allOf": [{"type": "string"}, {"minLength": 1}]}}},
        {"type": "object", "properties": {"x": {"not": {"type": "string"}}}},
        {"type": "object", "properties": {"x": {"type": "strange"}}},
        {"properties": {"x": {"required": ["a"]}}},
        {},
    ],
)
def test_odd_schemas_are_taken(schema: Schema) -> None:
    assert_openai_strict(lower_schema(schema, "openai", strict=True).schema)
    for provider in ("anthropic", "gemini", "gemini-openapi"):
        assert json.dumps(lower_schema(schema, provider, strict=True).schema)


MALFORMED: list[Any] = [
    {"properties": 3}, {"type": "object", "properties": [], "required": 5}, {"enum": 3},
    {"type": 7}, {"type": ["object", 3]}, {"anyOf": 3}, {"anyOf": [3, None]}, {"$ref": 3},
    {"type": "integer", "exclusiveMinimum": "x"}, {"type": "array", "minItems": "x"},
    {"type": "string", "format": []}, {"allOf": [{"properties": {"a": {}}}, {"properties": 3}]},
    {"oneOf": [{"type": "object", "required": 3, "properties": 3}, {"type": "object"}]},
    {"type": "array", "prefixItems": 3}, {"type": "object", "properties": {"a": 3}},
]  # fmt: skip


@pytest.mark.parametrize("inner", MALFORMED, ids=str)
def test_malformed_schemas_break_nothing_in_either_direction(inner: Any) -> None:
    schema = {"type": "object", "properties": {"x": inner}, "$defs": 3}
    for provider in PROVIDERS:
        for strict in (False, True):
            assert lower_schema(schema, provider, strict).schema["properties"]
    for value in (None, "{}", {"a": 1}, [1], 1.5):
        assert lift_value({"x": value}, schema) is not None


def test_deeply_nested_arguments_are_left_as_they_are() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    tool = given_schema({"type": "object", "properties": {"x": {"type": "array"}}})

    assert lift_arguments({"x": deep}, tool)["x"] is deep


def test_the_report_names_tools_changes_and_the_limit_of_the_whole() -> None:
    box = Toolbox()
    box.add(lambda x: x, name="write/file", input_schema={"type": "object", "properties": {}})

    @box.tool
    def save(fields: dict[str, Any]) -> None: ...

    found = report(box, "openai", strict=True)

    assert found.lost
    assert found.lines() == [
        "write/file",
        "  arguments: changed: name is write_file_7dc77d18 (providers take 64 plain characters)",
        "save",
        "  fields: lost: type became JSON text (its properties have no names)",
    ]
    for n in range(127):
        box.add(lambda: None, name=f"tool{n}")
    assert report(box, "openai").lines()[0] == (
        "129 tools are too many (openai takes 128 in one request)"
    )
    assert report(box, "mcp").whole == ()


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(ValueError, match="Did you mean: gemini"):
        lower_schema({}, "gemni")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_numbers_that_json_does_not_have_are_left_out_and_reported(
    provider: ProviderFormat, strict: bool
) -> None:
    box = Toolbox()

    @box.tool
    def pick(limit: float = math.inf, share: float = math.nan) -> None: ...

    inner: Schema = {
        "a": {
            "type": "number",
            "minimum": -math.inf,
            "enum": [1.5, math.inf],
            "default": [math.nan],
        },
        "default": {"const": math.nan, "examples": [math.inf]},
        "c": {"anyOf": [{"type": "array", "items": {"maximum": math.inf}}, {"type": "null"}]},
    }
    schema = {"type": "object", "properties": inner, "$defs": {"enum": {"default": math.inf}}}
    box.add(lambda **_: None, name="outside", input_schema=schema)

    described = json.dumps(box.schemas(provider, strict=strict), allow_nan=False)

    assert "Default: infinity." in described
    lines = "\n".join(report(box, provider, strict).lines())
    assert "limit: changed: default is told in words" in lines
    assert "a: lost: enum lists fewer values (JSON has no such number)" in lines
    assert "default: lost: const was left out" in lines


@pytest.mark.parametrize("types", [["null", "array"], ["string", "array"], "array"])
def test_openai_gets_items_in_every_array_of_several_types(types: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": types}}}

    assert lower_schema(schema, "openai").schema["properties"]["a"] == {"type": types, "items": {}}


@pytest.mark.parametrize(
    ("inner", "sent"),
    [
        ({"type": "string", "enum": ["a", 1]}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "enum": ["x", "x"]}, {"type": "string", "enum": ["x"]}),
        ({"type": ["string", "string"]}, {"type": "string"}),
        ({"type": "STRING"}, {"type": "string"}),
    ],
    ids=str,
)
def test_choices_and_types_are_sent_once_and_as_they_can_be(inner: Schema, sent: Schema) -> None:
    schema = {"type": "object", "properties": {"a": inner}, "required": ["a"]}

    lowered = lower_schema(schema, "openai", strict=True)

    assert lowered.schema["properties"]["a"] == sent
    assert lowered.changes and not lowered.lost


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_type_that_json_does_not_have_is_left_out_and_reported(provider: ProviderFormat) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "file"}}}

    lowered = lower_schema(schema, provider)

    assert "file" not in json.dumps(lowered.schema).lower()
    assert "a: lost: type was left out (JSON has no such type)" in map(str, lowered.changes)


ANY_LIMIT = {"type": "object", "properties": {"limit": {"type": "integer"}}}
NULL_LIMIT = {
    "type": "object", "properties": {"limit": {"type": ["integer", "null"]}}, "required": ["limit"],
}  # fmt: skip
WORDS = {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.mark.parametrize(
    ("inner", "value"),
    [
        ({"anyOf": [ANY_LIMIT, NULL_LIMIT]}, {"limit": None}),
        (WORDS, {"json_text": "[1]"}),
        (WORDS, {"json_text": '{"a": "b"}'}),
        ({"anyOf": [WORDS, {"type": "string"}]}, {"json_text": "[1]"}),
        ({"allOf": [WORDS, {"description": "Words."}]}, {"json_text": "[1]"}),
        ({"type": "object"}, {"deep": {"json_text": "[1]"}}),
        ({"allOf": [{"prefixItems": [{"type": "object"}]}]}, [{"json_text": "[1]"}]),
        ({"allOf": [{"items": {"type": "object"}}]}, [{"json_text": "[1]"}]),
        (
            {"allOf": [{"properties": {"a": {"type": "object"}}}, {"required": ["a"]}]},
            {"a": {"json_text": "[1]"}},
        ),
        ({"anyOf": [{"prefixItems": [{"const": 1}]}, {"items": ANY_LIMIT}]}, [{"limit": 1}]),
    ],
    ids=str,
)
def test_a_value_that_fits_as_it_stands_is_left_alone(inner: Schema, value: Any) -> None:
    schema = {"type": "object", "properties": {"v": inner}}

    assert lift_value({"v": value}, schema) == {"v": value}


def test_a_tool_that_takes_any_argument_can_be_sent_one_called_json_text() -> None:
    def log(**fields: Any) -> None: ...

    for sent in ({"json_text": "[1]"}, {"json_text": "{}"}, {"a": {"json_text": "[1]"}}):
        assert lift_arguments(sent, made(log)) == sent


def test_json_text_is_still_read_where_any_value_is_taken() -> None:
    def save(value: Any) -> None: ...

    assert lift_arguments({"value": {"json_text": "[1]"}}, made(save)) == {"value": [1]}
