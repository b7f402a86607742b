"""The nearest passage of a text, held against a plain table of distances."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wieldy.store.artifacts.alignment import edit_distances
from wieldy.store.artifacts.fuzzy import PassageWindow, nearest

# Few letters, so that there are many ways to match; line breaks and what is no text among them.
TEXTS = st.text(alphabet="ab \n\0\ud800é漢", max_size=30)
# The third gives pieces that stand everywhere, the last what is no text.
ALPHABETS = ["abc ", "abcdefghijklm \n", f"ab{' ' * 20}", "ab漢\ud800\0"]
PASSAGES = st.text(alphabet="ab \n\0\ud800é漢", min_size=1, max_size=12)


def plain_row(passage: str, text: str, from_start: bool = False) -> list[int]:
    """The last row of the table of distances, cell by cell."""
    row = list(range(len(text) + 1)) if from_start else [0] * (len(text) + 1)
    for count, wanted in enumerate(passage, start=1):
        after = [count]
        for at, there in enumerate(text):
            after.append(min(after[at] + 1, row[at + 1] + 1, row[at] + (wanted != there)))
        row = after
    return row


def edits(one: str, other: str) -> int:
    """The edit distance of two texts."""
    return plain_row(one, other, from_start=True)[-1]


@settings(deadline=None)
@given(PASSAGES, TEXTS, st.booleans())
def test_distances_are_those_of_the_plain_table(passage: str, text: str, from_start: bool) -> None:
    assert edit_distances(passage, text, from_start) == plain_row(passage, text, from_start)


@settings(deadline=None)
@given(PASSAGES, TEXTS)
def test_no_window_is_nearer_than_the_one_found(passage: str, text: str) -> None:
    found = nearest(passage, text)

    assert found is not None
    assert found.distance == min(plain_row(passage, text))
    assert edits(passage, text[found.start : found.end]) == found.distance
    assert found.similarity == 1 - found.distance / len(passage)


@settings(deadline=None)
@given(PASSAGES, TEXTS)
def test_of_equal_windows_the_first_is_found(passage: str, text: str) -> None:
    found = nearest(passage, text)

    assert found is not None
    row = plain_row(passage, text)
    first_end = row.index(found.distance)
    assert found.start <= first_end <= found.end <= first_end + 2 * found.distance


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 130), st.sampled_from(ALPHABETS))
def test_the_best_of_a_long_text_is_found_however_much_differs(
    seed: int, changes: int, letters: str
) -> None:
    chance = random.Random(seed)
    text = "".join(chance.choices(letters, k=120_000))
    place = chance.randrange(len(text) - 400)
    passage = edited(text[place : place + 400], changes, letters, chance)

    found = nearest(passage, text)

    assert found is not None
    everywhere = edit_distances(passage, text)
    assert found.distance == min(everywhere)
    assert edits(passage, text[found.start : found.end]) == found.distance
    assert found.end - everywhere.index(found.distance) in range(2 * found.distance + 1)


def edited(text: str, changes: int, letters: str, chance: random.Random) -> str:
    """The text after so many random edits."""
    characters = list(text)
    for _ in range(changes):
        at = chance.randrange(len(characters))
        match chance.randrange(3):
            case 0:
                characters[at] = chance.choice(letters)
            case 1:
                del characters[at]
            case _:
                characters.insert(at, chance.choice(letters))
    return "".join(characters)


@pytest.mark.parametrize(
    ("passage", "text", "window"),
    [
        ("foo bar", "x foo ba\nnext", "foo ba"),
        ("foo bar", "x foo baX\nnext", "foo baX"),
        ("  foo", "x\n\tfoo\n", "\tfoo"),
        ("x = 1", "a\nx = 2;\n", "x = 2"),
        ("a\nb\nc", "-a\r\nb\r\nc\r\n-", "a\r\nb\r\nc"),
        ("one\ntwo\n", "one\r\ntwo\r\nthree", "one\r\ntwo\r\n"),
        ("one two thee", "one two three.", "one two three"),
        ("ool of fish", "a spool of fish", "ool of fish"),
        ("hee is one", "a thee is one", "hee is one"),
        ("tere it is", "so there it is", "there it is"),
        ("abcd", "abcxd", "abcxd"),
        ("abcd", "axbcd", "axbcd"),
        ("“quoted” text", 'a "quoted" text.', '"quoted" text'),
        ("family 👨‍👩‍👧 here", "a family 👨‍👩‍👦 here.", "family 👨‍👩‍👦 here"),
        ("aaaXaaa", "a" * 50, "a" * 7),
    ],
)
def test_a_window_ends_where_a_person_would_end_it(passage: str, text: str, window: str) -> None:
    found = nearest(passage, text)

    assert found is not None
    assert text[found.start : found.end] == window


@pytest.mark.parametrize(
    ("passage", "text"),
    [
        ("a" * 1000 + "b" + "a" * 1000, "a" * 300_000),
        ("ab" * 1000 + "c", "ba" * 150_000),
        ("x" * 100_000, "y" * 20_000),
        ("".join(map(chr, range(0x4E00, 0x4E00 + 1000))), "漢字" * 100_000),
    ],
    ids=["one letter", "two letters", "longer than the text", "a thousand letters"],
)
def test_hostile_text_is_measured_to_the_end(passage: str, text: str) -> None:
    found = nearest(passage, text)

    assert found is not None
    assert found.distance == min(edit_distances(passage, text))


def test_a_request_without_measure_is_refused_and_not_begun() -> None:
    assert nearest("ab" * 300_000, "ba" * 300_000) is None


def test_an_empty_text_is_as_far_away_as_can_be() -> None:
    assert nearest("abc", "") == PassageWindow(0, 0, 3, 0.0)


def test_an_empty_passage_is_nowhere() -> None:
    with pytest.raises(ValueError, match="no passage"):
        nearest("", "abc")
