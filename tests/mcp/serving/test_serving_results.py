"""What clients get of a result: structured content as it was promised, or an error."""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult
from pydantic import BaseModel, SecretStr

from tests.mcp.clients import MODES, Mode, Person, text_of
from tests.mcp.conftest import raw
from wieldy import Image, Status, Toolbox
from wieldy.mcp import server


class Point(BaseModel):
    x: int


class Tree(BaseModel):
    children: "list[Tree]" = []


def wrapped(inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
        "x-fastmcp-wrap-result": True,
        **more,
    }


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
LIST = {"type": "array", "items": {"$ref": "#/$defs/Point"}}
POINTS = wrapped(LIST, **{"$defs": {"Point": POINT}})
MAYBE = wrapped({"anyOf": [{"type": "integer"}, {"type": "null"}]})


def giving(value: Any, kind: Any) -> Any:
    """A function that is said to give one thing and gives another."""

    async def give() -> Any:
        return value

    give.__annotations__["return"] = kind
    return give


async def ask(box: Toolbox, mode: Mode, name: str = "give") -> tuple[Any, CallToolResult]:
    """What a client of a box is told of a tool, and what a call of it gives."""
    async with Client(server(box), mode=mode) as client:
        [told] = [each for each in (await client.list_tools()).tools if each.name == name]
        return told.output_schema, await client.call_tool(name, {})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("value", "kind", "schema", "structured"),
    [
        (3, int, wrapped({"type": "integer"}), {"result": 3}),
        ("a", str, wrapped({"type": "string"}), {"result": "a"}),
        ("", str, wrapped({"type": "string"}), {"result": ""}),
        (False, bool, wrapped({"type": "boolean"}), {"result": False}),
        (None, int | None, MAYBE, {"result": None}),
        ([Point(x=1)], list[Point], POINTS, {"result": [{"x": 1}]}),
        (Point(x=1), Point, POINT, {"x": 1}),
        ({"a": 1}, Any, None, {"a": 1}),
        ([1], Any, None, None),
        (None, None, None, None),
        (Image(b"png", "image/png"), Image, None, None),
    ],
)
async def test_every_declared_value_has_structured_content(
    mode: Mode, value: Any, kind: Any, schema: Any, structured: Any
) -> None:
    box = Toolbox()
    box.add(giving(value, kind))

    told, given = await ask(box, mode)

    assert (told, given.structured_content, given.is_error) == (schema, structured, False)
    marked = structured is not None and told is not None and "x-fastmcp-wrap-result" in told
    assert ((given.meta or {}).get("fastmcp") == {"wrap_result": True}) is marked


@pytest.mark.parametrize("mode", MODES)
async def test_a_model_that_contains_itself_is_an_object(mode: Mode) -> None:
    box = Toolbox()
    box.add(giving(Tree(children=[Tree()]), Tree))

    told, given = await ask(box, mode)

    assert told["type"] == "object"
    assert given.structured_content == {"children": [{"children": []}]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("three", int),
        (None, int),
        ([1, "two"], list[int]),
        ({"y": 1}, Point),
        ("text", Point),
        (["x" * 1000] * 1000, list[int]),
        (object(), dict[str, int]),
    ],
)
async def test_a_result_that_does_not_fit_is_an_error_and_breaks_no_client(
    mode: Mode, value: Any, kind: Any, tmp_path: Path
) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path / 'a.db'}") as box:
        box.add(giving(value, kind))
        _, given = await ask(box, mode)
        [entry] = await box.ledger.list()

    assert given.is_error and given.structured_content is None
    assert "does not fit its output schema" in text_of(given)
    assert entry.state == "error"


@pytest.mark.parametrize("mode", MODES)
async def test_the_client_reads_the_value_that_does_not_fit(mode: Mode) -> None:
    box = Toolbox()
    box.add(giving("three", int))

    _, given = await ask(box, mode)

    assert [block.text for block in given.content if block.type == "text"][1:] == ["three"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_a_person_approved_is_held_to_the_schema_too(mode: Mode) -> None:
    heard: list[Status] = []
    box = Toolbox(observers=[lambda outcome: heard.append(outcome.status)])
    box.add(giving("three", int), permission="confirm")
    async with Client(server(box), mode=mode, elicitation_callback=Person()) as client:
        await client.list_tools()
        given = await client.call_tool("give", {})

    assert given.is_error and "does not fit" in text_of(given)
    assert heard == [Status.PENDING, Status.ERROR]


@pytest.mark.parametrize("mode", MODES)
async def test_a_box_serves_its_results_unchecked_where_that_is_asked_for(mode: Mode) -> None:
    box = Toolbox()
    box.add(giving("three", int))
    async with Client(server(box, check_output=False), mode=mode) as client:
        with pytest.raises(RuntimeError):
            await client.call_tool("give", {})


@pytest.mark.parametrize("mode", MODES)
async def test_a_covered_secret_stays_covered_in_structured_content(mode: Mode) -> None:
    box = Toolbox()

    async def tell(key: SecretStr) -> str:
        return key.get_secret_value()

    box.add(tell)
    async with Client(server(box), mode=mode) as client:
        given = await client.call_tool("tell", {"key": "sesame-open"})

    assert "sesame" not in given.model_dump_json()
    assert not given.is_error


@pytest.mark.parametrize("mode", MODES)
async def test_a_wrapped_value_of_another_server_is_served_as_that_server_has_it(
    mode: Mode,
) -> None:
    async with Toolbox() as box:
        await box.add_mcp(raw("counts"))
        told, good = await ask(box, mode, "count")
        _, bad = await ask(box, mode, "miscount")

    assert (told, good.structured_content) == (wrapped({"type": "integer"}), {"result": 3})
    assert bad.is_error and bad.structured_content is None
