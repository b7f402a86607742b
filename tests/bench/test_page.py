"""Measured tables go between the markers of the page."""

import pytest

from bench.page import PAGE, rewrite
from bench.row import TIMES, ratio
from bench.table import lines_of, markdown, number, text


def test_only_the_part_between_the_markers_is_replaced() -> None:
    page = "before\n<!-- rows: begin -->\nold\n<!-- rows: end -->\nafter\n"

    written = rewrite(page, "rows", "| new |")

    assert written.startswith("before\n<!-- rows: begin -->\nMeasured on ")
    assert written.endswith("\n\n| new |\n<!-- rows: end -->\nafter\n")
    assert "old" not in written


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no markers"):
        rewrite("nothing here", "rows", "| new |")


def test_page_of_this_repository_has_both_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert rewrite(rewrite(page, "rows", "a"), "peers", "b") != page


def test_near_miss_shows_as_a_miss() -> None:
    rows = [ratio("call", 12.04, 1.0, "µs", "raw", 12)]

    assert markdown(lines_of(rows), left=(0, 3, 6)).splitlines() == [
        "| what | ours | reference | which is | figure | target |  |",
        "| --- | --: | --: | --- | --: | --: | --- |",
        f"| call | 12.0 µs | 1.00 µs | raw | 12.04 {TIMES} | ≤ 12 {TIMES} | missed |",
    ]


def test_columns_of_numbers_end_together() -> None:
    assert text([("a", "b"), ("long", "100")], left=(0,)) == "a       b\nlong  100"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0123, "0.012"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234")]
)
def test_numbers_have_about_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown
