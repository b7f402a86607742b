"""Arguments as they arrive: a dict, JSON text, nothing, or something hostile."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from wieldy import Call, DefinitionError, InvalidArguments, Outcome, Status, Toolbox
from wieldy.core.choices import ValidationMode


class Tree(BaseModel):
    kids: list["Tree"] = []


def adding_box(**options: Any) -> Toolbox:
    box = Toolbox(**options)

    @box.tool
    async def add(a: int = 1, b: int = 2) -> list[Any]:
        return [a, b]

    return box


@pytest.mark.parametrize(
    ("sent", "value", "receipts"),
    [
        ({"a": 5}, [5, 2], None),
        (MappingProxyType({"a": 5}), [5, 2], None),
        ('{"a": 5}', [5, 2], None),
        (b'{"a": 5}', [5, 2], None),
        (' \n{"a": 5}\n', [5, 2], None),
        (None, [1, 2], None),
        ("", [1, 2], None),
        ("  \n", [1, 2], None),
        ("null", [1, 2], None),
        ("{}", [1, 2], None),
        ('{"a": 5,}', [5, 2], [{"path": "", "kind": "trailing_comma"}]),
        ("{'a': 5}", [5, 2], [{"path": "", "kind": "single_quotes"}]),
        ('{"a": 5} // five', [5, 2], [{"path": "", "kind": "comment"}]),
        ('"{\\"a\\": 5}"', [5, 2], [{"path": "", "kind": "object_from_json"}]),
        (
            '"{\\"a\\": 5,}"',
            [5, 2],
            [{"path": "", "kind": "object_from_json"}, {"path": "", "kind": "trailing_comma"}],
        ),
        (
            '{"a": "5",}',
            [5, 2],
            [
                {"path": "", "kind": "trailing_comma"},
                {"path": "a", "kind": "integer_from_text", "before": "5", "after": 5},
            ],
        ),
    ],
)
async def test_arguments_are_a_dict_or_json_text_or_nothing(
    sent: Any, value: list[int], receipts: list[dict[str, Any]] | None
) -> None:
    box = adding_box()

    for call in (await box.call("add", sent), await box.call(Call("add", sent))):
        assert call.unwrap() == value
        assert call.metadata.get("repairs") == receipts


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ("[1]", "expected object, got array"),
        ("5", "expected object, got integer"),
        ('"text"', "expected JSON, got text that can't be read"),
        ('"5"', "expected object, got integer"),
        ("a=5", "expected JSON, got text that can't be read"),
        ("{a: 5}", "expected JSON, got text that can't be read"),
        ('{"a": 5', "expected JSON, got text that can't be read"),
        ('{"a": 5} extra', "expected JSON, got text that can't be read"),
        (5, "expected object, got integer"),
        ([("a", 5)], "expected object, got array"),
        (b"\xff\xfe", "expected JSON, got text that can't be read"),
    ],
)
async def test_anything_else_is_refused(sent: Any, got: str) -> None:
    outcome = await adding_box().call("add", sent)

    assert isinstance(outcome.error, InvalidArguments)
    assert outcome.text.startswith(f"Invalid arguments for add: arguments: {got}")


@pytest.mark.parametrize(
    ("sent", "repaired", "strict", "described"),
    [
        ({"a": 5}, [5, 2], [5, 2], [5, 2]),
        ({"a": "5"}, [5, 2], None, ["5", 2]),
        ({"A": 5}, [5, 2], None, None),
        ('{"a": 5,}', [5, 2], None, None),
        ('"{}"', [1, 2], None, None),
        ('{"a": "5"}', [5, 2], None, ["5", 2]),
        ({"a": [5]}, None, None, [[5], 2]),
    ],
)
async def test_validation_is_chosen_per_tool_and_else_per_box(
    sent: Any, repaired: Any, strict: Any, described: Any
) -> None:
    async def add(a: int = 1, b: int = 2) -> list[Any]:
        return [a, b]

    expected: dict[ValidationMode, Any]
    expected = {"repair": repaired, "strict": strict, "describe": described}
    for mode, value in expected.items():
        for other in expected:
            box = Toolbox(validation=other)
            box.add(add, validation=mode)
            assert (await box.call("add", sent)).value == value
        box = Toolbox(validation=mode)
        box.add(add)
        assert (await box.call("add", sent)).value == value


def test_box_refuses_a_validation_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="validation must be one of repair, strict, describe"):
        Toolbox(validation="hope")  # type: ignore[arg-type]


@pytest.mark.parametrize("validation", ["repair", "strict", "describe"])
@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("foreign", [False, True])
async def test_presets_always_win_and_are_dropped_from_what_was_sent(
    validation: ValidationMode, as_text: bool, foreign: bool
) -> None:
    seen: list[dict[str, Any]] = []

    async def look(run: Any, proceed: Any) -> Outcome:
        seen.append(dict(run.arguments))
        outcome: Outcome = await proceed(run)
        return outcome

    box = Toolbox(middleware=[look])

    async def give(key: str, n: int = 0, **rest: Any) -> list[Any]:
        return [key, n, rest]

    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    tool = box.add(
        give,
        presets={"key": "mine"},
        validation=validation,
        input_schema=schema if foreign else None,
    )
    sent = {"key": "theirs", "n": 1}
    outcome = await box.call("give", json.dumps(sent) if as_text else sent)

    assert "key" not in tool.input_schema["properties"]
    assert outcome.unwrap() == ["mine", 1, {}]
    assert seen == [{"n": 1}]
    assert outcome.metadata["repairs"] == [{"path": "key", "kind": "dropped"}]


async def test_preset_named_to_a_closed_tool_is_dropped_and_refused_when_strict() -> None:
    async def give(key: str, n: int = 0) -> list[Any]:
        return [key, n]

    texts = {}
    for validation in ("repair", "strict"):
        box = Toolbox(validation=validation)
        box.add(give, presets={"key": "mine"})
        texts[validation] = (await box.call("give", {"key": "theirs", "n": 1})).text

    assert texts == {
        "repair": '["mine",1]',
        "strict": "Invalid arguments for give: key: there is no such argument, expected n",
    }


async def test_what_was_sent_is_not_changed() -> None:
    box = adding_box()
    sent: dict[str, Any] = {"A": "5", "b": "6"}

    outcome = await box.call("add", sent)

    assert outcome.unwrap() == [5, 6]
    assert sent == {"A": "5", "b": "6"}
    assert outcome.call.arguments is sent


class _Counting(BaseHTTPRequestHandler):
    hits: list[str]

    def do_GET(self) -> None:
        self.hits.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A loopback server, its address, and the paths that were asked for."""
    hits: list[str] = []
    handler = type("Handler", (_Counting,), {"hits": hits})
    with HTTPServer(("127.0.0.1", 0), handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}", hits
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("place", ["properties", "$defs", "allOf", "$schema"])
async def test_reference_to_an_address_is_refused_and_nothing_is_fetched(
    server: tuple[str, list[str]], place: str
) -> None:
    address, hits = server
    reference: dict[str, Any] = {"$ref": f"{address}/schema.json#/a"}
    parts: dict[str, Any] = {
        "properties": {"a": reference},
        "$defs": {"a": reference},
        "allOf": [reference],
        "$schema": f"{address}/meta",
    }
    box = Toolbox()

    async def give(**values: Any) -> None: ...

    box.add(give, input_schema={"type": "object", "properties": {}, place: parts[place]})
    outcome = await box.call("give", {"a": 1})

    assert outcome.status is Status.ERROR or place == "$defs"
    assert hits == []
    if place in ("properties", "allOf"):
        assert "references to other documents are not followed" in outcome.text
        assert "\n" not in outcome.text


async def test_reference_to_a_file_is_refused_and_nothing_is_read(tmp_path: Path) -> None:
    document = tmp_path / "schema.json"
    document.write_text('{"type": "integer"}')
    box = Toolbox()

    async def give(**values: Any) -> None: ...

    for name, reference in (("absolute", document.as_uri()), ("relative", "schema.json")):
        schema = {
            "$id": f"{tmp_path.as_uri()}/base.json",
            "type": "object",
            "properties": {"a": {"$ref": reference}},
        }
        box.add(give, name, input_schema=schema)
        # Were the file read, the integer would be accepted.
        outcome = await box.call(name, {"a": 1})
        assert (outcome.status, "are not followed" in outcome.text) == (Status.ERROR, True)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"properties": {"a": {"type": "nonsense"}}}, "properties.a.type"),
        ({"required": "a"}, "required"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "/$defs/missing"),
        ({"properties": {"a": {"default": object()}}}, "Unsupported type"),
    ],
)
async def test_invalid_schema_is_an_error_that_names_the_place(
    schema: dict[str, Any], place: str
) -> None:
    box = Toolbox()

    async def give(**values: Any) -> None: ...

    box.add(give, input_schema={"type": "object", **schema})
    outcome = await box.call("give", {"a": 1})

    assert outcome.status is Status.ERROR
    assert "its input schema can't be used" in outcome.text
    assert place in outcome.text


async def test_schema_that_holds_itself_is_an_error() -> None:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"a": loop}
    box = Toolbox()

    async def give(**values: Any) -> None: ...

    with pytest.raises(DefinitionError, match="its input schema can't be used: it contains itself"):
        box.add(give, input_schema=loop)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"allOf": [{"$ref": "#"}]},
        {"properties": {"a": {"$ref": "#"}}},
        {"anyOf": [{"$ref": "#"}, {"type": "object"}]},
    ],
)
async def test_references_in_a_circle_end(schema: dict[str, Any]) -> None:
    box = Toolbox()

    async def give(**values: Any) -> dict[str, Any]:
        return values

    box.add(give, input_schema={"type": "object", **schema})

    every: list[dict[str, Any]] = [{"a": {}}, {"a": 1}, {"b": "x"}, {}]
    for sent in every:
        assert (await box.call("give", sent)).status in (Status.OK, Status.ERROR)


async def test_draft_7_schema_is_understood() -> None:
    box = Toolbox()
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"n": {"type": "integer"}},
        "properties": {
            "n": {"$ref": "#/definitions/n"},
            "pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]},
        },
        "dependencies": {"pair": ["n"]},
    }

    async def give(**values: Any) -> dict[str, Any]:
        return values

    box.add(give, input_schema=schema)

    assert (await box.call("give", {"n": "1", "pair": ["2", "b"]})).unwrap() == {
        "n": 1,
        "pair": [2, "b"],
    }
    assert (await box.call("give", {"pair": [1]})).text == (
        "Invalid arguments for give: n: missing, expected integer"
    )
    assert (await box.call("give", {"n": 1, "pair": ["x"]})).text == (
        'Invalid arguments for give: pair[0]: expected integer, got string "x"'
    )


def _loop() -> Any:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    return loop


def _deep(levels: int = 5000) -> Any:
    deep: list[Any] = []
    for _ in range(levels):
        deep = [deep]
    return {"a": deep}


def _deep_tree() -> Any:
    tree: dict[str, Any] = {}
    for _ in range(5000):
        tree = {"kids": [tree]}
    return {"a": tree}


class Rude:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        raise RuntimeError("no")


HOSTILE: dict[str, Callable[[], Any]] = {
    "NUL": lambda: {"a": "\0"},
    "NUL text": lambda: "\0",
    "NUL name": lambda: {"\0": 1},
    "surrogate": lambda: {"a": "\ud800"},
    "surrogate name": lambda: {"\ud800": 1},
    "surrogate escaped": lambda: '{"a": "\\ud800"}',
    "surrogate in text": lambda: '{"a": "\ud800"}',
    "huge int": lambda: {"a": 10**5000},
    "huge int text": lambda: '{"a": ' + "9" * 5000 + "}",
    "huge float text": lambda: '{"a": 1e999}',
    "NaN": lambda: {"a": float("nan")},
    "NaN text": lambda: '{"a": NaN}',
    "Infinity text": lambda: '{"a": -Infinity}',
    "deep text": lambda: '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    "deep open text": lambda: "[" * 100_000,
    "deep objects text": lambda: '{"a": ' * 5000 + "1" + "}" * 5000,
    "deep text in text": lambda: {"a": "[" * 5000 + "]" * 5000},
    "deep": _deep,
    "deep tree": _deep_tree,
    "loop": _loop,
    "loop in a tree": lambda: {"a": {"kids": [_loop()]}},
    "number as name": lambda: {1: 2},
    "null as name": lambda: {None: 2},
    "tuple as name": lambda: {("a",): 2},
    "object": lambda: {"a": object()},
    "rude": lambda: {"a": Rude()},
    "rude name": lambda: {Rude(): 1},
    "bytes": lambda: {"a": b"\xff"},
    "set": lambda: {"a": {1}},
    "same name twice": lambda: '{"a": 1, "a": 2}',
    "not a mapping": lambda: object(),
}
ANNOTATIONS: dict[str, Any] = {
    "anything": Any,
    "integer": int,
    "number": float,
    "text": str,
    "list": list[int],
    "dict": dict[str, int],
    "tree": Tree,
    "union": int | Tree | None,
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("validation", ["repair", "strict", "describe"])
async def test_hostile_arguments_end_in_an_outcome(
    hostile: Callable[[], Any], validation: ValidationMode
) -> None:
    box = Toolbox(validation=validation)
    schemas: dict[str, Any] = {
        "foreign": {"properties": {"a": {"type": "integer"}}},
        "foreign tree": {"properties": {"a": {"$ref": "#"}, "kids": {"items": {"$ref": "#"}}}},
    }
    for name, annotation in ANNOTATIONS.items():

        async def give(a: Any = None) -> str:
            return "ran"

        give.__annotations__["a"] = annotation
        box.add(give, name)
    for name, schema in schemas.items():

        async def take(**values: Any) -> str:
            return "ran"

        box.add(take, name, input_schema={"type": "object", **schema})

    for name in box.names:
        outcome = await box.call(name, hostile())
        assert outcome.status in (Status.OK, Status.ERROR)
        assert len(outcome.text) < 1000


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150)
@given(st.sampled_from([*ANNOTATIONS.values()]), anything | st.text())
async def test_any_arguments_end_in_an_outcome(annotation: Any, sent: Any) -> None:
    box = Toolbox()

    async def give(a: Any = None) -> str:
        return "ran"

    give.__annotations__["a"] = annotation
    box.add(give)

    for arguments in (sent, {"a": sent}, json.dumps({"a": sent})):
        outcome = await box.call("give", arguments)
        assert outcome.text == "ran" or isinstance(outcome.error, InvalidArguments)
