"""Values out of text that is nearly JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy.core.arguments.loose_json import correct_json, parse_loose_json
from wieldy.core.bounded_json import parse_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ('{"a": ",}", "b": "\\\\",}', {"a": ",}", "b": "\\"}),
        ('{"a": "\\",]",}', {"a": '",]'}),
        ("[\n1,\n]", [1]),
        ("{'a': 'it\\'s \"so\"', 'b': '\\\\'}", {"a": 'it\'s "so"', "b": "\\"}),
        ('{"a": True, "b": [False, None], "c": "None"}',
         {"a": True, "b": [False, None], "c": "None"}),
        ('{"a": 1, // one, two]\n "b": /* , } */ 2, /* last */ }', {"a": 1, "b": 2}),
        ('["http://a/*b*/", \'// no\', ] // end', ["http://a/*b*/", "// no"]),
        ("[1,/* a *//* b */// c\n]", [1]),
    ],
)  # fmt: skip
def test_what_models_and_people_write_is_forgiven_outside_of_strings(text: str, value: Any) -> None:
    assert parse_loose_json(text) == value


@pytest.mark.parametrize(
    "text",
    ['{"a": 1,, }', '{"a": "unclosed,}', "{,", "", '{"a": 1', "{'a: 1}", "[1 /* open ]", "[1/**/2]",
     "[Nonesuch]", "{a: 1}", "[1,2,] x"],
)  # fmt: skip
def test_other_broken_json_stays_broken(text: str) -> None:
    with pytest.raises(ValueError, match=r"column"):
        parse_loose_json(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("[1]", []),
        ("[1,]", ["trailing_comma"]),
        ("{'a': None, /* b */ 'c': True,}",
         ["single_quotes", "python_literal", "comment", "trailing_comma"]),
    ],
)  # fmt: skip
def test_what_was_corrected_is_told_once(text: str, kinds: list[str]) -> None:
    assert correct_json(text)[1] == kinds


def test_a_message_about_the_rest_names_its_place_in_the_text() -> None:
    with pytest.raises(ValueError, match="line 3 column 4"):
        parse_loose_json("[1, // one\n 2, /* two\n*/]?")


@pytest.mark.parametrize("piece", [",  ", "'", '"', "/*", "//", "/**/,", "'\\", "\\'", "True "])
def test_hostile_text_is_read_in_one_pass(piece: str) -> None:
    with pytest.raises(ValueError, match=r"column|expected"):
        parse_loose_json("[" + piece * 200_000)


@given(values)
def test_loose_reading_of_strict_json_changes_nothing(value: Any) -> None:
    assert parse_loose_json(json.dumps(value)) == value


@pytest.mark.parametrize("text", ['"\\ud800"', '"\ud800"'])
def test_lone_surrogate_is_read_escaped_or_not(text: str) -> None:
    assert parse_json(text) == "\ud800"
