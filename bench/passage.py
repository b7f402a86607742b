"""What it costs to find a passage that stands in a text a little differently."""

import os
import random
from pathlib import Path

from rapidfuzz import fuzz

from wieldy.store.artifacts.fuzzy import PassageWindow, nearest

from .clock import interleaved
from .effort import Effort
from .row import Row, ratio

_LETTERS = "etaoinshrdlu"
_WORDS = 3000


def passage(effort: Effort) -> list[Row]:
    """Look for near matches, then for something that is nowhere near, in more and more text."""
    size = max(8000, effort.count(1_000_000))
    prose = make_text(size)
    nowhere = prose[:2000][::-1]
    once, four_times = interleaved(
        effort.rounds(5),
        lambda: nearest(nowhere, prose[: size // 4]),
        lambda: nearest(nowhere, prose),
    )
    return [
        _near("prose", prose, effort),
        _near("code", read_code(size), effort),
        ratio(
            "four times the text without a match", four_times * 1e3, once * 1e3, "ms",
            "a quarter of it", 6.0,
        ),
    ]  # fmt: skip


def _near(kind: str, text: str, effort: Effort) -> Row:
    """Find the exact place of what differs from it in one of a hundred characters."""
    place = len(text) * 7 // 10
    near = misspelt(text[place : place + 2000], 20)
    assert nearest(near, text) == PassageWindow(place, place + 2000, 20, 0.99), (
        "another place was found"
    )
    base, ours = interleaved(
        effort.rounds(25),
        lambda: fuzz.partial_ratio_alignment(near, text),
        lambda: nearest(near, text),
    )
    return ratio(
        f"a near match of 2 KB in {len(text) / 1e6:.1f} MB of {kind}", ours * 1e3, base * 1e3,
        "ms", "rapidfuzz's partial_ratio_alignment", 1.0,
    )  # fmt: skip


def read_code(size: int) -> str:
    """Modules of the standard library."""
    modules = sorted(Path(os.__file__).parent.glob("*.py"))
    return "".join(module.read_text(encoding="utf-8") for module in modules)[:size]


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
