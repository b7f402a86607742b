"""The events, the values and the checks of streaming structured output."""

import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel, field_validator

from tests.wire.streaming import completions, joined, pieces, read, story, value_of
from wieldy.core.errors import WieldyError
from wieldy.wire.structured import StructuredError, StructuredStream


def test_a_document_is_told_value_by_value_with_containers_after_their_children() -> None:
    _, events = read(['{"l": [{"k": "hel', 'lo"}, 1], ', '"ok": true}'])

    told = [(e.path, e.wildcard_path, e.indexes, e.delta, e.value, e.is_complete) for e in events]
    assert told == [
        ("l[0].k", "l[*].k", (0,), "hel", "hel", False),
        ("l[0].k", "l[*].k", (0,), "lo", "hello", True),
        ("l[0]", "l[*]", (0,), "", {"k": "hello"}, True),
        ("l[1]", "l[*]", (1,), "1", 1, True),
        ("l", "l", (), "", [{"k": "hello"}, 1], True),
        ("ok", "ok", (), "true", True, True),
        ("", "", (), "", {"l": [{"k": "hello"}, 1], "ok": True}, True),
    ]


def test_an_event_read_late_shows_what_was_known_at_its_time() -> None:
    _, events = read(['{"a": "x', 'y", "b": [1', ", 2]}"])

    assert [event.full_data for event in events] == [
        {"a": "x"},
        {"a": "xy"},
        {"a": "xy", "b": [1]},
        {"a": "xy", "b": [1, 2]},
        {"a": "xy", "b": [1, 2]},
        {"a": "xy", "b": [1, 2]},
    ]
    assert [event.value for event in events[:2]] == ["x", "xy"]


def test_the_value_grows_with_the_text() -> None:
    stream = StructuredStream()
    seen = []
    for chunk in ['Here:\n{"a', '": "x', "yz", '", "b": [1, ', "2]", "}"]:
        stream.feed(chunk)
        seen.append(stream.value)

    assert seen == [
        None,
        {"a": "x"},
        {"a": "xyz"},
        {"a": "xyz", "b": [1]},
        {"a": "xyz", "b": [1, 2]},
        {"a": "xyz", "b": [1, 2]},
    ]
    assert stream.complete


@pytest.mark.parametrize(
    ("key", "dot", "slash"),
    [
        ("k", "k", "/k"),
        ("two words", "two words", "/two words"),
        ("a.b", '["a.b"]', "/a.b"),
        ("a[0]", '["a[0]"]', "/a[0]"),
        ('say "x"', '["say \\"x\\""]', '/say "x"'),
        ("", '[""]', "/"),
        ("a/b~c", "a/b~c", "/a~1b~0c"),
        ("é", "é", "/é"),
    ],
)
def test_keys_are_quoted_in_paths_where_they_must_be(key: str, dot: str, slash: str) -> None:
    text = json.dumps({key: [1]})

    dotted = read([text])[1][0]
    slashed = read([text], path_style="slash")[1][0]

    assert (dotted.path, dotted.wildcard_path) == (f"{dot}[0]", f"{dot}[*]")
    assert (slashed.path, slashed.wildcard_path) == (f"{slash}/0", f"{slash}/*")


def test_an_unknown_path_style_or_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="path_style"):
        StructuredStream(path_style="arrow")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="JSON Schema or a pydantic model"):
        StructuredStream(str)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2,]", [1, 2]),
        ("[1,, 2]", [1, 2]),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"l": [1 2 3]}', {"l": [1, 2, 3]}),
        ("['a', 'it\\'s', 'say \"x\"']", ["a", "it's", 'say "x"']),
        ("{a: 1, b_2: 2, $c: 3, d-e: 4}", {"a": 1, "b_2": 2, "$c": 3, "d-e": 4}),
        ("{'a': True, 'b': False, 'c': None}", {"a": True, "b": False, "c": None}),
        ('{"a": undefined}', {"a": None}),
        ('{// one\n"a": 1, /* two * / */ "b": 2 # three\n}', {"a": 1, "b": 2}),
        ('{"l": [1 // one\n, 2/* two */]}', {"l": [1, 2]}),
        ('{"a": hello world, "b": 1}', {"a": "hello world", "b": 1}),
        ('{"u": http://x.y/z}', {"u": "http://x.y/z"}),
        ('{"at": 12:30, "on": 2024-01-02}', {"at": "12:30", "on": "2024-01-02"}),
        ("[+1, .5, 5., 007]", [1, 0.5, 5.0, "007"]),
        ('{"a" "b": 1, "c"}', {"b": 1}),
        ('{"a": , "b": 2}', {"b": 2}),
        ('{"a": [1, {"b": 2]}', {"a": [1, {"b": 2}]}),
        ('{"a": [1, 2}', {"a": [1, 2]}),
        ('{{"a": 1}}', {"a": 1}),
        ('{"a": "x"; "b": "y"}', {"a": "x", "b": "y"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('["line\nbreak\ttab"]', ["line\nbreak\ttab"]),
        ('["\\d+ \\alpha \\u12 \\\nx"]', ["\\d+ \\alpha \\u12 x"]),
        ("\ufeff [\u00a01 ]", [1]),
    ],
)
def test_what_models_get_wrong_is_forgiven(text: str, value: Any) -> None:
    whole = story([text])

    assert repr(value_of(text)) == repr(value)
    assert whole[3]
    assert all(story(pieces(text, size)) == whole for size in (1, 2, 3, 5))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "hel', {"a": "hel"}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "x\\ud83d', {"a": "x\ud83d"}),
        ('{"a": tru', {"a": True}),
        ('{"a": N', {"a": None}),
        ("[1, 2", [1, 2]),
        ("[1, 2.", [1, 2]),
        ("[1, 2e", [1, 2]),
        ("[1, -", [1]),
        ('{"a": [1, {"b": 2', {"a": [1, {"b": 2}]}),
        ('{"a": hello wor', {"a": "hello wor"}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ("{a", {}),
        ("{", {}),
        ("[", []),
        ("[1, /* never ends", [1]),
        ('```json\n{"a": [1, 2\n```\nSorry.', {"a": [1, 2]}),
        ('"never ends', "never ends"),
    ],
)
def test_a_cut_end_is_closed_and_marked_incomplete(text: str, value: Any) -> None:
    stream, events = read([text])

    assert stream.value == value
    assert not stream.complete
    assert not any(event.is_complete for event in events if event.path == "")
    assert events[-1].value == value
    assert all(story(pieces(text, size)) == story([text]) for size in (1, 2, 3, 5))


def test_the_open_values_of_a_cut_text_are_told_from_the_inside_out() -> None:
    stream = StructuredStream()
    stream.feed('{"a": [1, {"b": "x')

    told = [(event.path, event.value, event.is_complete) for event in stream.close()]

    assert told == [
        ("a[1].b", "x", False),
        ("a[1]", {"b": "x"}, False),
        ("a", [1, {"b": "x"}], False),
        ("", {"a": [1, {"b": "x"}]}, False),
    ]
    assert stream.close() == []
    assert stream.feed('"}]}') == []


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\ud83dx"',
        '"\\ud83d\\n\\ud83d\\u0041\\ude00\\ud83d\\ud83d\\ude00"',
        '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9"',
        '"\ud83d\ude00"',
    ],
)
def test_escapes_cut_anywhere_mean_what_json_says(text: str) -> None:
    value = json.loads(text)
    for size in range(1, 14):
        stream, events = read(pieces(f'{{"k": {text}}}', size))
        assert stream.value == {"k": value}
        assert joined(events)["k"] == value


def test_numbers_are_what_json_loads_makes_of_them() -> None:
    text = "[0, -0, -0.0, 1e3, 1E-2, 1e999, -1e999, NaN, Infinity, -Infinity, " + "9" * 400 + "]"
    assert repr(value_of(text)) == repr(json.loads(text))


def test_an_integer_that_python_refuses_to_read_becomes_a_float() -> None:
    assert value_of("[1, " + "9" * 5000 + "]") == [1, math.inf]


def test_nesting_beyond_the_limit_stops_the_reading_with_an_error() -> None:
    stream, events = read(['{"a": "kept", "b": ' + "[" * 500])

    assert isinstance(stream.error, WieldyError)
    assert "100 levels" in str(stream.error)
    assert completions(events)[0][0] == "a"
    assert not stream.complete
    with pytest.raises(StructuredError, match="100 levels"):
        stream.result()


def test_the_depth_limit_can_be_moved_far() -> None:
    depth = 20_000
    stream, events = read(["[" * depth + "1" + "]" * depth], max_depth=depth)

    assert stream.complete
    assert events[0].path == "[0]" * depth
    assert read(["[" * 3 + "]" * 3], max_depth=2)[0].error is not None


class Step(BaseModel):
    title: str
    minutes: int = 5


class Plan(BaseModel):
    goal: str
    first: Step | None = None
    steps: list[Step] = Field(default_factory=list, max_length=3)


def test_a_model_grows_field_by_field() -> None:
    stream = StructuredStream(Plan)
    seen = []
    for chunk in [
        "Sure! ",
        '{"goal": "bre',
        'ad", "first": {"title": "mix", "min',
        'utes": "7"}, "steps": [{"title": "ba',
        'ke"}, {"minutes": 4',
        ', "title": "eat"}]}',
    ]:
        stream.feed(chunk)
        seen.append(stream.partial())

    assert seen[0] is None
    assert all(isinstance(part, Plan) for part in seen[1:])
    assert [part.goal for part in seen[1:]] == ["bre", *["bread"] * 4]
    assert [part.first for part in seen[2:4]] == [Step(title="mix"), Step(title="mix", minutes=7)]
    assert [part.steps for part in seen[3:5]] == [[Step(title="ba")], [Step(title="bake")]]
    assert stream.result() == Plan(
        goal="bread",
        first=Step(title="mix", minutes=7),
        steps=[Step(title="bake"), Step(title="eat", minutes=4)],
    )


def test_a_partial_model_leaves_out_what_is_not_valid() -> None:
    stream = StructuredStream(Step)
    stream.feed('{"title": 5, "minutes": "x"')

    assert stream.partial() == Step.model_construct()


def test_a_partial_model_knows_aliases_and_roots() -> None:
    class Named(BaseModel):
        inner: int = Field(alias="outer")

    named = StructuredStream(Named)
    named.feed('{"outer": 3, ')
    listed = StructuredStream(RootModel[list[int]])
    listed.feed("Well: [1, 2, ")

    assert named.partial().inner == 3
    assert listed.partial().root == [1, 2]


def test_a_model_that_has_no_json_schema_is_read_and_checked_too() -> None:
    class Odd(BaseModel):
        call: Callable[[], int] = int
        n: int = Field(default=0, validation_alias="number")

    stream = StructuredStream(Odd)
    stream.feed('See [1]: {"number": 2}')

    assert stream.partial().n == 2
    assert stream.result().n == 2


def test_a_result_that_does_not_fit_its_model_names_the_problems() -> None:
    stream, _ = read(['{"minutes": "many"}'], Step)

    with pytest.raises(StructuredError) as caught:
        stream.result()

    assert [line.split(":")[0] for line in caught.value.problems] == ["title", "minutes"]


def test_a_result_is_checked_against_a_json_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    assert read(['{"n": 1}'], schema)[0].result() == {"n": 1}
    with pytest.raises(StructuredError, match="n: "):
        read(['{"n": "x"}'], schema)[0].result()


def test_a_schema_that_refers_elsewhere_is_refused_and_nothing_is_fetched() -> None:
    schema = {"type": "object", "properties": {"n": {"$ref": "http://127.0.0.1:9/x.json"}}}
    stream, _ = read(['{"n": 1}'], schema)

    with pytest.raises(StructuredError, match="not followed"):
        stream.result()


def test_what_a_schema_checker_cannot_read_is_an_error_and_no_crash() -> None:
    stream, _ = read(['["\\ud83d"]'], {"type": "array", "items": {"pattern": "a"}})
    with pytest.raises(StructuredError, match="can't be checked"):
        stream.result()


@pytest.mark.parametrize(("text", "state"), [('{"a": 1', "not complete"), ("no", "not start")])
def test_there_is_no_result_without_a_complete_document(text: str, state: str) -> None:
    with pytest.raises(StructuredError, match=state):
        read([text])[0].result()


def test_without_a_schema_the_result_is_the_value() -> None:
    stream, _ = read(['{"a": [1]}'])
    assert stream.result() == stream.partial() == {"a": [1]}


def test_events_show_what_they_are() -> None:
    assert [repr(event) for event in read(['["x', 'y"]'])[1]] == [
        "<Event '[0]' 'x' growing>",
        "<Event '[0]' 'y' complete>",
        "<Event '' '' complete>",
    ]


def test_a_finished_item_is_checked_once_however_often_the_model_is_read() -> None:
    checked: list[int] = []

    class Item(BaseModel):
        id: int

        @field_validator("id")
        @classmethod
        def _seen(cls, id: int) -> int:
            checked.append(id)
            return id

    class Items(BaseModel):
        items: list[Item]

    stream = StructuredStream(Items)
    shown: Any = None
    for chunk in ['{"items": [', *(f'{{"id": {n}}}, ' for n in range(300)), '{"id": "x"}, {}']:
        stream.feed(chunk)
        shown = stream.partial()
        if stream.value["items"]:
            assert [each.id for each in getattr(shown, "items", ())] in (
                list(range(len(stream.value["items"]))), [],
            )  # fmt: skip

    # Once as the last item, and once when the next one has come.
    assert len(checked) <= 2 * 300
    # An item that is not valid, and is not the last, spoils its list.
    assert not hasattr(shown, "items")


def test_a_list_that_comes_twice_is_read_anew() -> None:
    class Items(BaseModel):
        items: list[int] | None

    stream = StructuredStream(Items)
    stream.feed('{"items": [1, 2, 3, 4], ')
    assert stream.partial().items == [1, 2, 3, 4]

    stream.feed('"items": [9, 2, "x", 4, 5, 6')
    assert not hasattr(stream.partial(), "items")

    stream.feed('], "items": [7, 8]}')
    assert stream.partial().items == [7, 8]


def test_memory_grows_with_the_text_and_not_faster() -> None:
    def most(items: int) -> int:
        text = json.dumps([{"id": n, "name": "x" * 20} for n in range(items)])
        tracemalloc.start()
        stream = StructuredStream()
        for place in range(0, len(text), 50):
            stream.feed(text[place : place + 50])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert most(4000) < 8 * most(1000)
