"""Derived tools: another name, other arguments, the same function; the original is untouched."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from wieldy import Argument, DefinitionError, Status, Tool, Toolbox
from wieldy.core.choices import ValidationMode


class Place(BaseModel):
    city: str


async def weather(place: str, days: int = 1, unit: str = "C") -> list[Any]:
    """Tell the weather.

    Args:
        place: where
    """
    return [place, days, unit]


ORIGINAL = Tool(weather)
PLACE = {"type": "string", "description": "where"}
DAYS = {"type": "integer", "default": 1}
UNIT = {"type": "string", "default": "C"}
SHARED = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("arguments", "schema", "sent", "value"),
    [
        (
            {"place": Argument(name="city")},
            {"properties": {"city": PLACE, "days": DAYS, "unit": UNIT}, "required": ["city"]},
            {"city": "Rome"},
            ["Rome", 1, "C"],
        ),
        (
            {"place": Argument(description="a town")},
            {
                "properties": {
                    "place": {"type": "string", "description": "a town"},
                    "days": DAYS,
                    "unit": UNIT,
                },
                "required": ["place"],
            },
            {"place": "Rome"},
            ["Rome", 1, "C"],
        ),
        (
            {"place": Argument(default="Oslo")},
            {"properties": {"place": {**PLACE, "default": "Oslo"}, "days": DAYS, "unit": UNIT}},
            {},
            ["Oslo", 1, "C"],
        ),
        (
            {"place": Argument(default="Oslo")},
            {"properties": {"place": {**PLACE, "default": "Oslo"}, "days": DAYS, "unit": UNIT}},
            {"place": "Rome"},
            ["Rome", 1, "C"],
        ),
        (
            {"unit": Argument(hidden=True, default="F"), "days": Argument(hidden=True)},
            {"properties": {"place": PLACE}, "required": ["place"]},
            {"place": "Rome"},
            ["Rome", 1, "F"],
        ),
        (
            {"place": Argument(name="unit"), "unit": Argument(name="place")},
            {"properties": {"unit": PLACE, "days": DAYS, "place": UNIT}, "required": ["unit"]},
            {"unit": "Rome", "place": "F"},
            ["Rome", 1, "F"],
        ),
        (
            {"place": Argument(hidden=True, default="Oslo"), "unit": Argument(name="place")},
            {"properties": {"days": DAYS, "place": UNIT}},
            {"days": "2", "place": "F"},
            ["Oslo", 2, "F"],
        ),
    ],
)
async def test_derived_tool_shows_and_takes_other_arguments(
    arguments: dict[str, Argument], schema: dict[str, Any], sent: dict[str, Any], value: list[Any]
) -> None:
    box = Toolbox()
    before = ORIGINAL.input_schema, ORIGINAL.fingerprint
    derived = box.add(ORIGINAL.derive(name="derived", arguments=arguments))

    assert derived.input_schema == {**SHARED, **schema}
    assert (await box.call("derived", sent)).unwrap() == value
    assert (ORIGINAL.input_schema, ORIGINAL.fingerprint) == before


async def test_derived_tool_has_its_own_name_and_text_beside_the_original() -> None:
    box = Toolbox()
    box.add(ORIGINAL)
    derived = box.add(ORIGINAL.derive(name="forecast", description="Look ahead."))

    assert (derived.name, derived.description) == ("forecast", "Look ahead.")
    assert (ORIGINAL.name, ORIGINAL.description) == ("weather", "Tell the weather.")
    assert derived.fingerprint != ORIGINAL.fingerprint
    assert box.names == ["weather", "forecast"]
    assert [(await box.call(name, {"place": "Rome"})).value for name in box.names] == [
        ["Rome", 1, "C"],
        ["Rome", 1, "C"],
    ]


@pytest.mark.parametrize("validation", ["repair", "strict", "describe"])
@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"unit": Argument(hidden=True)}, {"place": "Rome", "unit": "F"}),
        ({"place": Argument(name="city")}, {"city": "Rome", "place": "Oslo"}),
        ({"place": Argument(name="city")}, {"place": "Oslo"}),
    ],
)
async def test_hidden_or_renamed_argument_can_not_be_set_by_its_old_name(
    validation: ValidationMode, arguments: dict[str, Argument], sent: dict[str, Any]
) -> None:
    box = Toolbox()
    (old,) = arguments
    box.add(ORIGINAL.derive(name="derived", arguments=arguments), validation=validation)

    outcome = await box.call("derived", sent)

    assert outcome.text == f"Invalid arguments for derived: {old}: there is no such argument"


@pytest.mark.parametrize("validation", ["repair", "strict", "describe"])
async def test_fixed_argument_never_gives_way(validation: ValidationMode) -> None:
    box = Toolbox()
    fixed = {"unit": Argument(hidden=True, default="F")}
    box.add(ORIGINAL.derive(name="derived", arguments=fixed), validation=validation)

    for sent in ({"place": "Rome", "unit": "K"}, '{"place": "Rome", "unit": "K"}'):
        outcome = await box.call("derived", sent)
        assert outcome.value in (None, ["Rome", 1, "F"])
    assert (await box.call("derived", {"place": "Rome"})).value[-1] == "F"


async def test_tools_are_derived_from_derived_ones() -> None:
    box = Toolbox()
    first = ORIGINAL.derive(arguments={"place": Argument(name="city"), "days": Argument(name="n")})
    second = first.derive(
        name="second",
        arguments={"city": Argument(name="town"), "n": Argument(hidden=True, default=7)},
    )
    box.add(second)

    assert second.input_schema == {
        **SHARED,
        "properties": {"town": PLACE, "unit": UNIT},
        "required": ["town"],
    }
    assert (await box.call("second", {"town": "Rome"})).value == ["Rome", 7, "C"]
    for old in ("city", "place", "n", "days"):
        assert (await box.call("second", {"town": "Rome", old: 1})).value in (
            None,
            ["Rome", 7, "C"],
        )


async def test_messages_and_repairs_use_the_names_that_the_model_sees() -> None:
    box = Toolbox()
    renamed = {"place": Argument(name="city"), "days": Argument(name="day_count")}
    box.add(ORIGINAL.derive(name="derived", arguments=renamed))

    wrong = await box.call("derived", {"day_count": "soon"})
    mended = await box.call("derived", {"city": "Rome", "dayCount": "3"})

    assert wrong.text == (
        "Invalid arguments for derived: city: missing, expected string; "
        'day_count: expected integer, got string "soon"'
    )
    assert mended.value == ["Rome", 3, "C"]
    assert [each["path"] for each in mended.metadata["repairs"]] == ["day_count", "day_count"]


async def test_foreign_schema_can_be_reshaped_too() -> None:
    box = Toolbox()
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }

    async def give(**values: Any) -> dict[str, Any]:
        return values

    original = Tool(give, input_schema=schema)
    changes = {"a": Argument(name="first"), "b": Argument(hidden=True, default=2)}
    box.add(original.derive(name="derived", arguments=changes))

    assert (await box.call("derived", {"first": "1"})).value == {"a": 1, "b": 2}
    assert (await box.call("derived", {"first": "x"})).text == (
        'Invalid arguments for derived: first: expected integer, got string "x"'
    )
    assert (await box.call("derived", {})).text == (
        "Invalid arguments for derived: first: missing, expected integer"
    )
    assert original.input_schema == schema


async def test_argument_with_an_alias_can_be_reshaped() -> None:
    box = Toolbox()

    async def give(n: Annotated[int, Field(alias="N")], z: int = 0) -> list[int]:
        return [n, z]

    original = Tool(give)
    box.add(original.derive(name="hidden", arguments={"N": Argument(hidden=True, default=4)}))
    box.add(original.derive(name="renamed", arguments={"N": Argument(name="number")}))

    assert (await box.call("hidden", {"z": 1})).value == [4, 1]
    assert (await box.call("hidden", {"N": 9})).status is Status.ERROR
    assert (await box.call("renamed", {"number": 5})).value == [5, 0]
    assert (await box.call("renamed", {"number": "x"})).text == (
        'Invalid arguments for renamed: number: expected integer, got string "x"'
    )


async def test_default_of_a_derived_tool_is_hydrated() -> None:
    box = Toolbox()

    async def give(place: Place) -> Place:
        return place

    changes = {"place": Argument(default={"city": "Oslo"})}
    box.add(Tool(give).derive(name="derived", arguments=changes))

    assert (await box.call("derived")).value == Place(city="Oslo")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"nope": Argument(name="x")}, "it has no argument 'nope' to change"),
        ({"place": Argument(hidden=True)}, "hiding 'place' needs a default: it is required"),
        ({"place": Argument(name="days")}, "two arguments would be named 'days'"),
        (
            {"place": Argument(name="x"), "days": Argument(name="x")},
            "two arguments would be named 'x'",
        ),
    ],
)
def test_change_that_can_not_work_is_refused(arguments: dict[str, Argument], reason: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        ORIGINAL.derive(arguments=arguments)

    assert caught.value.reason == reason
