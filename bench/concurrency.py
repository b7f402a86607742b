"""What many calls at once cost, when all of them wait."""

import asyncio

from wieldy import Toolbox

from .clock import interleaved_async
from .effort import Effort
from .row import Row, ratio


def concurrency(effort: Effort) -> list[Row]:
    """A thousand and ten thousand sleeps at once, beside a bare gather."""
    return [*sleeps_at_once(effort, 1000, 1.3), *sleeps_at_once(effort, 10_000, 1.4)]


def sleeps_at_once(effort: Effort, most: int, target: float) -> list[Row]:
    """So many calls in flight, all of which wait."""
    count = effort.count(most)
    box = Toolbox()
    box.add(rest)

    async def bare() -> None:
        await asyncio.gather(*(rest() for _ in range(count)))

    async def ours() -> None:
        await box.call_many([("rest", {})] * count)

    base, spent = interleaved_async(effort.rounds(25), bare, ours)
    name = f"{count:,} sleeps of 10 ms at once"
    return [ratio(name, spent * 1e3, base * 1e3, "ms", "a bare gather", target)]


async def rest() -> None:
    """Wait for ten milliseconds."""
    await asyncio.sleep(0.01)
