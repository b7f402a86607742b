"""What a preset fills in is nowhere in a schema that was given."""

import functools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from wieldy import Argument, Status, Tool, Toolbox
from wieldy.core.schema.preset_removal import without_filled_in

A, KEY = {"type": "string"}, {"type": "string", "description": "the key"}
BOTH = {"a": A, "key": KEY}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"required": ["a", "key"]}, {"required": ["a"]}),
        ({"required": ["key"]}, {}),
        ({"anyOf": [{"required": ["a"]}, {"required": ["key"]}]}, {}),
        ({"anyOf": [{"required": ["a", "key"]}, {"required": ["b", "key"]}]},
         {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ({"allOf": [{"required": ["key"]}, {"required": ["a"]}]}, {"allOf": [{"required": ["a"]}]}),
        ({"allOf": [{"required": ["key"], "properties": BOTH}]},
         {"allOf": [{"properties": {"a": A}}]}),
        ({"oneOf": [{"required": ["key"]}, {"required": ["a"]}]},
         {"oneOf": [{}, {"required": ["a"]}]}),
        ({"oneOf": [{"properties": {"key": {"const": "mine"}, "a": A}},
                    {"properties": {"key": {"const": "other"}}, "required": ["key"]}]},
         {"oneOf": [{"properties": {"a": A}}]}),
        ({"if": {"required": ["key"]}, "then": {"required": ["a", "key"]}},
         {"if": {}, "then": {"required": ["a"]}}),
        ({"if": {"properties": {"key": {"enum": ["x"]}}}, "then": {"required": ["a"]}},
         {"if": False, "then": {"required": ["a"]}}),
        ({"dependentRequired": {"a": ["key"]}}, {}),
        ({"dependentRequired": {"a": ["b", "key"], "key": ["a"]}},
         {"dependentRequired": {"a": ["b"]}, "required": ["a"]}),
        ({"dependencies": {"key": ["a"], "a": {"required": ["key"]}}},
         {"dependencies": {"a": {}}, "required": ["a"]}),
        ({"dependentSchemas": {"key": {"required": ["a", "key"]}}},
         {"allOf": [{"required": ["a"]}]}),
        ({"minProperties": 2}, {"minProperties": 1}),
        ({"examples": [{"a": "x", "key": "y"}], "default": {"key": "y"}},
         {"examples": [{"a": "x"}], "default": {}}),
        ({"allOf": [{"$ref": "#/$defs/B"}], "$defs": {"B": {"required": ["a", "key"]}}},
         {"allOf": [{"$ref": "#/$defs/B-1"}], "$defs": {"B-1": {"required": ["a"]}}}),
        ({"allOf": [{"$ref": "#/definitions/B"}], "definitions": {"B": {"required": ["a"]}}},
         {"allOf": [{"$ref": "#/definitions/B"}], "definitions": {"B": {"required": ["a"]}}}),
    ],
)  # fmt: skip
def test_a_preset_is_taken_out_of_every_part_that_speaks_of_the_arguments(
    given: dict[str, Any], shown: dict[str, Any]
) -> None:
    whole = {"type": "object", "properties": BOTH, **given}
    before = json.dumps(whole)

    made = without_filled_in(whole, {"key": "mine", "elsewhere": 1})

    assert made == {"type": "object", "properties": {"a": A}, **shown}
    assert json.dumps(whole) == before


def test_a_schema_that_is_a_reference_is_opened_and_others_keep_what_they_refer_to() -> None:
    node = {"type": "object", "properties": {**BOTH, "next": {"$ref": "#/$defs/Node"}},
            "required": ["key"]}  # fmt: skip
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}

    made = without_filled_in(schema, {"key": "mine"})

    properties = {"a": A, "next": {"$ref": "#/$defs/Node"}}
    assert made == {"type": "object", "properties": properties, "$defs": {"Node": node}}


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    loop = {"anyOf": [{"$ref": "#/$defs/A"}, {"required": ["key", "a"]}]}
    endless = {"properties": BOTH, "allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": loop}}

    made = without_filled_in(endless, {"key": 1})

    filled = {"anyOf": [{"$ref": "#/$defs/A-1"}, {"required": ["a"]}]}
    assert made == {
        "properties": {"a": A}, "allOf": [{"$ref": "#/$defs/A-1"}], "$defs": {"A-1": filled},
    }  # fmt: skip


def test_a_schema_of_many_ways_to_the_same_part_stays_as_long_as_it_was() -> None:
    parts: dict[str, Any] = {
        f"P{n}": {"anyOf": [{"$ref": f"#/$defs/P{n + 1}"}] * 2} for n in range(60)
    }
    parts["P60"] = {"required": ["key", "a"]}
    schema = {"properties": BOTH, "$ref": "#/$defs/P0", "$defs": parts}

    made = without_filled_in(schema, {"key": "mine"})

    assert len(json.dumps(made)) < 2 * len(json.dumps(schema))
    assert '"key"' not in json.dumps(made)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": BOTH,
    "required": ["a", "key"],
    "allOf": [{"required": ["key"]}],
    "additionalProperties": False,
}


def show(**given: Any) -> str:
    """Show."""
    return f"{sorted(given.items())}"


@pytest.mark.parametrize(
    "tool",
    [
        Tool(show, name="show", input_schema=SCHEMA, presets={"key": "mine"}),
        Tool(show, name="show", input_schema=lambda: SCHEMA, presets={"key": "mine"}),
        Tool(functools.partial(show, key="mine"), name="show", input_schema=SCHEMA),
        Tool(show, name="show", input_schema=SCHEMA).derive(
            arguments={"key": Argument(hidden=True, default="mine")}
        ),
        Tool(show, name="show", input_schema={"$ref": "#/$defs/All", "$defs": {"All": SCHEMA}},
             presets={"key": "mine"}),
    ],
    ids=["given", "called", "partial", "derived", "reference"],
)  # fmt: skip
async def test_a_model_neither_sees_a_preset_nor_needs_nor_can_set_it(tool: Tool) -> None:
    box = Toolbox()
    box.add(tool)

    shown: Mapping[str, Any] = box.schemas("openai")[0]["function"]["parameters"]
    assert (list(shown["properties"]), shown["required"]) == (["a"], ["a"])
    assert "key" not in json.dumps({name: part for name, part in shown.items() if name != "$defs"})
    outcome = await box.call("show", {"a": "x"})
    assert outcome.text == "[('a', 'x'), ('key', 'mine')]"
    outcome = await box.call("show", {"a": "x", "key": "theirs"})
    assert outcome.text == "[('a', 'x'), ('key', 'mine')]"
    assert (await box.call("show", {})).status is Status.ERROR
