"""Where in a model's text the JSON starts."""

import json
from typing import Any

import pytest

from tests.wire.streaming import pieces, read, story, value_of
from wieldy.wire.structured import StructuredStream

A_LIST_OF_OBJECTS = {"type": "array", "items": {"type": "object"}}
AN_OBJECT = {"type": "object"}
A_LIST = {"type": "array"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # At the start of the text.
        ('{"a": 1} and more {"a": 2}', {"a": 1}),
        (' \n\n[1, 2]\n```json\n{"a": 2}\n```', [1, 2]),
        ("[1]\n\nHope this helps.", [1]),
        ("[[1]]", [[1]]),
        ("{}", {}),
        ("{a: 1}", {"a": 1}),
        ("// first\n42", None),
        # A fence, before anything inside a line.
        ('See [1] and {x}.\n```json\n{"a": 1}\n```\nSee [2].', {"a": 1}),
        ('Such as {"a": 0} or [0, 0]:\n```json\n{"a": 1}\n```', {"a": 1}),
        ("[1] and {x} are placeholders.\n```\n[7]\n```", [7]),
        ('It is ```json {"a": 1}``` as asked.', {"a": 1}),
        ("```JSON\n[1, 2]\n```", [1, 2]),
        ("```json\n// a comment\n[1]\n```", [1]),
        ('```json\n"text"\n```', "text"),
        ("```json\n42\n```", 42),
        ("```json\nnull\n```", None),
        ('````json\n{"a": 1}\n````', {"a": 1}),
        ('```json\nnothing\n```\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```python\nprint({"a": 0}, [1, 2])\n```\n```json\n{"a": 1}\n```', {"a": 1}),
        ("```python\n{'a': True}\n```", {"a": True}),
        ("```sh\n[1, 2]\n```\n", None),
        # The start of a line.
        ('Sure:\n{"a": 1}\n```json\n{"a": 2}\n```', {"a": 1}),
        ('Sure:\n\n  {\n    "a": 1\n  }\n', {"a": 1}),
        ('Sure:\n[{"a": 1}]', [{"a": 1}]),
        ('Sure:\n["a"]', ["a"]),
        ("Sure:\n[\n  1,\n  2\n]\nDone.", [1, 2]),
        ('Notes:\n[1] Smith\n[x] done\n[link](u)\n{x}\n{"a": 1}', {"a": 1}),
        # The end of the text came first.
        ('It is {"a": 1}, see [1].', {"a": 1}),
        ('[1, 2] are cited. It is {"a": 1}.', [1, 2]),
        ('See:\n[1, 2] and {"a": 1}.', {"a": 1}),
        ("Sure:\n[1, 2]\nand that is it", [1, 2]),
        ("Sure:\n{}\n", {}),
        ("It is [1, 2, 3].", [1, 2, 3]),
        ("It is ['a'], see [1].", ["a"]),
        # One string, number or literal.
        ("\"see [1, 2] and {'a': 1}\"", "see [1, 2] and {'a': 1}"),
        ('"So" it is {"a": 1}', {"a": 1}),
        ('"So it is {"a": 1}', {"a": 1}),
        (" -1.5e3 ", -1500.0),
        ("NaNa", None),
        # Nothing.
        ("see [1] and {x}", None),
        ("[1] says so", None),
        ("[[wiki]] [x] {x} {x y} {{x}} []() [a, b]", None),
        ("Hello", None),
        ("``` ``", None),
        ("", None),
    ],
)
def test_without_a_schema(text: str, value: Any) -> None:
    whole = story([text])

    assert repr(value_of(text)) == repr(value)
    assert all(story(pieces(text, size)) == whole for size in range(1, 12))


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (AN_OBJECT, 'See [1] and {x}: {"a": 1}\n```json\n{"a": 2}\n```', {"a": 1}),
        (AN_OBJECT, 'Well [[{"a": 1}]]', {"a": 1}),
        (AN_OBJECT, "Well {a: 1}", {"a": 1}),
        (AN_OBJECT, "Well {}", {}),
        (AN_OBJECT, '"quoted" {"a": 1}', {"a": 1}),
        (AN_OBJECT, '"all"', None),
        ({**AN_OBJECT, "required": ["a"]}, 'Not {} but {"a": 1}', {"a": 1}),
        (A_LIST, 'See {"a": 0} [x] [1]', [1]),
        (A_LIST_OF_OBJECTS, 'See [1] and ["a"]: [{"a": 1}]', [{"a": 1}]),
        (A_LIST_OF_OBJECTS, "There are none: []", []),
        ({"type": ["object", "array"]}, "See [2] {x}", [2]),
        ({"anyOf": [{"$ref": "#/$defs/o"}, A_LIST], "$defs": {"o": AN_OBJECT}}, "x [1]", [1]),
        ({"$ref": "#/$defs/o", "$defs": {"o": AN_OBJECT}}, "[1] {'a': 1}", {"a": 1}),
        ({"$ref": "#"}, "Sure: [1]", [1]),
        ({"properties": {"a": {}}}, "[1] {'a': 1}", {"a": 1}),
        ({"items": {"type": "string"}}, "[1] ['a']", ["a"]),
        ({"type": "integer"}, " 42 ", 42),
        ({"type": "integer"}, "[42]", None),
        ({"type": "string"}, "\"a {'b': 1}\"", "a {'b': 1}"),
        ({}, "Sure: [1]", [1]),
    ],
)
def test_with_a_schema(schema: dict[str, Any], text: str, value: Any) -> None:
    whole = story([text], schema)

    assert repr(value_of(text, schema)) == repr(value)
    assert all(story(pieces(text, size), schema) == whole for size in range(1, 12))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (None, '{"a": "x'),
        (None, 'See [1].\n```json\n{"a": "x'),
        (None, 'Sure:\n{"a": "x'),
        (AN_OBJECT, 'See [1] and {x}: {"a": "x'),
    ],
)
def test_events_come_while_the_text_streams(schema: Any, text: str) -> None:
    stream = StructuredStream(schema)
    events = [event for part in pieces(text, 1) for event in stream.feed(part)]

    assert [(event.path, event.delta) for event in events] == [("a", "x")]
    assert stream.started


def test_what_could_be_prose_is_held_back_until_the_end() -> None:
    stream = StructuredStream()

    assert stream.feed('Such as {"a": 1}') == []
    assert not stream.started
    assert [event.path for event in stream.close()] == ["a", ""]


def test_a_document_with_long_space_or_numbers_still_starts() -> None:
    for text in ("{" + " " * 3000 + '"a": 1}', "[" + "\n" * 3000 + "1]", "[" + "1" * 3000 + "]"):
        assert read(pieces(text, 7))[0].complete, text[:9]


@pytest.mark.parametrize(
    "fence", ["{}", "```json\n{}\n```", "```\n{}\n```", "So:\n```json\n{}```\nOK."]
)
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "42"), ("integer", "-7"), ("number", "4.5"), ("string", '"hi"'),
        ("boolean", "true"), ("boolean", "false"), ("null", "null"), (["integer", "array"], "3"),
    ],
)  # fmt: skip
def test_a_scalar_that_the_schema_asks_for_is_found(kind: Any, text: str, fence: str) -> None:
    whole = fence.format(text)
    for chunks in ([whole], list(whole)):
        stream, _ = read(chunks, {"type": kind})
        assert stream.value == json.loads(text) and stream.complete


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, '```json\n"hi"\n```\n```json\n3\n```', 3),
        ({"type": "string"}, "```python\nx\n```\nNone.", None),
        ({"type": ["string", "object"]}, '```python\nx = {"a": 1}\n```', {"a": 1}),
        ({"type": ["string", "object"]}, '```json\n{"a": 1}\n```', {"a": 1}),
    ],
)
def test_fences_of_another_kind_are_passed_over(schema: Any, text: str, value: Any) -> None:
    for chunks in ([text], list(text)):
        stream, _ = read(chunks, schema)
        assert stream.value == value


@pytest.mark.parametrize("text", ["[0." + "1" * 6000 + "]", "[1e" + "0" * 9000 + "1, 2]"])
def test_a_number_longer_than_what_is_looked_at_still_starts(text: str) -> None:
    for chunks in ([text], [text[n : n + 100] for n in range(0, len(text), 100)]):
        stream, _ = read(chunks)
        assert stream.value == json.loads(text)
