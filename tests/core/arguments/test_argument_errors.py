"""One short message that names the path, what was expected and what came."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from wieldy import InvalidArguments, Status, Toolbox


class Line(BaseModel):
    price: Annotated[float, Field(ge=0)]
    name: str = ""


class Order(BaseModel):
    lines: list[Line]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = ""


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


def _positive(number: int) -> int:
    if number < 0:
        raise AssertionError("must be positive")
    return number


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even")
    return number


def _odd(number: int) -> int:
    if not number % 2:
        raise PydanticCustomError("odd", "must be odd")
    return number


async def _problems(annotation: Any, sent: Any) -> tuple[str, ...]:
    box = Toolbox(validation="strict")

    async def give(value: Any) -> None: ...

    give.__annotations__["value"] = annotation
    box.add(give)
    outcome = await box.call("give", sent)
    assert isinstance(outcome.error, InvalidArguments)
    assert outcome.text == f"Invalid arguments for give: {'; '.join(outcome.error.problems)}"
    return outcome.error.problems


@pytest.mark.parametrize(
    ("annotation", "sent", "problem"),
    [
        (int, {"value": "x"}, 'value: expected integer, got string "x"'),
        (int, {"value": None}, "value: expected integer, got null"),
        (int, {"value": [1]}, "value: expected integer, got array"),
        (int, {"value": {}}, "value: expected integer, got object"),
        (int, {"value": 1.5}, "value: expected integer, got number 1.5"),
        (int, {"value": float("nan")}, "value: expected integer, got number NaN"),
        (str, {"value": True}, "value: expected string, got boolean true"),
        (int, {}, "value: missing, expected integer"),
        (int, {"value": 1, "vlaue": 2}, "vlaue: there is no such argument, did you mean value?"),
        (int, {"value": 1, "other": 2}, "other: there is no such argument, expected value"),
        (int | None, {"value": "x"}, 'value: expected integer or null, got string "x"'),
        (list[int], {"value": [1, "x"]}, 'value[1]: expected integer, got string "x"'),
        (list[int], {"value": "x"}, 'value: expected array of integer, got string "x"'),
        (dict[str, int], {"value": {"a": "x"}}, 'value.a: expected integer, got string "x"'),
        (
            Annotated[int, Field(ge=1, lt=9)],
            {"value": 9},
            "value: expected integer (>= 1, < 9), got integer 9",
        ),
        (
            Annotated[str, Field(min_length=3, pattern="^a")],
            {"value": "b"},
            'value: expected string (at least 3 characters, matching ^a), got string "b"',
        ),
        (
            Annotated[list[int], Field(min_length=2)],
            {"value": [1]},
            "value: expected array of integer (at least 2 items), got array",
        ),
        (
            Order,
            {"value": {"lines": [{"price": 1}, {"price": -1}]}},
            "value.lines[1].price: expected number (>= 0), got integer -1",
        ),
        (
            Order,
            {"value": {"lines": [{"name": "x"}]}},
            "value.lines[0].price: missing, expected number (>= 0)",
        ),
        (
            Closed,
            {"value": {"nmae": 1}},
            "value.nmae: there is no such argument, did you mean name?",
        ),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"value": {"kind": "cat"}},
            "value.lives: missing, expected integer",
        ),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"value": {"kind": "cow"}},
            "value: expected 'kind' to be one of 'cat', 'dog', not 'cow', got object",
        ),
        (
            Literal["cat", "dog"],
            {"value": "cow"},
            "value: expected 'cat' or 'dog', got string \"cow\"",
        ),
        (
            Annotated[int, AfterValidator(_positive)],
            {"value": -3},
            "value: must be positive, got integer -3",
        ),
        (
            Annotated[int, AfterValidator(_even)],
            {"value": 3},
            "value: must be even, got integer 3",
        ),
        (Annotated[int, AfterValidator(_odd)], {"value": 2}, "value: must be odd, got integer 2"),
        (int, "[1]", "arguments: expected object, got array"),
        (int, 5, "arguments: expected object, got integer"),
        (int, {1: 2, "value": 1}, "[1]: Keys should be strings, got integer 2"),
    ],
)
async def test_problem_names_path_expected_and_got(
    annotation: Any, sent: Any, problem: str
) -> None:
    assert await _problems(annotation, sent) == (problem,)


FOREIGN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "maximum": 5},
        "list": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
        "inner": {
            "type": "object",
            "properties": {"name": {"$ref": "#/$defs/name"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        "choice": {"enum": ["a", 1]},
        "not": {"not": {"type": "null"}},
        "secret": {"type": "string", "maxLength": 3, "writeOnly": True},
    },
    "$defs": {"name": {"type": "string", "minLength": 2}},
    "additionalProperties": False,
    "minProperties": 1,
}


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"n": 6}, "n: expected integer (<= 5), got integer 6"),
        ({"n": float("nan")}, "n: expected integer (<= 5), got number NaN"),
        ({"list": [1, 1]}, "list: it has non-unique elements, got array"),
        ({"list": [1, "x"]}, 'list[1]: expected integer, got string "x"'),
        ({"inner": {}}, "inner.name: missing, expected string (at least 2 characters)"),
        (
            {"inner": {"name": "a"}},
            'inner.name: expected string (at least 2 characters), got string "a"',
        ),
        (
            {"inner": {"name": "ab", "nmae": 1}},
            "inner.nmae: there is no such argument, did you mean name?",
        ),
        ({"choice": "b"}, 'choice: expected one of "a", 1, got string "b"'),
        ({"not": None}, 'not: {"type":"null"} is not allowed for it, got null'),
        ({"secret": "hunter2"}, "secret: expected string (at most 3 characters), got string"),
        ({"N": 1}, "N: there is no such argument, did you mean n?"),
        ({}, "arguments: it has less than 1 property, got object"),
    ],
)
async def test_problem_with_a_foreign_schema_reads_the_same(
    sent: dict[str, Any], problem: str
) -> None:
    box = Toolbox(validation="strict")

    async def give(**values: Any) -> None: ...

    box.add(give, input_schema=FOREIGN)
    outcome = await box.call("give", sent)

    assert outcome.text == f"Invalid arguments for give: {problem}"


async def test_of_many_problems_the_first_few_are_told() -> None:
    problems = await _problems(list[int], {"value": ["x"] * 50})
    unknown = await _problems(int, {"value": 1, **{f"k{n}": n for n in range(1000)}})

    box = Toolbox()

    async def give(**values: Any) -> None: ...

    box.add(give, input_schema=FOREIGN)
    foreign = (await box.call("give", {"list": [f"x{n}" for n in range(500)]})).text

    assert foreign.endswith('list[4]: expected integer, got string "x4"; and more')
    assert [len(problems), problems[-1]] == [6, "and 45 more"]
    assert [len(unknown), unknown[-1]] == [6, "and 995 more"]


LARGE = 10_000_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"value": "x" * LARGE},
        lambda: {"x" * LARGE: 1},
        lambda: {"value": {"x" * LARGE: 1}},
        lambda: {"value": ["x" * LARGE]},
        lambda: "x" * LARGE,
        lambda: '{"value": [' + "1," * (LARGE // 2),
        lambda: '{"value": "' + '\\"' * (LARGE // 2),
        lambda: '"' + "x" * LARGE + '"',
        lambda: {"value": ["x"] * (LARGE // 100)},
        lambda: {f"key{n}": n for n in range(LARGE // 200)},
    ],
)
@pytest.mark.parametrize("foreign", [False, True])
async def test_message_is_short_whatever_was_sent(make: Any, foreign: bool) -> None:
    box = Toolbox()

    async def give(value: list[int]) -> None: ...

    async def take(**values: Any) -> None: ...

    schema = {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"type": "integer"}}},
        "required": ["value"],
        "additionalProperties": False,
    }
    box.add(give)
    box.add(take, input_schema=schema)
    outcome = await box.call("take" if foreign else "give", make())

    assert outcome.text.startswith(f"Invalid arguments for {outcome.call.tool}: ")
    assert len(outcome.text) < 1000


async def test_many_kinds_that_refer_to_each_other_take_bounded_time() -> None:
    kinds = {
        f"k{number}": {
            "type": "object",
            "properties": {
                "kind": {"const": f"k{number}"},
                "left": {"$ref": "#/$defs/any"},
                "right": {"$ref": "#/$defs/any"},
            },
            "required": ["kind", "left", "right"],
        }
        for number in range(12)
    }
    choices = [{"$ref": f"#/$defs/{name}"} for name in kinds]
    schema = {
        "type": "object",
        "properties": {"e": {"$ref": "#/$defs/any"}},
        "$defs": {**kinds, "any": {"anyOf": [*choices, {"type": "integer"}]}},
    }
    box = Toolbox()
    box.add(lambda e: e, name="evaluate", input_schema=schema)
    outcome = await box.call("evaluate", {"e": {"kind": "k0", "left": 1}})
    assert outcome.status is Status.ERROR


async def test_choices_within_choices_take_bounded_time() -> None:
    levels: dict[str, object] = {"d0": {"type": "integer"}}
    for number in range(25):
        array = {"type": "array", "items": {"$ref": f"#/$defs/d{number}"}}
        levels[f"d{number + 1}"] = {"anyOf": [array, dict(array)]}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/d25"}}, "$defs": levels}
    box = Toolbox()
    box.add(lambda n: n, name="nest", input_schema=schema)
    assert (await box.call("nest", {"n": 5})).status is Status.ERROR
