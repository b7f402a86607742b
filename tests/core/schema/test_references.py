"""References are followed however they are written, and to the same part everywhere."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Toolbox
from wieldy.core.schema.references import (
    choices_of,
    find_part,
    last_name,
    read_step,
    resolve_reference,
    split_reference,
    step_down,
    used_definitions,
    walk_choices,
    walk_parts,
    write_reference,
    write_step,
)
from wieldy.core.schema.result_wrapping import inner_schema, wrapped_schema
from wieldy.wire.structured.structured_stream import StructuredStream


async def take(**values: Any) -> Any:
    """Take it."""
    return values


def schema_with(reference: str, name: str) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "integer", "description": "how many"}
    if reference.rpartition("#")[2] in ("anchored", "an-anchor"):
        inner["$anchor"] = reference.rpartition("#")[2]
    if reference.startswith("plain.json"):
        inner["$id"] = "plain.json"
    return {
        "$id": "https://example.com/take.json",
        "type": "object",
        "properties": {"n": {"$ref": reference}},
        "required": ["n"],
        "$defs": {name: inner},
    }


REFERENCES = [
    ("#/$defs/a%20b", "a b"),
    ("#/$defs/a~1b%25", "a/b%"),
    ("#/$defs/%C3%A9~0", "é~"),
    ("#/%24defs/plain", "plain"),
    ("#/$defs%2Fplain", "plain"),
    ("https://example.com/take.json#/$defs/plain", "plain"),
    ("take.json#/$defs/a%20b", "a b"),
    ("#anchored", "plain"),
    ("#an-anchor", "a/b"),
    ("plain.json", "plain"),
    ("plain.json#anchored", "plain"),
]


@pytest.mark.parametrize(("reference", "name"), REFERENCES)
async def test_what_a_reference_leads_to_is_repaired_described_and_lowered(
    reference: str, name: str
) -> None:
    box = Toolbox()
    box.add(take, name="take", input_schema=schema_with(reference, name))

    repaired = await box.call("take", {"n": "5"})
    refused = await box.call("take", {"n": "x"})

    assert repaired.value == {"n": 5}
    assert [each["kind"] for each in repaired.metadata["repairs"]] == ["integer_from_text"]
    assert "expected integer" in refused.text
    for provider in ("openai", "anthropic", "gemini"):
        [described] = box.schemas(provider, strict=provider == "openai")
        assert "integer" in str(described) and "json_text" not in str(described)


@pytest.mark.parametrize(("reference", "name"), REFERENCES)
async def test_a_preset_below_a_reference_is_removed_from_what_it_leads_to(
    reference: str, name: str
) -> None:
    schema = schema_with(reference, name)
    schema["properties"]["key"] = {"type": "string"}
    box = Toolbox()
    box.add(take, name="take", input_schema=schema, presets={"key": "own"})
    [shown] = box.schemas("mcp")
    found = find_part(shown["inputSchema"]["properties"]["n"]["$ref"], shown["inputSchema"])
    assert (found["type"], found["description"]) == ("integer", "how many")
    assert (await box.call("take", {"n": "5"})).value == {"n": 5, "key": "own"}


@pytest.mark.parametrize(("reference", "name"), REFERENCES)
def test_structured_output_knows_what_a_reference_leads_to(reference: str, name: str) -> None:
    schema = schema_with(reference, name)
    schema["$defs"][name]["type"] = "array"
    schema = {key: schema[key] for key in ("$id", "$defs")} | {"$ref": reference}
    stream = StructuredStream(schema)
    stream.feed('See {this} first: ["a"]')
    stream.close()
    assert stream.value == ["a"]


@pytest.mark.parametrize("names", [("$defs", "a b"), ("$defs", "a/b~%"), ("x", "é", "0")])
def test_a_reference_is_read_as_it_was_written(names: tuple[str, ...]) -> None:
    assert split_reference(write_reference(*names)) == [*names]


# Names of all kinds, and often those with characters that JSON Pointers or URLs escape.
NAME = st.one_of(
    st.text("~/%#01 $é", max_size=4), st.text(st.characters(codec="utf-8"), max_size=6)
)
NAMES = st.lists(NAME, max_size=4)


@given(NAMES)
def test_every_written_reference_is_read_back(names: list[str]) -> None:
    written = write_reference(*names)
    assert written.isascii() and " " not in written
    assert split_reference(written) == names
    assert not names or last_name(written) == names[-1]


@given(NAME)
def test_every_step_of_a_pointer_is_read_back(name: str) -> None:
    assert "/" not in write_step(name)
    assert read_step(write_step(name)) == name


@given(NAME, NAME)
def test_a_definition_of_any_name_is_found_where_the_validator_finds_it(
    name: str, other: str
) -> None:
    reference = write_reference("$defs", name)
    schema: dict[str, Any] = {
        "$ref": reference,
        "$defs": {name: {"const": 1}, f"{other}-": {"const": 2}},
    }
    assert resolve_reference(schema, schema) == {"const": 1}
    assert used_definitions(schema) == {("$defs", name)}
    assert jsonschema_rs.is_valid(schema, 1) and not jsonschema_rs.is_valid(schema, 2)


@given(NAME)
def test_a_wrapped_schema_keeps_its_references(name: str) -> None:
    schema = {
        "type": "array",
        "items": {"$ref": write_reference("$defs", name).replace("$", "%24")},
        "contains": {"$ref": write_reference("x", name)},
        "x": {name: {"const": 1}},
        "$defs": {name: {"const": 1}},
    }
    outer = wrapped_schema(schema)
    assert jsonschema_rs.is_valid(outer, {"result": [1]})
    assert not jsonschema_rs.is_valid(outer, {"result": [2]})
    assert inner_schema(outer) == schema


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(NAME, inner) | st.lists(inner)))
def test_each_part_is_found_by_the_reference_to_it(value: Any) -> None:
    def check(here: Any, names: list[str]) -> int:
        assert step_down(value, names) is here
        assert find_part(write_reference(*names), value) is here
        inner: list[tuple[Any, Any]] = []
        if isinstance(here, dict | list):
            inner = list(here.items() if isinstance(here, dict) else enumerate(here))
        below = sum(check(each, [*names, str(name)]) for name, each in inner)
        return below + isinstance(here, dict)

    assert len(list(walk_parts(value))) == check(value, [])


RING = {"anyOf": [{"$ref": "#/$defs/b"}, True], "$defs": {"b": {"oneOf": [{"$ref": "#"}]}}}


def test_walks_through_rings_end_and_find_each_part_once() -> None:
    assert len(list(walk_parts(RING, RING))) == 5
    assert [sorted(part) for part in walk_choices(RING, RING)] == [
        ["$defs", "anyOf"], ["$ref"], ["oneOf"], ["$ref"]
    ]  # fmt: skip
    assert resolve_reference({"$ref": "#/a"}, {"a": {"$ref": "#/a"}}) == {}


@pytest.mark.parametrize(
    "reference",
    [None, 5, "", "x", "#x", "#/x", "other.json#/$defs/a", "https://example.com/#", "#/list/2"],
)
def test_a_reference_to_nothing_finds_nothing(reference: Any) -> None:
    root = {"$defs": {"a": {"type": "integer"}, "odd": True}, "list": [1, 2]}
    found = None if reference != "" else root
    assert find_part(reference, root) is found
    assert choices_of({"$ref": reference}, root) == ([root] if reference == "" else [])
