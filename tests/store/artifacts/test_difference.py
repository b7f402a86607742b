"""Unified diffs, as `patch` would apply them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wieldy.store.artifacts.difference import unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "", "\r", "\x0c", "-", "+++ x"]), max_size=25)
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def apply(old: str, diff: str) -> str:
    """The new text, from the old one and a diff; every line of the diff must fit."""
    before = old.split("\n")
    before = [f"{line}\n" for line in before[:-1]] + ([before[-1]] if before[-1] else [])
    after: list[str] = []
    at = 0
    lines = [f"{line}\n" for line in diff.split("\n")[:-1]][2:]
    for number, line in enumerate(lines):
        if header := _HEADER.match(line):
            count = int(header[2] or 1)
            start = int(header[1]) - (1 if count else 0)
            after += before[at:start]
            at = start
            continue
        if line.startswith("\\"):
            continue
        unended = number + 1 < len(lines) and lines[number + 1].startswith("\\")
        text = line[1:-1] if unended else line[1:]
        if line[0] in " -":
            assert before[at] == text
            at += 1
        if line[0] in " +":
            after.append(text)
    return "".join(after + before[at:])


@settings(deadline=None)
@given(LINES, LINES)
def test_the_old_text_and_the_diff_make_the_new_text(before: list[str], after: list[str]) -> None:
    old, new = "\n".join(before), "\n".join(after)

    diff = unified_diff(old, new, "old", "new")

    assert apply(old, diff) == new
    assert (diff == "") == (old == new)


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    old = "".join(f"{n}\n" for n in range(20))

    assert unified_diff(old, old.replace("9\n", "nine\n", 1) + "end", "a@1", "a@2") == (
        "--- a@1\n+++ a@2\n"
        "@@ -7,7 +7,7 @@\n 6\n 7\n 8\n-9\n+nine\n 10\n 11\n 12\n"
        "@@ -18,3 +18,4 @@\n 17\n 18\n 19\n+end\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize(("old", "new"), [("", "a\n"), ("a\n", ""), ("a", "a\n")])
def test_the_ends_of_texts_are_told(old: str, new: str) -> None:
    assert apply(old, unified_diff(old, new, "old", "new")) == new


def test_very_many_lines_are_one_change_between_equal_ends() -> None:
    same = "".join(f"{n}\n" for n in range(70_000))
    many = "".join(f"{n % 100}\n" for n in range(140_000))

    diff = unified_diff(f"{same}{many}{same}", f"{same}new\n{same}", "old", "new")

    assert diff.startswith("--- old\n+++ new\n@@ -69998,140006 +69998,7 @@\n 69997\n")
    assert apply(f"{same}{many}{same}", diff) == f"{same}new\n{same}"


@pytest.mark.parametrize("line", ["{n}", "same"])
def test_few_lines_beside_very_many_are_compared_one_by_one(line: str) -> None:
    """What is kept in memory grows with the pairs of lines, not with the square of the longer."""
    many = "".join(line.format(n=n) + "\n" for n in range(300_000))
    few = "first\nsame\nlast\n"

    for old, new in ((few, many), (many, few)):
        assert apply(old, unified_diff(old, new, "old", "new")) == new
