"""Whatever the chunks: the same story, linear work, and no surprise."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.wire.streaming import chunks, joined, pieces, read, story

ANSWERS = json.loads((Path(__file__).parents[1] / "model_answers.json").read_text(encoding="utf-8"))
KINDS = (None, {"type": "object"}, {"type": "array"}, {"type": "string"})
PROSE = ("", "Sure. ", "See [1] and {x}:\n", "As {y} says,\n\n", 'He said "yes".\n')
HOSTILE = (
    *"[]{}\"'`\\:,/#*-+.eE \n01", "\\u", "\\ud83d", "\\ude00", "```", "```json\n", '{"a":', "//",
    "/*", "*/", "tru", "null", "NaN", "Infinity", "None", "word", "é", "\ud83d", "\ufeff", "\u2028",
    "[1",
)  # fmt: skip

texts = st.text(st.characters(), max_size=12) | st.text(max_size=6).map(
    lambda text: "\ud83d" + text
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
containers = documents.filter(lambda document: isinstance(document, dict | list))
cuts = st.lists(st.integers(0, 2000), max_size=12)
hostile = st.lists(st.sampled_from(HOSTILE), max_size=30).map("".join)


@st.composite
def written(draw: st.DrawFn, values: st.SearchStrategy[Any] = documents) -> str:
    """A document as JSON text, in one of the ways to write it."""
    indent = draw(st.sampled_from([None, 0, 2]))
    return json.dumps(draw(values), ensure_ascii=draw(st.booleans()), indent=indent)


@settings(deadline=None)
@given(written(), cuts)
@example('"\\ud83d\\ude00"', [3, 7, 9])
@example("[1]", [1, 2])
def test_valid_json_gives_what_json_loads_gives(text: str, places: list[int]) -> None:
    stream, _ = read(chunks(text, places))

    assert repr(stream.value) == repr(json.loads(text))
    assert stream.complete


@settings(deadline=None)
@given(written(), cuts)
def test_the_story_of_valid_json_does_not_depend_on_the_chunks(
    text: str, places: list[int]
) -> None:
    whole = story([text])

    assert story(chunks(text, places)) == whole
    assert story(pieces(text, 1)) == whole


@settings(deadline=None)
@given(written(containers), st.sampled_from(PROSE), st.booleans(), cuts)
def test_json_in_a_fence_is_found_in_prose(
    text: str, prose: str, closed: bool, places: list[int]
) -> None:
    said = f"{prose}\n```json\n{text}\n" + "```\nSee [2].\n" * closed
    stream, _ = read(chunks(said, places))

    assert repr(stream.value) == repr(json.loads(text))
    assert stream.complete


@settings(deadline=None)
@given(written(containers), st.sampled_from(PROSE), cuts)
def test_json_of_the_expected_kind_is_found_in_prose(
    text: str, prose: str, places: list[int]
) -> None:
    value = json.loads(text)
    schema = {"type": "object"} if isinstance(value, dict) else {"type": "array"}
    said = prose.replace("[1]", "(1)") + text + "\nSee [2] and {z}."

    assert repr(read(chunks(said, places), schema)[0].value) == repr(value)


@settings(deadline=None)
@given(written(st.dictionaries(texts, documents, min_size=1)), st.data())
def test_a_cut_document_tells_a_true_beginning(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    _, events = read([text[:cut]])
    _, all_events = read([text])

    done = [event.path for event in events if event.is_complete]
    everything = [event.path for event in all_events if event.is_complete]
    assert done == everything[: len(done)]


@settings(deadline=None)
@given(written(), cuts)
def test_deltas_of_a_string_add_up_to_it(text: str, places: list[int]) -> None:
    _, events = read(chunks(text, places))

    told = joined(events)
    for event in events:
        if event.is_complete and isinstance(event.value, str):
            assert told[event.path] == event.value


@settings(deadline=None, max_examples=400)
@given(hostile, cuts, st.sampled_from(KINDS))
@example('"\\ud83d\\', [1], None)
@example("[true", [5], None)
@example("x\n[trueish", [6], {"type": "array"})
@example("```json\nnul", [9], None)
@example("[1,/", [3], None)
@example('["\\udb1\\n', [6], None)
@example('["\\ud83d\\udb1\\n', [12], None)
def test_any_text_tells_the_same_story_in_any_chunks(
    text: str, places: list[int], schema: Any
) -> None:
    whole = story([text], schema)

    assert story(chunks(text, places), schema) == whole
    assert story(pieces(text, 1), schema) == whole


@settings(deadline=None)
@given(written(), hostile, st.integers(0, 500), cuts)
def test_damaged_json_tells_the_same_story_in_any_chunks(
    text: str, damage: str, place: int, places: list[int]
) -> None:
    place %= len(text) + 1
    damaged = text[:place] + damage + text[place + 1 :]

    assert story(chunks(damaged, places)) == story([damaged])


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["text"][:20])
def test_answers_as_models_write_them(answer: dict[str, Any]) -> None:
    text = answer["text"]
    whole = story([text])

    assert whole[2:4] == (repr(answer["value"]), True)
    assert all(story(pieces(text, size)) == whole for size in (1, 2, 3, 5, 8, 13))


RUNAWAY: dict[str, Callable[[int], str]] = {
    "lists": lambda n: "[" * n,
    "objects": lambda n: '{"a":' * n,
    "unclosed lists in prose": lambda n: "x " + "[1, " * n,
    "keys in prose": lambda n: "x " + '{"a' * n,
    "quotes in prose": lambda n: "x " + "{'{\"" * n,
    "references": lambda n: "see [1] and {x} " * n,
    "lines of lists": lambda n: "\n[1" * n,
    "backticks": lambda n: "``" * n,
    "fences": lambda n: "```py x" * n,
    "space": lambda n: " " * n,
    "space in an object": lambda n: "x\n{" + " " * n,
    "one string": lambda n: '{"a": "' + "lorem " * n,
    "one number": lambda n: "[1, " + "1" * n,
    "one key": lambda n: "{" + "a" * n,
    "half escapes": lambda n: '{"a": "' + "\\ud83d" * n,
    "comments": lambda n: "[0, " + "/*" * n,
    "closing brackets": lambda n: '{"a": [' + "}]" * n,
    "words": lambda n: '{"a": ' + "word " * n,
    "a held string": lambda n: '"' + "a " * n,
    "keys without values": lambda n: "{" + "'a' " * n,
}


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("name", RUNAWAY)
def test_work_grows_with_the_text_and_not_faster(name: str, size: int) -> None:
    def seconds(count: int) -> float:
        parts = pieces(RUNAWAY[name](count), size)
        started = time.process_time()
        read(parts)
        return time.process_time() - started

    # Eight times the text; quadratic work would be sixty-four times. Another process may have
    # disturbed the first measurement.
    assert any(seconds(16_000) < 30 * seconds(2_000) + 0.25 for _ in range(3))
