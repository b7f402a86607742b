"""What a schema gives where nothing was sent."""

from typing import Any

import pytest

from wieldy.core.schema.schema_defaults import (
    read_defaults,
    states_default,
    without_required_defaults,
)

NODE = {
    "$defs": {"node": {"properties": {"size": {"default": 1}, "next": {"$ref": "#/$defs/node"}}}},
    "properties": {"first": {"$ref": "#/$defs/node"}},
}
LOOP = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"b": {"$ref": "#/$defs/a"}}}


def fill_defaults(schema: Any, sent: Any) -> Any:
    defaults = read_defaults(schema)
    return sent if defaults is None else defaults.fill(sent)


@pytest.mark.parametrize(
    ("schema", "sent", "filled"),
    [
        (None, {"a": 1}, {"a": 1}),
        (True, {"a": 1}, {"a": 1}),
        ({"properties": {"a": {"default": [1]}}}, {}, {"a": [1]}),
        ({"properties": {"a": {"default": 1}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"default": None}}}, {}, {"a": None}),
        ({"properties": {"a": True}}, {"b": 2}, {"b": 2}),
        ({"properties": [1]}, {"b": 2}, {"b": 2}),
        ({"properties": {"a": {"default": 1}}}, "text", "text"),
        (
            {"properties": {"a": {"properties": {"b": {"default": 2}}}}},
            {"a": {"c": 3}},
            {"a": {"c": 3, "b": 2}},
        ),
        (
            {"properties": {"a": {"items": {"properties": {"b": {"default": 2}}}}}},
            {"a": [{}, {"b": 1}, "x"]},
            {"a": [{"b": 2}, {"b": 1}, "x"]},
        ),
        (
            {"properties": {"a": {"prefixItems": [{"properties": {"b": {"default": 2}}}]}}},
            {"a": [{}, {}]},
            {"a": [{"b": 2}, {}]},
        ),
        (NODE, {"first": {"next": {}}}, {"first": {"size": 1, "next": {"size": 1}}}),
        (
            {"$defs": {"a": {"default": 3}}, "properties": {"b": {"$ref": "#/$defs/a"}}},
            {},
            {"b": 3},
        ),
        (LOOP, {"b": {"c": 1}}, {"b": {"c": 1}}),
        (LOOP, {}, {}),
    ],
)
def test_defaults_of_a_schema_fill_what_was_not_sent(schema: Any, sent: Any, filled: Any) -> None:
    assert fill_defaults(schema, sent) == filled


def test_a_filled_default_is_not_the_schemas_own() -> None:
    schema = {"properties": {"a": {"default": [1]}}}

    fill_defaults(schema, {})["a"].append(2)

    assert schema == {"properties": {"a": {"default": [1]}}}


def test_what_was_sent_is_not_changed() -> None:
    sent: dict[str, Any] = {"a": {}}

    fill_defaults({"properties": {"a": {"properties": {"b": {"default": 2}}}}}, sent)

    assert sent == {"a": {}}


def test_what_has_a_default_is_not_required_at_any_depth() -> None:
    part = {"required": ["a", "b"], "properties": {"a": {"default": 1}, "b": {}}}
    schema = {**part, "$defs": {"x": part}, "allOf": [part], "default": part}
    left = {**part, "required": ["b"]}

    changed = without_required_defaults(schema)

    assert changed == {**left, "$defs": {"x": left}, "allOf": [left], "default": part}
    assert part["required"] == ["a", "b"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [({}, False), (True, False), (NODE, True), ({"allOf": [{"default": None}]}, True)],
)
def test_whether_a_schema_gives_anything(schema: Any, expected: bool) -> None:
    assert states_default(schema) is expected
