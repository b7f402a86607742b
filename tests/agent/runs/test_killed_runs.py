"""A run whose process is killed goes on from its last settled step, with no effect twice."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wieldy
from wieldy import Toolbox

PROGRAM = Path(__file__).with_name("crashing_program.py")
RUNS = 12
MOST_KILLS = 4
POINTS = {"commit": 40, "before": 8, "after": 8}
CALLS = {"note 1", "look 2", "pay 3", "note 4", "pay 5", "look 6", "pay 7", "note 8"}


class Crasher:
    """The program that carries runs on in processes of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        source = str(Path(wieldy.__file__).parents[1])
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), url, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )

    def carry_on(self, run: str, point: str = "never", left: int = 0) -> int:
        """Carry a run on in a process that dies at a point; gives how it ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"run": run, "point": point, "left": left}) + "\n")
        self._process.stdin.flush()
        code: int = json.loads(self._process.stdout.readline())["code"]
        return code

    def effects(self, run: str) -> Counter[str]:
        """How often each call had its effect."""
        path = self._folder / f"{run}.effects"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    def read(self, run: str, name: str) -> str:
        """What the run left: its id, or its answer."""
        return (self._folder / f"{run}.{name}").read_text()

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(120)
        self._process.stdout.close()


@pytest.fixture
def crasher(url: str, tmp_path: Path) -> Iterator[Crasher]:
    """The program, on an empty store."""
    crasher = Crasher(url, tmp_path)
    yield crasher
    crasher.close()


async def test_a_run_that_is_killed_at_any_moment_goes_on_and_does_nothing_twice(
    crasher: Crasher, url: str
) -> None:
    drawn = random.Random(17)
    kills = 0
    for number in range(RUNS):
        run = f"run{number}"
        for _ in range(drawn.randrange(1, MOST_KILLS + 1)):
            point = drawn.choice(list(POINTS))
            left = drawn.randrange(1, POINTS[point] + 1)
            code = crasher.carry_on(run, point, left)
            assert code in (0, -signal.SIGKILL)
            kills += code != 0
        assert crasher.carry_on(run) == 0
        assert crasher.read(run, "answer") == "All done."
        await check_effects(crasher, url, run)
    assert kills > RUNS


async def test_processes_that_decide_and_resume_at_once_run_it_once(
    crasher: Crasher, url: str, tmp_path: Path
) -> None:
    others = [Crasher(url, tmp_path) for _ in range(2)]
    try:
        for number in range(4):
            run = f"shared{number}"
            # It dies when the first call has parked, so that there is something to decide on.
            crasher.carry_on(run, "commit", 12)
            both = (asyncio.to_thread(each.carry_on, run) for each in others)
            assert await asyncio.gather(*both) == [0, 0]
            await check_effects(crasher, url, run)
    finally:
        for each in others:
            each.close()


async def check_effects(crasher: Crasher, url: str, run: str) -> None:
    """Every call was made once, and had its effect once unless nobody can know."""
    effects = crasher.effects(run)
    async with Toolbox(store=url) as box:
        run_id = crasher.read(run, "id")
        entries = [e for e in await box.ledger.list(limit=None) if e.call.scope.run == run_id]
        stored = await box.store.runs.get(run_id)
    states = {f"{e.call.tool} {_number(e)}": e.state for e in entries}
    assert stored is not None and stored.state == "done"
    assert len(entries) == len(states) == len(CALLS)
    for call in CALLS:
        if call.startswith("look"):
            assert states[call] == "ok" and effects[call] >= 1
        elif states[call] == "ok":
            assert effects[call] == 1
        else:
            assert states[call] == "unknown" and effects[call] <= 1


def _number(entry: Any) -> int:
    number: int = entry.call.arguments["n"]
    return number
