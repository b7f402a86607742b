"""Tools as Python functions: names and signatures that a program can be written against."""

import ast
import keyword
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from wieldy import Tool
from wieldy.wire.python_names import RESERVED, python_names
from wieldy.wire.python_stubs import parameter_names, tool_stub


class Place(BaseModel):
    """A place, with others around it."""

    city: str
    near: "list[Place]" = []


class Weather(BaseModel):
    """The weather at a place."""

    degrees: float
    sky: Literal["clear", "grey"] | None = None


def test_a_stub_has_types_defaults_and_descriptions() -> None:
    async def forecast(place: Place, days: int = 3, unit: Literal["c", "f"] = "c") -> list[Weather]:
        """Forecast the weather.

        Args:
            place: where
            days: how many days
        """
        return []

    assert tool_stub(Tool(forecast), "forecast") == (
        """class ForecastPlace(TypedDict):
    city: str
    near: NotRequired[list[ForecastPlace]]
class ForecastResult(TypedDict):
    degrees: float
    sky: NotRequired[Literal['clear', 'grey'] | None]
async def forecast(*, place: ForecastPlace, days: int = 3, unit: Literal['c', 'f'] = 'c')"""
        ''' -> list[ForecastResult]:
    """Forecast the weather.
    place: where
    days: how many days
    """'''
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, "Any"),
        (True, "Any"),
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"const": 3}, "Literal[3]"),
        ({"enum": ["a", None]}, "Literal['a', None]"),
        ({"anyOf": [{"type": "string"}, {"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"type": "object", "properties": {"a-b": {}}}, "ActX"),
        ({"type": 3}, "Any"),
    ],
)
def test_each_part_of_a_schema_has_a_type(schema: Any, written: str) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    stub = tool_stub(Tool(lambda **sent: None, name="act", input_schema=whole), "act")
    assert f"async def act(*, x: {written})" in stub
    ast.parse(stub)


@pytest.mark.parametrize(
    "description", ["", 'He said """no"""', 'ends in "', "back\\slash\\", "a\nb\n\n  c", "\\"]
)
def test_any_description_leaves_the_stub_python(description: str) -> None:
    ast.parse(tool_stub(Tool(print, name="act", description=description, input_schema={}), "act"))


def test_arguments_with_other_names_get_some_that_python_accepts() -> None:
    sent: dict[str, Any] = {"properties": {"from": {}, "user-id": {}, "id": {}}}
    tool = Tool(lambda **sent: None, name="act", input_schema=sent)
    assert parameter_names(tool) == {"from": "from_", "user-id": "user_id", "id": "id"}


@given(st.lists(st.text(), max_size=8))
def test_names_become_identifiers_of_which_no_two_are_the_same(names: list[str]) -> None:
    found = python_names(names)
    assert found.keys() == set(names)
    assert len(set(found.values())) == len(found)
    assert all(each.isidentifier() and not keyword.iskeyword(each) for each in found.values())
    assert RESERVED.isdisjoint(found.values())
    assert python_names(reversed(names)) == found, "their order does not matter"
