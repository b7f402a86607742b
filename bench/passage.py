"""What it costs to find a passage that stands in a text a little differently."""

import random
from time import perf_counter

from rapidfuzz import fuzz

from wieldy.store.fuzzy import Window, nearest

from .clock import interleaved
from .effort import Effort
from .row import Row, ratio

_LETTERS = "etaoinshrdlu"
_WORDS = 3000


def passage(effort: Effort) -> list[Row]:
    """Look for a near match, then for something that is nowhere near, in more and more text."""
    size = max(8000, effort.count(1_000_000))
    text, place = make_text(size), size * 7 // 10
    original = text[place : place + 2000]
    near = misspelt(original, 20)
    found = nearest(near, text)
    assert found == Window(place, place + 2000, 20, 0.99), (
        "another window than the one that is meant"
    )
    base, ours = interleaved(
        effort.rounds(25),
        lambda: fuzz.partial_ratio_alignment(near, text),
        lambda: nearest(near, text),
    )
    nowhere = original[::-1]
    once, four_times = (_seconds(nowhere, text[: size // part]) for part in (4, 1))
    return [
        ratio(
            f"a near match of 2 KB in {size / 1e6:.1f} MB, its exact ends", ours * 1e3, base * 1e3,
            "ms", "rapidfuzz's partial_ratio_alignment", 1.0,
        ),
        ratio(
            "four times the text without a match", four_times * 1e3, once * 1e3, "ms",
            "a quarter of it", 6.0,
        ),
    ]  # fmt: skip


def make_text(size: int) -> str:
    """Prose of made-up words, always the same."""
    chance = random.Random(7)
    words = ["".join(chance.choices(_LETTERS, k=chance.randint(1, 9))) for _ in range(_WORDS)]
    return " ".join(chance.choices(words, k=size // 2))[:size]


def misspelt(text: str, letters: int) -> str:
    """The text with so many of its letters replaced, none of them at an end."""
    chance = random.Random(8)
    changed = list(text)
    for place in chance.sample(range(1, len(text) - 1), letters):
        changed[place] = "#"
    return "".join(changed)


def _seconds(passage: str, text: str) -> float:
    started = perf_counter()
    nearest(passage, text)
    return perf_counter() - started
