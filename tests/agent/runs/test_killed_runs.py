"""A run whose process is killed goes on from its last settled step, with no effect twice.

The run has two subagents and three approvals. `judges/killed-runs` kills hundreds of them.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.agent.runs.crasher import Crasher, check_effects
from wieldy import Toolbox

RUNS = 4


@pytest.fixture
def crasher(url: str, tmp_path: Path) -> Iterator[Crasher]:
    """The program, on an empty store."""
    crasher = Crasher(url, tmp_path)
    yield crasher
    crasher.close()


@pytest.fixture
async def box(url: str) -> AsyncIterator[Toolbox]:
    """The same store, to look into."""
    async with Toolbox(store=url) as box:
        yield box


async def test_a_run_that_is_killed_at_any_moment_goes_on_and_does_nothing_twice(
    crasher: Crasher, box: Toolbox
) -> None:
    drawn = random.Random(17)
    kills = 0
    for number in range(RUNS):
        kills += crasher.kill_often(f"run{number}", drawn)
        await check_effects(crasher, box, f"run{number}")
    assert kills >= RUNS


async def test_processes_that_decide_and_resume_at_once_run_it_once(
    crasher: Crasher, box: Toolbox, url: str, tmp_path: Path
) -> None:
    others = [Crasher(url, tmp_path) for _ in range(2)]
    try:
        # It dies when calls have parked, so that there is something to decide on.
        crasher.carry_on("shared", "commit", 30)
        both = (asyncio.to_thread(each.carry_on, "shared") for each in others)
        assert await asyncio.gather(*both) == [0, 0]
        await check_effects(crasher, box, "shared")
    finally:
        for each in others:
            each.close()
