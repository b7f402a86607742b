"""Time two things in turn and keep the best of each."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any

Work = Callable[[], Any]
AsyncWork = Callable[[], Awaitable[Any]]


def interleaved(rounds: int, *works: Work) -> tuple[float, ...]:
    """The best time in seconds of each, measured in turn so that noise meets all alike."""
    best = [float("inf")] * len(works)
    gc.collect()
    for _ in range(rounds):
        for place, work in enumerate(works):
            started = perf_counter()
            work()
            best[place] = min(best[place], perf_counter() - started)
    return tuple(best)


def interleaved_async(rounds: int, *works: AsyncWork) -> tuple[float, ...]:
    """The same for coroutines, all on one loop."""

    async def measure() -> tuple[float, ...]:
        best = [float("inf")] * len(works)
        gc.collect()
        for _ in range(rounds):
            for place, work in enumerate(works):
                started = perf_counter()
                await work()
                best[place] = min(best[place], perf_counter() - started)
        return tuple(best)

    return asyncio.run(measure())


def typical(runs: Sequence[Sequence[float]], place: int) -> tuple[float, float]:
    """Ours at this place and the reference at the first, of the run whose ratio is the median.

    The same call can be a fifth faster or slower from one process to the next, and stays so
    while that process lives; more rounds in one process don't show it.
    """
    ordered = sorted(runs, key=lambda run: run[place] / run[0])
    middle = ordered[len(ordered) // 2]
    return middle[place], middle[0]
