"""Whatever could deceive a reader is written out."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Secret
from wieldy.core.visible_text import (
    visible_line,
    visible_lines,
    visible_name,
    visible_value,
)

TRICKS = [
    "\n", "\r", "\t", "\x00", "\x1b", "\x7f", "\x85", "\xa0", "\xad", "\u034f", "\u061c", "\u115f",
    "\u180b", "\u180e", "\u2003", "\u200b", "\u200d", "\u200e", "\u202e", "\u2028", "\u2029",
    "\u2066", "\u2060", "\u2800", "\u3000", "\u3164", "\ufe0f", "\ufeff", "\uffa0", "\ud800",
    "\U000e0001", "\U000e0041", "\U000e0100", "\u0336", "\u20e0",
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_what_is_not_seen_is_an_escape(trick: str) -> None:
    for shown in (
        visible_line(f"a{trick}b"),
        visible_value(f"a{trick}b"),
        visible_name(f"a{trick}b"),
    ):
        assert trick not in shown
        assert "\\" in shown
    assert json.loads(visible_value({f"a{trick}": [trick]})) == {f"a{trick}": [trick]}


@given(st.text())
def test_a_value_is_shown_on_one_line_of_seen_characters_and_can_be_read_back(text: str) -> None:
    shown = visible_value(text)

    assert json.loads(shown) == text
    assert all(unicodedata.category(each) not in ("Cc", "Cf", "Zl", "Zp", "Cs") for each in shown)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("path", "path"),
        ("filter.path", "filter.path"),
        ("größe", "größe"),
        ("a b", '"a b"'),
        ('to = "x"', '"to = \\"x\\""'),
        ("", '""'),
    ],
)
def test_a_name_that_could_pass_for_more_is_quoted(name: str, shown: str) -> None:
    assert visible_name(name) == shown


def test_lines_stay_lines_where_they_may() -> None:
    assert visible_lines("a\u202eb\r\nc\rd") == "a\\u202eb\nc\\rd"


def test_a_value_that_json_lacks_is_shown_all_the_same() -> None:
    assert visible_value({"a": {1}, "b": Secret("x"), "c": b"y"}) == (
        '{"a": [1], "b": "Secret(\'**********\')", "c": "eQ=="}'
    )


def test_a_value_nested_too_deeply_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested more than 150 levels deep"):
        visible_value(deep)
