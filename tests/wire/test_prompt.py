"""What a model is told of tools and results, and that it can be read back."""

import json
import xml.etree.ElementTree as ET
from typing import Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Call, Outcome, Status, Toolbox
from wieldy.core.block import Image, Text
from wieldy.core.choices import TextDialect
from wieldy.core.errors import CallDenied
from wieldy.wire.prompt import (
    NO_TOOLS,
    example_arguments,
    format_result,
    kwargs_form,
    parse_result,
    render_call,
    tool_instructions,
)
from wieldy.wire.text import TextCallParser


def web_search(
    query: str,
    freshness: Literal["noLimit", "oneDay"] = "noLimit",
    count: int = 10,
    sites: list[str] | None = None,
) -> str:
    """Search the web for information.

    Args:
        query: Search query
            using keywords.
        count: Number of results to return (1-50)
    """
    return query


def tag(names: list[str], where: dict[str, int]) -> None:
    """Tag things."""


def ping() -> None:
    """Do nothing."""


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()
    for function in (web_search, tag, ping):
        box.add(function)
    return box


def test_the_layout_is_that_of_the_document(box: Toolbox) -> None:
    assert """### web_search
Description: Search the web for information.
Parameters:
  - query: string (required) - Search query using keywords.
  - freshness: string (optional) - (one of: noLimit, oneDay)
    Default: noLimit
  - count: integer (optional) - Number of results to return (1-50)
    Default: 10
  - sites: array (optional)
Example:
<tool_call>
  <name>web_search</name>
  <params>
    <query><![CDATA[your_query_here]]></query>
    <freshness><![CDATA[noLimit]]></freshness>
    <count><![CDATA[10]]></count>
  </params>
</tool_call>

### tag
Description: Tag things.
Parameters:
  - names: array (required)
  - where: object (required)
Example:
<tool_call>
  <name>tag</name>
  <params>
    <names><item><![CDATA[your_names_here]]></item></names>
    <where><![CDATA[{}]]></where>
  </params>
</tool_call>

### ping
Description: Do nothing.
Parameters: none
Example:
""" in tool_instructions(box)


@pytest.mark.parametrize("dialect", ["xml", "hermes", "qwen", "invoke", "auto"])
def test_the_examples_are_calls_that_the_tools_accept(box: Toolbox, dialect: TextDialect) -> None:
    calls = TextCallParser(dialect, box).parse(tool_instructions(box, dialect))

    assert [(call.tool, call.arguments) for call in calls] == [
        ("web_search", {"query": "your_query_here", "freshness": "noLimit", "count": 10}),
        ("tag", {"names": ["your_names_here"], "where": {}}),
        ("ping", {}),
    ]


def test_no_tools_are_stated() -> None:
    assert tool_instructions([]) == NO_TOOLS
    with pytest.raises(ValueError, match="no dialect"):
        tool_instructions([], "yaml")  # type: ignore[arg-type]


def test_a_call_with_keys_that_are_no_tags_is_written_as_json() -> None:
    text = render_call("f", {"a b": 1})
    [call] = TextCallParser("xml").parse(text)
    assert call.arguments == {"a b": 1}


@pytest.mark.parametrize("dialect", ["qwen", "invoke"])
@pytest.mark.parametrize(
    "arguments",
    [{" a ": "b"}, {"a\n```\n": "b"}, {"a" * 300: "b"}],
)
def test_a_call_that_a_dialect_has_no_tags_for_is_refused(
    dialect: TextDialect, arguments: Any
) -> None:
    with pytest.raises(ValueError, match="The call of 'f' can't be written"):
        render_call("f", arguments, dialect)


def test_an_example_that_cannot_be_written_is_left_out() -> None:
    box = Toolbox()
    schema = {"type": "object", "properties": {"a > b": {"type": "string"}}, "required": ["a > b"]}
    box.add(lambda **given: given, "f", input_schema=schema)

    assert "Example:" not in tool_instructions(box, "qwen")
    assert "Example:" in tool_instructions(box, "xml")


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (None, None),
        ({}, None),
        ({"type": "object"}, None),
        ({"type": "object", "properties": {}, "additionalProperties": False}, None),
        ({"type": "object", "additionalProperties": True}, {"<*>": (Any, "")}),
        (
            {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
            {"<*>": ("string", "minLength: 1")},
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "title": "A", "description": "first", "default": 1},
                    "b": {"anyOf": [{"type": "null"}]},
                    "c": True,
                },
            },
            {
                "a": ("integer", "description: first;default: 1"),
                "b": (Any, "anyOf: [{'type': 'null'}]"),
                "c": (Any, ""),
            },
        ),
    ],
)
def test_the_kwargs_form(schema: Any, form: Any) -> None:
    before = json.dumps(schema)
    assert kwargs_form(schema) == form
    assert json.dumps(schema) == before


def test_a_schema_that_is_no_object_has_no_kwargs_form() -> None:
    with pytest.raises(KeyError):
        kwargs_form({"properties": {"a": {}}})
    with pytest.raises(TypeError, match="'object', not 'array'"):
        kwargs_form({"type": "array"})


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ({"type": "string"}, "your_x_here"),
        ({"type": "string", "maxLength": 4}, "your"),
        ({"type": "string", "minLength": 14}, "your_x_herexxx"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "integer", "exclusiveMinimum": 5}, 6),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "minimum": 4, "multipleOf": 3}, 6),
        ({"type": "number", "multipleOf": 0.5}, 0.5),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"const": 7}, 7),
        ({"enum": ["b", "a"]}, "b"),
        ({"type": "string", "examples": ["e"]}, "e"),
        ({"type": "integer", "default": 9}, 9),
        ({"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 2}]}, 2),
        ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, [1, 1]),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]}, [1, True]),
        ({"$ref": "#/$defs/P"}, {"n": 1}),
        ({}, "your_x_here"),
    ],
)
def test_examples_are_valid_where_possible(declared: Any, value: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"x": declared},
        "required": ["x"],
        "$defs": {"P": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    example = example_arguments(schema)

    assert example == {"x": value}
    assert jsonschema_rs.is_valid(schema, example)


def test_an_endless_schema_has_a_finite_example() -> None:
    node = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "required": ["n"]}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}
    assert len(json.dumps(example_arguments(schema))) < 200


def test_a_result_as_xml() -> None:
    text = format_result("f", {"success": True, "data": {"a b": [1, "1"], "c": "<&>"}})

    assert text == (
        "<tool_result>\n  <name>f</name>\n  <success>true</success>\n"
        '  <data><entry key="a b"><item>1</item><item type="string">1</item></entry>'
        "<c>&lt;&amp;&gt;</c></data>\n</tool_result>"
    )
    assert ET.fromstring(text).findtext("data/c") == "<&>"


@pytest.mark.parametrize(
    ("result", "read"),
    [
        ({"success": True, "data": None}, {"success": True, "data": None}),
        ({"success": False, "error": "a < b"}, {"success": False, "error": "a < b"}),
        ({"success": False}, {"success": False, "error": "Unknown error"}),
        ({"data": "x"}, {"success": True, "data": "x"}),
        ({"success": True, "data": {1: (2,)}}, {"success": True, "data": {"1": [2]}}),
    ],
)
def test_a_result_dict_is_read_back(result: Any, read: Any) -> None:
    assert parse_result(format_result("f", result)) == {"name": "f", **read}


def test_an_outcome_is_told_by_its_status() -> None:
    call = Call("f")
    denied = Outcome(call, Status.DENIED, error=CallDenied("f", "no"))
    pending = Outcome(call, Status.PENDING)
    blocks = Outcome(call, Status.OK, value=[Text("a"), Image(b"x")], content=(Text("a"),))
    value = Outcome(call, Status.OK, value={"n": 1})

    read = [parse_result(format_result("f", each)) for each in (denied, pending, blocks, value)]

    assert [each["success"] for each in read] == [False, False, True, True]
    assert read[0]["error"] == "The call of f was denied: no"
    assert read[1]["error"].startswith("The call ")
    assert [read[2]["data"], read[3]["data"]] == ["a", {"n": 1}]


@pytest.mark.parametrize("text", ["", "prose", "<tool_result>", "<a></a>", "<tool_result></x>"])
def test_other_text_is_no_result(text: str) -> None:
    with pytest.raises(ValueError, match="not a <tool_result>"):
        parse_result(text)


legal = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"]), max_size=12)
keys = legal | st.sampled_from(["item", "entry", "a b", "", "1", "é", "\n", '"'])
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | legal | st.sampled_from([" ", "\r\n", "true", "007", "1.0", "]]>", "<item>", "&amp;"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(data)
def test_every_result_is_well_formed_and_read_back(value: Any) -> None:
    text = format_result("f", {"success": True, "data": value})

    ET.fromstring(text)
    assert parse_result(text) == {"name": "f", "success": True, "data": value}


@given(st.text())
def test_characters_that_xml_forbids_are_replaced(value: str) -> None:
    ET.fromstring(format_result(value, {"success": False, "error": value}).encode())


def test_data_that_is_very_deep_or_no_data_at_all_is_told_as_text() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    ET.fromstring(format_result("f", {"success": True, "data": deep}))
    odd = parse_result(format_result("f", {"success": True, "data": {"x": ping}}))
    assert "ping" in odd["data"]["x"]
