"""What many calls at once cost, when all of them wait."""

import asyncio

from wieldy import Toolbox

from .clock import interleaved_async
from .effort import Effort
from .row import Row, ratio


def concurrency(effort: Effort) -> list[Row]:
    """A thousand sleeps at once, beside a bare gather."""
    count = effort.count(1000)
    box = Toolbox()
    box.add(rest)

    async def bare() -> None:
        await asyncio.gather(*(rest() for _ in range(count)))

    async def ours() -> None:
        await box.call_many([("rest", {})] * count)

    base, spent = interleaved_async(effort.rounds(25), bare, ours)
    name = f"{count:,} sleeps of 10 ms at once"
    return [ratio(name, spent * 1e3, base * 1e3, "ms", "a bare gather", 1.3)]


async def rest() -> None:
    """Wait for ten milliseconds."""
    await asyncio.sleep(0.01)
