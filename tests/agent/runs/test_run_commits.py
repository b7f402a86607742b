"""How often a run is written: two commits per call and two per round, shared among runs."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from wieldy import Call
from wieldy.agent import Agent
from wieldy.models.model import Answers, ModelRequest
from wieldy.testing import ScriptedModel

# The row itself, the prompt as it was sent, and the end.
_AROUND = 3


class Commits:
    """Counts the commits of every SQLite connection."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, connection: Any, record: Any) -> None:
        """Listen to a new connection."""
        connection.set_trace_callback(self._hear)

    def _hear(self, statement: str) -> None:
        self.count += statement == "COMMIT"


@pytest.fixture
def commits() -> Iterator[Commits]:
    counted = Commits()
    event.listen(Engine, "connect", counted.watch)
    yield counted
    event.remove(Engine, "connect", counted.watch)


def make_agent(folder: Path, rounds: int, calls: int) -> Agent:
    def answer(request: ModelRequest) -> Any:
        done = sum(isinstance(turn, Answers) for turn in request.turns)
        asked = [Call("note", {"text": f"{done} {each}"}) for each in range(calls)]
        return asked if done < rounds else "Done."

    store = f"sqlite:///{folder}/runs.db"
    agent = Agent(ScriptedModel(answer), name="notes", tool_strategy="native", store=store)

    @agent.tool_func
    async def note(text: str) -> str:
        return text

    return agent


@pytest.mark.parametrize(("rounds", "calls"), [(0, 0), (1, 1), (4, 1), (2, 3)])
async def test_a_run_makes_two_commits_per_call_and_two_per_round(
    commits: Commits, tmp_path: Path, rounds: int, calls: int
) -> None:
    async with make_agent(tmp_path, rounds, calls) as agent:
        await agent.input("The store is opened.").async_start()
        commits.count = 0
        await agent.input("Go.").async_start()
        made = commits.count

    assert 0 < made <= _AROUND + rounds * (2 + 2 * calls)


async def test_runs_at_the_same_time_share_their_commits(commits: Commits, tmp_path: Path) -> None:
    runs, rounds, calls = 50, 2, 2
    alone = _AROUND + rounds * (2 + 2 * calls)
    async with make_agent(tmp_path, rounds, calls) as agent:
        await agent.input("The store is opened.").async_start()
        commits.count = 0
        await asyncio.gather(*(agent.input("Go.").async_start() for _ in range(runs)))
        made = commits.count

    # How many share one depends on how busy the machine is.
    assert 0 < made <= runs * alone / 3


async def test_a_run_that_waits_in_a_call_keeps_few_objects(tmp_path: Path) -> None:
    count, entered, going_on = 50, asyncio.Semaphore(0), asyncio.Event()
    agent = make_agent(tmp_path, 1, 1)

    @agent.tool_func
    async def note(text: str) -> str:
        entered.release()
        await going_on.wait()
        return text

    going_on.set()
    await agent.input("Once.").async_start()
    going_on.clear()
    gc.collect()
    before = len(gc.get_objects())
    runs = [asyncio.ensure_future(agent.input("Note it.").async_start()) for _ in range(count)]
    for _ in range(count + 1):
        await entered.acquire()
    gc.collect()
    kept = (len(gc.get_objects()) - before) / count
    going_on.set()
    await asyncio.gather(*runs)
    await agent.async_close()

    # Each object is one more for the garbage collector to look at, and a thousand runs may wait.
    assert kept < 95
