"""Tools as Python functions: names and signatures that a program can be written against."""

import ast
import keyword
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from wieldy import Tool
from wieldy.wire.python_names import RESERVED, python_names
from wieldy.wire.python_stubs import parameter_names, tool_outline, tool_stub


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


ANY_TEXT = st.text(st.characters(), max_size=12)
# The first draw reads the table of all characters, which takes a while on a busy machine.
CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@CALM
@example("2nd", "body", "x", "D.")
@example("none", "\u5929", "x", "D.")
@example("__", "_", "x", "D.")
@example("any", "\u5929", "x", "D.")
@example("act", "body", "\ufb01", 'a\r"""\rimport os\x0b"""\u2029"')
@example("act", "body", "x", "a\0b\ud800")
@given(ANY_TEXT.filter(bool), ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_a_stub_is_one_function_and_its_types_whatever_its_names_and_texts_are(
    name: str, argument: str, member: str, said: str
) -> None:
    part = {"type": "object", "properties": {member: {"type": "string"}}, "description": said}
    whole = {"type": "object", "properties": {argument: part}}
    tool = Tool(lambda **sent: None, name="act", description=said, input_schema=whole)
    written = python_names([name])[name]
    *types, function = ast.parse(tool_stub(tool, written)).body
    assert isinstance(function, ast.AsyncFunctionDef)
    assert function.name == written
    assert all(isinstance(each, ast.Expr) for each in function.body)
    (kind,) = types
    title = kind.name if isinstance(kind, ast.ClassDef) else ast.unparse(kind).partition(" ")[0]
    assert title not in {"Any", "Literal", "NotRequired", "TypedDict"}
    assert len(tool_outline(tool, written).splitlines()) == 1


def test_arguments_with_other_names_get_some_that_python_accepts() -> None:
    sent: dict[str, Any] = {"properties": {"from": {}, "user-id": {}, "id": {}}}
    tool = Tool(lambda **sent: None, name="act", input_schema=sent)
    assert parameter_names(tool) == {"from": "from_", "user-id": "user_id", "id": "id"}


@CALM
@given(st.lists(st.text(), max_size=8))
def test_names_become_identifiers_of_which_no_two_are_the_same(names: list[str]) -> None:
    found = python_names(names)
    assert found.keys() == set(names)
    assert len(set(found.values())) == len(found)
    assert all(each.isidentifier() and not keyword.iskeyword(each) for each in found.values())
    assert RESERVED.isdisjoint(found.values())
    assert python_names(reversed(names)) == found, "their order does not matter"
