"""One bound on levels holds wherever data comes in, on every interpreter and in deep programs."""

import ast
import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, List, Literal  # noqa: UP035 - both spellings are tried

import pytest

import wieldy
from wieldy import Toolbox
from wieldy.core.arguments.yaml_reader import read_yaml_text
from wieldy.core.bounded_json import MAX_DEPTH, MAX_WRAPPED
from wieldy.lock.lockfile import Lock
from wieldy.mcp.client.config import read_file
from wieldy.openapi.loading import parse
from wieldy.server.config.mistakes import check_text
from wieldy.wire import openai
from wieldy.wire.schema.lowering import lower_schema

from .core.test_bounded_json import deep_down, nested, nested_text

SOURCE = Path(wieldy.__file__).parent
# These talk JSON with a process that this package has started.
OWN_PROCESSES = {
    "execution/supervisor.py",
    "execution/supervisor_link.py",
    "tools/code/program_entry.py",
    "tools/code/program_run.py",
    "tools/code/sandbox.py",
    "tools/code/sandbox_host.py",
    "tools/code/sandbox_keeper.py",
    "tools/web/document_processes.py",
    "tools/web/document_reader.py",
}


def make_box(**settings: Any) -> Toolbox:
    box = Toolbox(**settings)

    @box.tool
    async def give(a: Any) -> Any:
        """Give it back."""
        return a

    @box.tool
    async def typed(a: list[Any] | dict[str, Any]) -> int:
        """Say how long it is."""
        return len(a)

    box.add(_take_all, name="foreign", input_schema={"properties": {"a": {}}})
    box.add(_take_all, name="described", validation="describe")
    return box


async def _take_all(**values: Any) -> int:
    return len(values)


def call(tool: str, arguments: Any) -> str:
    return asyncio.run(make_box().call(tool, arguments)).text


def refuse_schema(levels: int) -> str:
    schema = {"type": "object", "properties": {"a": {"default": nested(levels - 3)}}}
    try:
        make_box().add(_take_all, name="odd", input_schema=schema)
    except ValueError as error:
        return str(error)
    return ""


def check_result(levels: int) -> str:
    async def run() -> str:
        box = make_box(check_output=True)
        box.add(_levels, name="levels", output_schema={"type": ["array", "object"]})
        return (await box.call("levels", {"count": levels})).text

    return asyncio.run(run())


async def _levels(count: int) -> Any:
    return nested(count)


def keep_row(levels: int, folder: Path) -> str:
    async def run() -> str:
        async with Toolbox(store=f"sqlite:///{folder}/store.db") as box:
            box.add(_levels, name="levels")
            outcome = await box.call("levels", {"count": levels})
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            return str(entry.value)

    return asyncio.run(run())


def answer_of_a_model(levels: int) -> str:
    box = make_box()
    function = {"name": "give", "arguments": nested_text(levels)}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}
    [asked] = openai.parse_calls(message, box)
    return asyncio.run(box.call(asked)).text


def refusal(read: Callable[[], Any]) -> str:
    try:
        return str(read())
    except Exception as error:
        return str(error)


def written(folder: Path, text: str) -> Path:
    path = folder / "file"
    path.write_text(text)
    return path


def object_text(levels: int) -> str:
    return f'{{"a": {nested_text(levels - 1)}}}'


def array_text(levels: int) -> str:
    return f"x = {'[' * levels}{']' * levels}"


PLACES: dict[str, Callable[[int, Path], str]] = {
    "arguments": lambda levels, _: call("give", {"a": nested(levels - 1)}),
    "arguments that fit a type": lambda levels, _: call("typed", {"a": nested(levels - 1)}),
    "arguments as text": lambda levels, _: call("give", object_text(levels)),
    "arguments as text in text": lambda levels, _: call("give", json.dumps(object_text(levels))),
    "arguments of a foreign schema": lambda levels, _: call("foreign", {"a": nested(levels - 1)}),
    "arguments that are not checked": lambda levels, _: call(
        "described", {"a": nested(levels - 1)}
    ),
    "an input schema": lambda levels, _: refuse_schema(levels),
    "a result that is checked": lambda levels, _: check_result(levels),
    "a row of the store": keep_row,
    "a model's answer": lambda levels, _: answer_of_a_model(levels),
    "an OpenAPI document": lambda levels, _: refusal(lambda: parse("it", nested_text(levels))),
    "a YAML text": lambda levels, _: refusal(lambda: read_yaml_text("- " * (levels - 1) + "[1]")),
    "a gateway's file": lambda levels, _: str(check_text(array_text(levels - 1))),
    "a file of MCP servers": lambda levels, folder: refusal(
        lambda: read_file(written(folder, object_text(levels)))
    ),
    "a lowered schema": lambda levels, _: str(
        lower_schema({"properties": {"a": {"default": nested(levels - 3)}}}, "openai").changes
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_level_more_than_ours_is_refused_with_the_sentence(place: str, tmp_path: Path) -> None:
    sentence = f"nested more than {MAX_DEPTH} levels deep"
    assert sentence not in deep_down(lambda: PLACES[place](MAX_DEPTH, tmp_path))
    for levels in (MAX_DEPTH + 1, 150, 300, 5_000):
        assert sentence in deep_down(lambda: PLACES[place](levels, tmp_path))  # noqa: B023


def test_a_file_of_ours_around_values_has_some_levels_more(tmp_path: Path) -> None:
    sentence = f"nested more than {MAX_WRAPPED} levels deep"

    def read(levels: int) -> str:
        path = written(tmp_path, object_text(levels))
        said: str = deep_down(lambda: refusal(lambda: Lock.read(path)))
        return said

    assert sentence not in read(MAX_WRAPPED)
    assert sentence in read(MAX_WRAPPED + 1)
    assert sentence in read(20_000)


async def test_a_result_that_is_too_deep_to_be_copied_is_not_kept() -> None:
    ran: list[int] = []
    box = Toolbox()

    @box.tool(cache=60, read_only=True)
    async def levels(count: int) -> Any:
        """Give something deep."""
        ran.append(count)
        return nested(count)

    for count in (MAX_DEPTH, MAX_DEPTH, MAX_DEPTH + 1, MAX_DEPTH + 1):
        assert (await box.call("levels", {"count": count})).ok
    assert ran == [MAX_DEPTH, MAX_DEPTH + 1, MAX_DEPTH + 1]


def test_json_is_read_and_written_in_one_module() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {ast.unparse(node)}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.loads", "json.dumps")
    }
    kept = {each for each in found if each.partition(":")[0] not in OWN_PROCESSES}
    # The canonical form is written only, after its value was measured.
    assert kept == {
        "core/bounded_json.py: json.dumps",
        "core/bounded_json.py: json.loads",
        "core/canonical.py: json.dumps",
    }


@pytest.mark.parametrize(
    "kind",
    [
        list[str],
        dict[str, list[int]],
        str | None,
        Literal["a"],
        tuple[int, ...],
        list,
        List,  # noqa: UP006 - the older spelling has no types in it either
        dict[str, Any],
        list[Any] | str,
    ],
)
@pytest.mark.parametrize("write", [lambda arguments: arguments, json.dumps])
def test_what_is_too_deep_fits_no_type(kind: Any, write: Callable[[Any], Any]) -> None:
    async def take(a: Any) -> str:
        return "taken"

    take.__annotations__["a"] = kind
    box = Toolbox()
    box.add(take)

    outcome = box.call_sync("take", write({"a": nested(MAX_DEPTH)}))

    assert "nested more than 100 levels deep" in outcome.text
