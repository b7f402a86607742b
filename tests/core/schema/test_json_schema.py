"""JSON Schema from a signature, and from the schema back to what the function declared."""

import inspect
import json
import re
import sys
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple, NotRequired
from uuid import UUID

import jsonschema_rs
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from wieldy import DefinitionError, Status, Text, Tool, Toolbox


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Item(BaseModel):
    """Something to buy."""

    title: str = Field(description="its name")
    price: Annotated[float, Field(ge=0)] = 0


class Tree(BaseModel):
    kids: list["Tree"] = []


@dataclass
class Point:
    x: int
    y: int = 0


class Old(typing.TypedDict):
    a: int
    b: NotRequired[str]


class New(typing_extensions.TypedDict, total=False):
    a: typing_extensions.Required[int]
    tree: Tree


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Card(BaseModel):
    kind: Literal["card"]
    number: int


class Cash(BaseModel):
    kind: Literal["cash"]


ITEM = {
    "type": "object",
    "description": "Something to buy.",
    "properties": {
        "title": {"type": "string", "description": "its name"},
        "price": {"type": "number", "minimum": 0, "default": 0},
    },
    "required": ["title"],
}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
OLD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
}
TREE = {
    "type": "object",
    "properties": {
        "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
    },
}


TEA = Item(title="tea")
LETTERS = {"b", "a", "c"}
MARKER = object()
EMPTY: Any = Field(default_factory=list)


def tool_for(annotation: Any) -> Tool:
    async def give(value: Any) -> Any:
        return value

    give.__annotations__["value"] = annotation
    return Tool(give)


@pytest.mark.parametrize(
    ("annotation", "shown", "definitions"),
    [
        (Any, {}, {}),
        (object, {}, {}),
        (str, {"type": "string"}, {}),
        (int, {"type": "integer"}, {}),
        (float, {"type": "number"}, {}),
        (bool, {"type": "boolean"}, {}),
        (None, {"type": "null"}, {}),
        (list, {"type": "array", "items": {}}, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}, {}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, {}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
            {},
        ),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, {}),
        (
            dict[str, list[int]],
            {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "integer"}},
            },
            {},
        ),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, {}),
        (typing.Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {}),  # noqa: UP007
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, {}),
        (Literal["a", 1, None], {"enum": ["a", 1, None]}, {}),
        (
            Colour,
            {"$ref": "#/$defs/Colour"},
            {"Colour": {"type": "string", "enum": ["red", "blue"]}},
        ),
        (
            Annotated[int, "how many"],
            {"type": "integer", "description": "how many"},
            {},
        ),
        (
            Annotated[int, Field(gt=0, description="how many"), "less than that"],
            {"type": "integer", "exclusiveMinimum": 0, "description": "how many"},
            {},
        ),
        (date, {"type": "string", "format": "date"}, {}),
        (UUID, {"type": "string", "format": "uuid"}, {}),
        (Path, {"type": "string", "format": "path"}, {}),
        (Item, {"$ref": "#/$defs/Item"}, {"Item": ITEM}),
        (
            dict[str, Item | None],
            {
                "type": "object",
                "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}]},
            },
            {"Item": ITEM},
        ),
        (Point, {"$ref": "#/$defs/Point"}, {"Point": POINT}),
        (Old, {"$ref": "#/$defs/Old"}, {"Old": OLD}),
        (
            list[New],
            {"type": "array", "items": {"$ref": "#/$defs/New"}},
            {
                "New": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "tree": {"$ref": "#/$defs/Tree"}},
                    "required": ["a"],
                },
                "Tree": TREE,
            },
        ),
        (Tree, {"$ref": "#/$defs/Tree"}, {"Tree": TREE}),
    ],
)
def test_annotation_is_described_without_titles(
    annotation: Any, shown: dict[str, Any], definitions: dict[str, Any]
) -> None:
    expected: dict[str, Any] = {
        "type": "object",
        "properties": {"value": shown},
        "additionalProperties": False,
        "required": ["value"],
    }
    if definitions:
        expected["$defs"] = definitions

    assert tool_for(annotation).input_schema == expected


def test_property_called_title_survives_where_titles_are_taken_out() -> None:
    def give(title: str, properties: Item) -> None: ...

    foreign = {
        "title": "Gone",
        "type": "object",
        "properties": {
            "title": {"title": "Gone", "type": "string", "default": {"title": "kept"}},
            "properties": {"type": "object", "properties": {"title": {"title": "Gone"}}},
        },
        "$defs": {"title": {"title": "Gone", "enum": [{"title": "kept"}]}},
        "dependentRequired": {"title": ["properties"]},
    }

    assert list(Tool(give).input_schema["properties"]) == ["title", "properties"]
    assert Tool(give, input_schema=foreign).input_schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "default": {"title": "kept"}},
            "properties": {"type": "object", "properties": {"title": {}}},
        },
        "$defs": {"title": {"enum": [{"title": "kept"}]}},
        "dependentRequired": {"title": ["properties"]},
    }


def test_defaults_are_shown_as_json_and_left_out_where_json_has_none() -> None:
    def give(
        a: int = 1,
        b: Colour = Colour.RED,
        c: Item = TEA,
        d: set[str] = LETTERS,
        e: Any = MARKER,
        f: int = Field(default=3, ge=2, alias="F", description="at least two"),
        g: list[int] = EMPTY,
        h: None = None,
    ) -> None: ...

    assert Tool(give).input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 1},
            "b": {"$ref": "#/$defs/Colour", "default": "red"},
            "c": {"$ref": "#/$defs/Item", "default": {"title": "tea", "price": 0}},
            "d": {
                "type": "array",
                "items": {"type": "string"},
                "uniqueItems": True,
                "default": ["a", "b", "c"],
            },
            "e": {},
            "F": {"type": "integer", "default": 3, "minimum": 2, "description": "at least two"},
            "g": {"type": "array", "items": {"type": "integer"}},
            "h": {"type": "null", "default": None},
        },
        "$defs": {"Colour": {"type": "string", "enum": ["red", "blue"]}, "Item": ITEM},
        "additionalProperties": False,
    }


async def test_defaults_reach_the_function_as_they_are() -> None:
    box = Toolbox()

    async def give(
        a: Any = MARKER,
        b: Item = TEA,
        c: int = Field(default=3, alias="C"),
        d: list[int] = EMPTY,
    ) -> list[Any]:
        d.append(1)
        return [a is MARKER, b, c, d]

    box.add(give)

    for _ in range(2):
        assert (await box.call("give")).unwrap() == [True, TEA, 3, [1]]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (Item, ITEM),
        (Old, OLD),
        (
            list[Point],
            {"type": "array", "items": {"$ref": "#/$defs/Point"}, "$defs": {"Point": POINT}},
        ),
        (Iterator[int], {"type": "array", "items": {"type": "integer"}}),
        (AsyncIterator[int], {"type": "array", "items": {"type": "integer"}}),
        (Generator[str, None, None], {"type": "array", "items": {"type": "string"}}),
        (Generator[str, None, int], {"type": "integer"}),
        (Awaitable[int], {"type": "integer"}),
        (None, None),
        (Any, None),
        (Text, None),
        (Callable[[], int], None),
    ],
)
def test_output_schema_is_read_from_the_return_annotation(
    annotation: Any, schema: dict[str, Any] | None
) -> None:
    def give() -> Any: ...

    give.__annotations__["return"] = annotation

    assert Tool(give).output_schema == schema
    assert Tool(give, output_schema={"type": "null", "title": "T"}).output_schema == {
        "type": "null"
    }


class Opaque:
    pass


class Unfinished(BaseModel):
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


class OldTree(typing.TypedDict):
    kids: "list[OldTree]"


# From Python 3.12 on pydantic can describe the standard library's own as well.
OLD_TYPED_DICTS: list[tuple[Any, str]] = (
    [(OldTree, "Please use `typing_extensions.TypedDict`")] if sys.version_info < (3, 12) else []
)


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        (Opaque, "Opaque"),
        (list[Opaque] | None, "Opaque"),
        (Callable[[], int], "CallableSchema"),
        (Unfinished, "not fully defined"),
        *OLD_TYPED_DICTS,
    ],
)
def test_type_that_can_not_be_described_is_refused_by_name_with_a_way_out(
    annotation: Any, hint: str
) -> None:
    def give(fine: int, wrong: Any) -> None: ...

    give.__annotations__["wrong"] = annotation

    with pytest.raises(DefinitionError) as caught:
        _ = Tool(give).input_schema

    reason = caught.value.reason
    assert reason.startswith("the parameter 'wrong' can't be described to a model (")
    assert reason.endswith(
        "Give it as a preset, annotate it with another type, or pass input_schema={…}."
    )
    assert hint in reason
    assert list(Tool(give, presets={"wrong": 1}).input_schema["properties"]) == ["fine"]


@pytest.mark.parametrize(
    ("annotation", "sent", "value"),
    [
        (Item, {"title": "t"}, Item(title="t")),
        (list[Item], [{"title": "t", "price": 2}], [Item(title="t", price=2)]),
        (Point, {"x": 1}, Point(1)),
        (Pair, [1], Pair(1)),
        (Old, {"a": 1}, {"a": 1}),
        (New, {"a": 1, "tree": {"kids": [{}]}}, {"a": 1, "tree": Tree(kids=[Tree()])}),
        (Colour, "red", Colour.RED),
        (dict[Colour, Level], {"red": 2}, {Colour.RED: Level.HIGH}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (date, "2026-01-02", date(2026, 1, 2)),
        (datetime, "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        (Decimal, "1.50", Decimal("1.50")),
        (Path, "/a", Path("/a")),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678123456781234567812345678")),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (float, 1, 1.0),
        (Item | Point, {"x": 1}, Point(1)),
        (Card | Cash, {"kind": "cash"}, Cash(kind="cash")),
        (Literal[1, True], True, True),
    ],
)
async def test_arguments_arrive_as_what_was_declared(
    annotation: Any, sent: Any, value: Any
) -> None:
    box = Toolbox()
    box.add(tool_for(annotation))

    for arguments in ({"value": sent}, json.dumps({"value": sent})):
        outcome = await box.call("give", arguments)
        assert outcome.unwrap() == value
        assert type(outcome.value) is type(value)
        assert "repairs" not in outcome.metadata


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (Level, True),
        (Literal[1], True),
        (Literal[True], 1),
        (int, True),
        (float, True),
        (bool, "yes"),
        (str, 1),
        (dict[str, int], [1]),
        (Item, {"price": 1}),
        (Colour, "green"),
        (Card | Cash, {"kind": "card"}),
        (Annotated[int, Field(ge=5)], 4),
        (tuple[int, str], [1]),
    ],
)
async def test_what_the_schema_refuses_a_strict_tool_refuses(annotation: Any, sent: Any) -> None:
    box = Toolbox(validation="strict")
    tool = box.add(tool_for(annotation))
    schema = {**tool.input_schema, "$schema": "https://json-schema.org/draft/2020-12/schema"}

    assert not jsonschema_rs.validator_for(schema).is_valid({"value": sent})
    for arguments in ({"value": sent}, json.dumps({"value": sent})):
        assert (await box.call("give", arguments)).status is Status.ERROR


async def test_one_type_may_stand_at_several_parameters() -> None:
    box = Toolbox()

    async def give(a: Level, b: Level, c: list[Level], d: Item, e: Item) -> list[Any]:
        return [a, b, c, d, e]

    box.add(give)
    sent = {"a": 1, "b": "2", "c": [1], "d": {"title": "x"}, "e": {"title": "y"}}

    assert (await box.call("give", sent)).unwrap() == [
        Level.LOW,
        Level.HIGH,
        [Level.LOW],
        Item(title="x"),
        Item(title="y"),
    ]
    assert (await box.call("give", {**sent, "b": True})).status is Status.ERROR


class Strictish(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int


scalars: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-99, 99),
    bool: st.booleans(),
    Colour: st.sampled_from(["red", "blue"]),
    Level: st.sampled_from([1, 2]),
    Literal["x", 2]: st.sampled_from(["x", 2]),
    Annotated[int, Field(ge=0, le=9)]: st.integers(0, 9),
    Item: st.fixed_dictionaries(
        {"title": st.text(max_size=3)}, optional={"price": st.integers(0, 9)}
    ),
    Strictish: st.fixed_dictionaries({"n": st.integers()}),
    Point: st.fixed_dictionaries({"x": st.integers()}, optional={"y": st.integers()}),
    Old: st.fixed_dictionaries({"a": st.integers()}, optional={"b": st.text(max_size=3)}),
    Tree: st.just({"kids": [{"kids": []}, {}]}),
    date: st.dates().map(str),
}
Described = tuple[Any, st.SearchStrategy[Any]]


def _wider(inner: st.SearchStrategy[Described]) -> st.SearchStrategy[Described]:
    """A type around another, with what JSON it takes."""

    def listed(each: Described) -> Described:
        return GenericAlias(list, (each[0],)), st.lists(each[1], max_size=3)

    def keyed(each: Described) -> Described:
        keys = st.text(max_size=3)
        return GenericAlias(dict, (str, each[0])), st.dictionaries(keys, each[1], max_size=3)

    def paired(each: Described) -> Described:
        return GenericAlias(tuple, (each[0], int)), st.tuples(each[1], st.integers()).map(list)

    def optional(each: Described) -> Described:
        return each[0] | None, st.none() | each[1]

    def modelled(each: Described) -> Described:
        return create_model("Model", inner=(each[0], ...)), st.fixed_dictionaries(
            {"inner": each[1]}
        )

    def recorded(each: Described) -> Described:
        return make_dataclass("Record", [("inner", each[0])]), st.fixed_dictionaries(
            {"inner": each[1]}
        )

    return st.one_of(*(inner.map(f) for f in (listed, keyed, paired, optional, modelled, recorded)))


# A typed dict of the old kind is understood wherever a parameter names it, not within a model.
plain_types = st.sampled_from([(kind, sent) for kind, sent in scalars.items() if kind is not Old])
described = st.recursive(plain_types, _wider, max_leaves=4) | st.just((Old, scalars[Old]))


def tool_of(kinds: dict[str, Any]) -> Tool:
    async def give(**values: Any) -> dict[str, Any]:
        return values

    give.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, annotation=k)
            for n, k in kinds.items()
        ]
    )
    give.__annotations__ = kinds
    return Tool(give)


@settings(max_examples=200)
@given(st.data())
async def test_valid_json_is_hydrated_without_repair_for_any_signature(data: st.DataObject) -> None:
    parameters = data.draw(st.dictionaries(st.sampled_from("abc"), described, min_size=1))
    kinds = {name: kind for name, (kind, _) in parameters.items()}
    box = Toolbox()
    tool = box.add(tool_of(kinds))
    sent = {name: data.draw(values) for name, (_, values) in parameters.items()}

    outcome = await box.call("give", sent)
    from_text = await box.call("give", json.dumps(sent))

    assert jsonschema_rs.validator_for(tool.input_schema).is_valid(sent)
    assert '"title": "' not in json.dumps(tool.input_schema)
    expected = {
        name: value if kind is Old else TypeAdapter(kind).validate_python(value)
        for (name, value), kind in zip(sent.items(), kinds.values(), strict=True)
    }
    assert outcome.unwrap() == from_text.unwrap() == expected
    assert "repairs" not in {**outcome.metadata, **from_text.metadata}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "x", "n", "title", "kids"]), inner, max_size=3)
    ),
    max_leaves=6,
)
schema_types = st.sampled_from([kind for kind in scalars if kind is not date]).map(
    lambda kind: (kind, scalars[kind])
)


@settings(max_examples=200)
@given(
    st.recursive(schema_types.filter(lambda each: each[0] is not Old), _wider, max_leaves=3),
    json_values,
)
async def test_whatever_a_strict_tool_accepts_its_schema_accepts(
    kind: Described, value: Any
) -> None:
    box = Toolbox(validation="strict")
    tool = box.add(tool_of({"value": kind[0]}))

    outcome = await box.call("give", {"value": value})

    if outcome.ok:
        assert jsonschema_rs.validator_for(tool.input_schema).is_valid({"value": value})
    else:
        assert outcome.text.startswith("Invalid arguments for give: value")


class Size(Enum):
    SMALL = "s"
    LARGE = 2
    ODD = (1, 2)


def _model(name: str, inner: type[BaseModel] | None = None, **fields: Any) -> type[BaseModel]:
    """A model of a name; others may have the same one."""
    more = {} if inner is None else {"inner": (inner, ...)}
    made: type[BaseModel] = create_model(name, **{**fields, **more})
    return made


def _colliding() -> list[tuple[Any, ...]]:
    left, right = _model("Point", x=(int, ...)), _model("Point", y=(str, ...))
    same = _model("Point", x=(int, ...))
    return [
        (left,),
        (left, right),
        (left, same),
        (_model("Line", left), right),
        (_model("Line", left), _model("Line", right)),
        (_model("Line", left), _model("Line", same), left),
        (list[left], dict[str, right], left | None),  # type: ignore[valid-type]
    ]


@pytest.mark.parametrize("types", _colliding(), ids=str)
def test_models_are_told_apart_as_pydantic_does(types: tuple[Any, ...]) -> None:
    def use(**values: Any) -> None: ...

    names = [f"a{place}" for place in range(len(types))]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
        for name, kind in zip(names, types, strict=True)
    ]
    use.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    use.__annotations__ = dict(zip(names, types, strict=True))
    ours = Tool(use).input_schema
    fields = {name: (kind, ...) for name, kind in zip(names, types, strict=True)}
    theirs = create_model("Whole", **fields).model_json_schema()  # type: ignore[call-overload]
    assert set(ours.get("$defs", {})) == set(theirs.get("$defs", {}))
    assert _references(ours["properties"]) == _references(theirs["properties"])


def _references(schema: Any) -> list[str]:
    return re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))


@pytest.mark.parametrize("size", list(Size))
def test_a_member_of_an_enum_is_shown_as_its_value(size: Size) -> None:
    def pick(size: Size = size) -> None: ...

    shown = Tool(pick).input_schema["properties"]["size"]["default"]
    assert shown == json.loads(json.dumps(size.value))
