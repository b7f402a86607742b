"""Values out of text that is nearly JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy.core.arguments.conversion import parse_loose_json
from wieldy.core.bounded_json import parse_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ('{"a": ",}", "b": "\\\\",}', {"a": ",}", "b": "\\"}),
        ('{"a": "\\",]",}', {"a": '",]'}),
        ("[\n1,\n]", [1]),
    ],
)
def test_comma_before_a_closing_bracket_is_forgiven_outside_of_strings(
    text: str, value: Any
) -> None:
    assert parse_loose_json(text) == value


@pytest.mark.parametrize("text", ['{"a": 1,, }', '{"a": "unclosed,}', "{,", "", '{"a": 1'])
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


@given(values)
def test_loose_reading_of_strict_json_changes_nothing(value: Any) -> None:
    assert parse_loose_json(json.dumps(value)) == value


@pytest.mark.parametrize("text", ['"\\ud800"', '"\ud800"'])
def test_lone_surrogate_is_read_escaped_or_not(text: str) -> None:
    assert parse_json(text) == "\ud800"
