"""Repair before failure, guided by the schema, with a receipt for each change."""

import copy
import json
from enum import IntEnum
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from wieldy import Status, Toolbox
from wieldy.core.arguments.argument_repair import repair_arguments


class Address(BaseModel):
    street_name: str
    number: int = 0


class User(BaseModel):
    user_name: str
    address: Address | None = None


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first_name: str = "f"
    last_name: str = "l"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: str


class Level(IntEnum):
    LOW = 1
    HIGH = 2


def changed(path: str, kind: str, before: Any, after: Any) -> dict[str, Any]:
    return {"path": path, "kind": kind, "before": before, "after": after}


def box_for(annotation: Any, **options: Any) -> Toolbox:
    box = Toolbox()

    async def give(value: Any) -> Any:
        return value

    give.__annotations__["value"] = annotation
    box.add(give, **options)
    return box


@pytest.mark.parametrize(
    ("annotation", "sent", "value", "receipts"),
    [
        (int, "5", 5, [changed("value", "integer_from_text", "5", 5)]),
        (int, " -5 ", -5, [changed("value", "integer_from_text", " -5 ", -5)]),
        (int, "5.0", 5, [changed("value", "integer_from_text", "5.0", 5)]),
        (int, 5.0, 5, [changed("value", "integer_from_number", 5.0, 5)]),
        (
            int,
            "9" * 399,
            int("9" * 399),
            [changed("value", "integer_from_text", "9" * 399, int("9" * 399))],
        ),
        (float, "2.5", 2.5, [changed("value", "number_from_text", "2.5", 2.5)]),
        (float, "1e3", 1000.0, [changed("value", "number_from_text", "1e3", 1000.0)]),
        (bool, "true", True, [changed("value", "boolean_from_text", "true", True)]),
        (bool, "False", False, [changed("value", "boolean_from_text", "False", False)]),
        (bool, 1, True, [changed("value", "boolean_from_number", 1, True)]),
        (int | None, "null", None, [changed("value", "null_from_text", "null", None)]),
        (int | None, "None", None, [changed("value", "null_from_text", "None", None)]),
        (int | None, "7", 7, [changed("value", "integer_from_text", "7", 7)]),
        (Level, "2", Level.HIGH, [changed("value", "integer_from_text", "2", 2)]),
        (Literal[1, 2], "2", 2, [changed("value", "integer_from_text", "2", 2)]),
        (list[int], "[1, 2]", [1, 2], [{"path": "value", "kind": "array_from_json"}]),
        (list[int], "[1, 2,]", [1, 2], [{"path": "value", "kind": "array_from_loose_json"}]),
        (list[int], 1, [1], [{"path": "value", "kind": "array_from_item"}]),
        (
            list[int],
            "1",
            [1],
            [
                {"path": "value", "kind": "array_from_item"},
                changed("value[0]", "integer_from_text", "1", 1),
            ],
        ),
        (list[str], "one", ["one"], [{"path": "value", "kind": "array_from_item"}]),
        (set[str], "one", {"one"}, [{"path": "value", "kind": "array_from_item"}]),
        (list[int], [1, "2"], [1, 2], [changed("value[1]", "integer_from_text", "2", 2)]),
        (tuple[int, str], ["1", "2"], (1, "2"), [changed("value[0]", "integer_from_text", "1", 1)]),
        (
            dict[str, int],
            '{"a": "1"}',
            {"a": 1},
            [
                {"path": "value", "kind": "object_from_json"},
                changed("value.a", "integer_from_text", "1", 1),
            ],
        ),
        (
            Address,
            '{"street_name": "5", "number": 5,}',
            Address(street_name="5", number=5),
            [{"path": "value", "kind": "object_from_loose_json"}],
        ),
        (
            list[Address],
            {"street_name": "s"},
            [Address(street_name="s")],
            [{"path": "value", "kind": "array_from_item"}],
        ),
        (
            User,
            {"userName": "u", "address": {"streetname": "s", "number": "3"}},
            User(user_name="u", address=Address(street_name="s", number=3)),
            [
                changed("value.user_name", "renamed", "userName", "user_name"),
                changed("value.address.street_name", "renamed", "streetname", "street_name"),
                changed("value.address.number", "integer_from_text", "3", 3),
            ],
        ),
        (
            Closed,
            {"firstName": "a"},
            Closed(first_name="a"),
            [changed("value.first_name", "renamed", "firstName", "first_name")],
        ),
        (
            Cat | Dog,
            {"kind": "cat", "lives": "9"},
            Cat(kind="cat", lives=9),
            [changed("value.lives", "integer_from_text", "9", 9)],
        ),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            '{"kind": "cat", "lives": "9"}',
            Cat(kind="cat", lives=9),
            [
                {"path": "value", "kind": "object_from_json"},
                changed("value.lives", "integer_from_text", "9", 9),
            ],
        ),
        (list[int] | int, "5", 5, [changed("value", "integer_from_text", "5", 5)]),
        (list[int] | int, "[5]", [5], [{"path": "value", "kind": "array_from_json"}]),
    ],
)
async def test_what_models_often_get_wrong_is_put_right(
    annotation: Any, sent: Any, value: Any, receipts: list[dict[str, Any]]
) -> None:
    box = box_for(annotation)

    for arguments in ({"value": sent}, json.dumps({"value": sent})):
        outcome = await box.call("give", arguments)
        assert outcome.unwrap() == value
        assert type(outcome.value) is type(value)
        assert outcome.metadata["repairs"] == receipts


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (str, "5"),
        (str, "null"),
        (str, "true"),
        (str, '{"a": 1,}'),
        (str, "[1]"),
        (str, ""),
        (str | int, "5"),
        (str | None, "null"),
        (str | list[str], "[1]"),
        (list[str], ["5", "null", "[1]"]),
        (dict[str, str], {"a": "5"}),
        (Literal["1", "2"], "1"),
        (Any, "5"),
    ],
)
async def test_text_is_never_touched_where_text_is_declared(annotation: Any, sent: Any) -> None:
    outcome = await box_for(annotation).call("give", {"value": sent})

    assert outcome.unwrap() == sent
    assert "repairs" not in outcome.metadata


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (int, "five"),
        (int, ""),
        (int, "5.5"),
        (int, 5.5),
        (int, "1e999"),
        (int, "NaN"),
        (int, "12345678901234567890.0"),
        (int, True),
        (int, "true"),
        (int, "0x10"),
        (int, "1_000"),
        (int, "٣"),
        (int, "9" * 401),
        (int, [5]),
        (float, "Infinity"),
        (bool, "yes"),
        (bool, 2),
        (bool, ""),
        (str, 5),
        (str, None),
        (list[int], "one"),
        (list[int], None),
        (list[int], "[1, 2"),
        (list[str], "[1, 2"),
        (dict[str, int], "[]"),
        (dict[str, int], "a: 1"),
        (Address, "[1]"),
        (Cat | Dog, {"lives": "9"}),
    ],
)
async def test_what_can_not_be_told_for_certain_is_refused(annotation: Any, sent: Any) -> None:
    outcome = await box_for(annotation).call("give", {"value": sent})

    assert outcome.status is Status.ERROR
    assert outcome.text.startswith("Invalid arguments for give: value")
    assert "repairs" not in outcome.metadata


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        ({"userName": "u"}, ["u", 10]),
        ({"USER_NAME": "u", "maxresults": 1}, ["u", 1]),
        ({"user-name": "u"}, ["u", 10]),
        ({"usr_name": "u"}, ["u", 10]),
        ({"user_name": "u", "max_result": 1}, ["u", 1]),
    ],
)
async def test_near_miss_names_are_put_right(sent: dict[str, Any], value: list[Any]) -> None:
    box = Toolbox()

    async def find(user_name: str, max_results: int = 10) -> list[Any]:
        return [user_name, max_results]

    box.add(find)
    outcome = await box.call("find", sent)

    assert outcome.unwrap() == value
    assert {each["kind"] for each in outcome.metadata["repairs"]} == {"renamed"}


@pytest.mark.parametrize(
    "sent",
    [
        {"first_nam": 1, "first_name": 2},  # the name is given already
        {"item": 1},  # two names are as near
        {"firstName": 1, "first-name": 2},  # two claim the same name
        {"colour": 1},  # nothing is near
        {"first_name" * 30: 1},
    ],
)
async def test_ambiguous_names_are_not_guessed(sent: dict[str, Any]) -> None:
    box = Toolbox()

    async def give(first_name: int = 0, item1: int = 0, item2: int = 0) -> None: ...

    box.add(give)
    outcome = await box.call("give", sent)

    assert (outcome.status, "there is no such argument" in outcome.text) == (Status.ERROR, True)


async def test_open_object_keeps_names_of_its_own_unless_a_required_one_is_missing() -> None:
    box = Toolbox()

    async def give(user_name: str, note: str = "", **rest: Any) -> list[Any]:
        return [user_name, note, rest]

    box.add(give)

    kept = await box.call("give", {"user_name": "u", "Note": "n", "userName": 1})
    mended = await box.call("give", {"userName": "u", "Note": "n"})

    assert kept.unwrap() == ["u", "", {"Note": "n", "userName": 1}]
    assert "repairs" not in kept.metadata
    assert mended.unwrap() == ["u", "", {"Note": "n"}]


async def test_hydrated_values_stand_beside_repaired_ones() -> None:
    box = Toolbox()

    async def give(user: User, count: int) -> list[Any]:
        return [user, count]

    box.add(give)
    user = User(user_name="u")

    assert (await box.call("give", {"user": user, "count": "2"})).unwrap() == [user, 2]


@pytest.mark.parametrize(
    ("schema", "sent", "value"),
    [
        (
            {
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"a": "1"},
            {"a": 1},
        ),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}]}, {"a": "1"}, {"a": 1}),
        ({"properties": {"a": {"type": ["integer", "null"]}}}, {"a": "1"}, {"a": 1}),
        (
            {
                "properties": {"a": {"$ref": "#/definitions/n"}},
                "definitions": {"n": {"type": "integer"}},
            },
            {"a": "1"},
            {"a": 1},
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "properties": {"a": {"type": "array", "items": [{"type": "integer"}]}},
            },
            {"a": ["1", "2"]},
            {"a": [1, "2"]},
        ),
        (
            {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
            {"a": '["1"]'},
            {"a": [1]},
        ),
        ({"properties": {"a_b": {"type": "integer"}}, "required": ["a_b"]}, {"aB": 1}, {"a_b": 1}),
        ({"additionalProperties": {"type": "integer"}}, {"z": "1"}, {"z": 1}),
    ],
)
async def test_foreign_schemas_guide_repair_too(
    schema: dict[str, Any], sent: dict[str, Any], value: dict[str, Any]
) -> None:
    box = Toolbox()

    async def give(**values: Any) -> dict[str, Any]:
        return values

    box.add(give, input_schema=schema)

    assert (await box.call("give", sent)).unwrap() == value


def test_schema_that_refers_to_itself_for_ever_repairs_nothing() -> None:
    endless = {"allOf": [{"$ref": "#"}]}

    assert repair_arguments({"a": "1"}, endless) == ({"a": "1"}, [])
    assert repair_arguments({"a": "1"}, {"properties": {"a": {"$ref": "#/properties/a"}}}) == (
        {"a": "1"},
        [],
    )


names = st.sampled_from(["user_name", "userName", "username", "count", "a", "b"])
scalar_schemas = st.sampled_from(
    [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
    + [{}, {"type": ["integer", "string"]}, {"enum": [1, "1"]}, {"const": True}]
)


def _wider(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(
            lambda properties, closed, required: {
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if name in required],
                **({"additionalProperties": False} if closed else {}),
            },
            st.dictionaries(names, inner, max_size=3),
            st.booleans(),
            st.sets(names),
        )
    )


objects = st.recursive(scalar_schemas, _wider, max_leaves=6).map(
    lambda schema: {"type": "object", "properties": {"a": schema}, "additionalProperties": False}
)
sent_values = st.recursive(
    st.sampled_from(
        [None, True, 0, 1, 2.0, 2.5, "1", "true", "null", "text", "[1]", '{"a": 1}', ""]
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=200)
@given(objects, sent_values)
def test_repair_leaves_the_input_alone_and_what_is_valid_and_is_done_after_once(
    schema: dict[str, Any], value: Any
) -> None:
    arguments = {"a": value}
    before = copy.deepcopy(arguments)

    fixed, receipts = repair_arguments(arguments, schema)

    assert json.dumps(arguments) == json.dumps(before)
    valid = jsonschema_rs.validator_for(schema).is_valid(arguments)
    # JSON Schema calls 2.0 an integer; a function that declared one still gets an int.
    if valid and "integer_from_number" not in {each["kind"] for each in receipts}:
        assert (fixed, receipts) == (arguments, [])
    if not receipts:
        assert json.dumps(fixed) == json.dumps(arguments)
    if jsonschema_rs.validator_for(schema).is_valid(fixed):
        assert repair_arguments(fixed, schema) == (fixed, [])


@given(st.text())
def test_no_text_is_changed_where_text_is_declared(text: str) -> None:
    for schema in (
        {"type": "string"},
        {"type": ["string", "integer"]},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    ):
        root = {"type": "object", "properties": {"a": schema}}
        assert repair_arguments({"a": text}, root) == ({"a": text}, [])
