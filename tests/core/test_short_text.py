"""Texts are shortened in one way each, and never to more than was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy.core.short_text import cut_counted, cut_middle, cut_text, first_line


@given(st.text(), st.integers(1, 30))
def test_a_cut_text_is_at_most_as_long_as_its_limit(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    assert len(cut) <= limit
    assert cut == text if len(text) <= limit else cut == text[: limit - 1] + "…"


def test_a_counted_cut_tells_the_whole_length() -> None:
    assert cut_counted("a" * 5, 5) == "a" * 5
    assert cut_counted("a" * 1234, 2) == "aa… (1,234 characters in all)"


def test_a_cut_in_the_middle_keeps_both_ends_and_the_quotes_around_them() -> None:
    assert cut_middle("x" * 100, 100) == "x" * 100
    assert cut_middle("a" * 500 + "b" * 500, 65) == "a" * 10 + " … 980 characters left out … " + (
        "b" * 10
    )
    quoted = cut_middle('"' + "a" * 998 + '"', 65, '"')
    assert quoted == '"aaaaaaaaa" … 980 characters left out … "aaaaaaaaa"'


@pytest.mark.parametrize(
    ("text", "line"),
    [("", ""), ("one", "one"), ("\n  one \r\ntwo", "one"), (ValueError("a\nb"), "a"), (5, "5")],
)
def test_the_first_line_is_the_first_with_text(text: object, line: str) -> None:
    assert first_line(text) == line
