"""What it costs to find a tool among many."""

import heapq
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from wieldy import Toolbox

from .clock import interleaved
from .effort import Effort
from .row import Row, ratio
from .sample import QUESTION, describe_many

_SHOWN = 8


def search(effort: Effort) -> list[Row]:
    """Ask a box with an index, and a list without one; then add a tool and ask again."""
    count = effort.count(10_000)
    described = describe_many(count)
    texts = [text for _, text in described]
    box = Toolbox()
    for name, text in described:
        box.add(_nothing, name, text)
    started = perf_counter()
    box.search(QUESTION, _SHOWN)
    built = perf_counter() - started

    def grown() -> None:
        box.add(_nothing, f"tool_{len(box)}", texts[0])
        box.search(QUESTION, _SHOWN)

    base, ours, added = interleaved(
        effort.rounds(25),
        lambda: plain_pass(texts, QUESTION),
        lambda: box.search(QUESTION, _SHOWN),
        grown,
    )
    return [
        ratio(
            f"search over {count:,} tools", ours * 1e3, base * 1e3, "ms",
            "a plain pass over the descriptions", 0.65,
        ),
        ratio(
            "adding a tool, then searching", added * 1e3, built * 1e3, "ms",
            "building the index, then searching", 0.05,
        ),
    ]  # fmt: skip


def plain_pass(texts: Sequence[str], question: str) -> list[int]:
    """The places of the texts that hold most of the words, the best first."""
    words = question.lower().split()
    scores = [sum(word in text for word in words) for text in map(str.lower, texts)]
    return heapq.nlargest(_SHOWN, range(len(texts)), key=scores.__getitem__)


async def _nothing(**given: Any) -> None:
    """Do nothing."""
