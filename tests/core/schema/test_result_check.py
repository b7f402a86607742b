"""A result that is not what its tool promises is an error that keeps the value."""

import datetime
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, Field, SecretStr

from wieldy import DefinitionError, Image, InvalidResult, Outcome, Status, Tool, Toolbox
from wieldy.core.schema.result_check import promised_result


class Point(BaseModel):
    x: int
    at: datetime.date | None = None
    name: str = Field(default="", serialization_alias="called")


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


@dataclass
class Pair:
    left: int
    right: str


class Row(TypedDict):
    when: datetime.datetime


def giving(value: Any, kind: Any) -> Any:
    """A function that is said to give one thing and gives another."""

    async def give() -> Any:
        return value

    give.__annotations__["return"] = kind
    return give


def deep(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, int),
        ("a", str),
        (None, str | None),
        ([1, 2], list[int]),
        ((1, "a"), tuple[int, str]),
        ({1, 2}, set[int]),
        (b"\xff", bytes),
        (Point(x=1, at=datetime.date(2026, 1, 2), name="a"), Point),
        ([Point(x=1)], list[Point]),
        ({"a": Point(x=1)}, dict[str, Point]),
        (Tree(name="a", children=[Tree(name="b")]), Tree),
        (Pair(1, "a"), Pair),
        ({"when": datetime.datetime(2026, 1, 2)}, Row),
        (Point(x=1), Point | None),
        (["x" * 1000] * 1000, list[str]),
        (Image(b"png", "image/png"), Image),
        (object(), Any),
    ],
)
async def test_a_result_of_the_declared_type_fits(value: Any, kind: Any) -> None:
    box = Toolbox(check_output=True)
    box.add(giving(value, kind))

    outcome = await box.call("give")

    assert (outcome.status, outcome.error) == (Status.OK, None)
    assert outcome.value is value


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        ("one", int, 'it is not of type "integer"'),
        (None, str, 'it is not of type "string"'),
        (float("nan"), float, 'it is not of type "number"'),
        ([1, "two"], list[int], 'at 1: it is not of type "integer"'),
        ({"x": "one"}, Point, "at x: "),
        ({"name": "a", "children": [{}]}, Tree, "at children/0/name: it is required"),
        ({"y": 1}, Point, "at x: it is required and missing"),
        (object(), dict[str, int], 'it is not of type "object"'),
        (deep(300), int, "it is nested more than 100 levels deep"),
        # How deep a value may be to be written as JSON depends on the version of Python.
        (deep(2000), int, "it "),
        (["x" * 1000] * 1000, list[int], 'at 0: it is not of type "integer"'),
    ],
)
async def test_a_result_of_another_type_is_an_error_that_keeps_it(
    value: Any, kind: Any, said: str
) -> None:
    box = Toolbox()
    box.add(giving(value, kind), check_output=True)

    outcome = await box.call("give")

    assert outcome.status is Status.ERROR
    assert outcome.value is value
    assert outcome.text.startswith("The result of give does not fit its output schema: ")
    assert said in outcome.text
    with pytest.raises(InvalidResult):
        outcome.unwrap()


async def test_local_functions_are_held_to_their_schemas_only_where_asked() -> None:
    box, strict = Toolbox(), Toolbox(check_output=True)
    for each in (box, strict):
        each.add(giving("one", int))
        each.add(giving("one", int), "loose", check_output=False)

    async def statuses(box: Toolbox, **options: Any) -> list[str]:
        return [(await box.call(name, **options)).status.value for name in ("give", "loose")]

    assert await statuses(box) == ["ok", "ok"]
    assert await statuses(strict) == ["error", "ok"]
    assert await statuses(box, check_output=True) == ["error", "error"], "whoever calls may ask"


async def test_a_misfit_is_never_tried_again() -> None:
    ran: list[int] = []
    box = Toolbox()

    @box.tool(check_output=True, retries=3, read_only=True)
    async def count() -> str:
        ran.append(1)
        return 1  # type: ignore[return-value]

    assert (await box.call("count")).status is Status.ERROR
    assert len(ran) == 1


async def test_observers_and_the_ledger_know_the_error_and_the_value(tmp_path: Path) -> None:
    heard: list[Outcome] = []
    async with Toolbox(store=f"sqlite:///{tmp_path / 'a.db'}", observers=[heard.append]) as box:
        box.add(giving([1], str), check_output=True)
        outcome = await box.call("give")
        entry = await box.ledger.get(outcome.call.id)

    assert heard == [outcome]
    assert entry is not None
    kept = entry.outcome()
    assert (entry.state, kept.value) == ("error", [1])
    assert isinstance(kept.error, InvalidResult)
    assert str(kept.error) == str(outcome.error)


async def test_what_a_stream_showed_is_kept_beside_the_error() -> None:
    box = Toolbox()

    async def words() -> AsyncIterator[int]:
        yield "one"  # type: ignore[misc]
        yield "two"  # type: ignore[misc]

    box.add(words, check_output=True)
    outcome = await box.call("words")

    assert (outcome.status, outcome.value) == (Status.ERROR, ["one", "two"])
    assert [block.to_dict()["text"] for block in outcome.content] == ["one", "two"]


async def test_the_message_tells_no_secret() -> None:
    box = Toolbox()

    async def show(key: SecretStr) -> dict[str, int]:
        return {key.get_secret_value(): "x"}  # type: ignore[dict-item]

    box.add(show, check_output=True)
    outcome = await box.call("show", {"key": "sesame-open"})

    assert outcome.status is Status.ERROR
    assert "sesame" not in f"{outcome.text} {outcome.content}"


async def test_a_result_that_its_own_limit_cut_is_no_misfit() -> None:
    box = Toolbox()
    box.add(giving(["x" * 100] * 10, list[str]), max_result=50)

    outcome = await box.call("give", check_output=True)

    assert outcome.status is Status.OK
    assert "[cut:" in outcome.text


async def test_a_failing_tool_fails_as_before() -> None:
    box = Toolbox()

    @box.tool(check_output=True)
    async def fall() -> int:
        raise ValueError("over")

    assert (await box.call("fall")).text == "ValueError: over"


def test_a_tool_whose_value_is_made_into_another_promises_nothing() -> None:
    def one() -> int:
        return 1

    assert promised_result(Tool(one, postprocess=str)) is None
    assert promised_result(Tool(one, postprocess=str, output_schema={"type": "string"})) is not None


BROKEN: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
    {"type": "nothing"},
]


@pytest.mark.parametrize("schema", BROKEN)
def test_a_server_s_schema_that_cant_be_used_is_no_promise(schema: dict[str, Any]) -> None:
    assert promised_result(Tool(deep, output_schema=schema, source="mcp:shop")) is None


@pytest.mark.parametrize("schema", BROKEN)
async def test_a_program_s_own_schema_that_cant_be_used_is_told_when_it_is_needed(
    schema: dict[str, Any],
) -> None:
    box = Toolbox()
    box.add(deep, output_schema=schema)
    assert (await box.call("deep", {"depth": 1})).ok

    outcome = await box.call("deep", {"depth": 1}, check_output=True)

    assert "its output schema can't be used" in outcome.text
    with pytest.raises(DefinitionError, match="its output schema can't be used"):
        box.schemas("mcp")


def test_the_schema_is_compiled_once_for_a_tool() -> None:
    made = Tool(deep, output_schema={"type": "array"})

    assert promised_result(made) is promised_result(made)


@pytest.mark.parametrize("whole_box", [True, False])
async def test_a_schema_that_can_not_be_used_is_told_before_the_function_runs(
    whole_box: bool,
) -> None:
    ran: list[str] = []
    box = Toolbox(check_output=whole_box)
    box.add(Tool(ran.append, name="pay", output_schema={"$ref": "#/$defs/none"}))

    outcome = await box.call("pay", {"object": "x"}, check_output=not whole_box)

    assert "its output schema can't be used" in outcome.text
    assert ran == []
