"""Runs of an agent that are kept: many at once beside one after the other."""

import asyncio
import tempfile

from wieldy.agent import Agent

from .agents import QuickModel, add
from .clock import interleaved_async
from .effort import Effort
from .row import Row, ratio


def stored_runs(effort: Effort) -> list[Row]:
    """A thousand runs with one call each, in a store: those at once share their commits."""
    crowd = effort.count(1000)
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/runs.db"
        agent = Agent(QuickModel(), name="quick", tool_strategy="native", store=store)
        agent.use_tools(add)

        async def one_by_one() -> None:
            for _ in range(crowd):
                await agent.input("1 + 2?").async_start()

        async def at_once() -> None:
            await asyncio.gather(*(agent.input("1 + 2?").async_start() for _ in range(crowd)))

        lone, crowded = interleaved_async(effort.rounds(3), one_by_one, at_once)
        agent.close()
    return [
        ratio(
            f"{crowd:,} recorded runs at once", crowded * 1e3, lone * 1e3, "ms",
            "one after the other", 1 / 8,
        )
    ]  # fmt: skip
