"""Runs in processes that are killed, and what has to hold of them afterwards."""

import json
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from tests.forking.forked_program import ForkedProgram
from wieldy import Toolbox

PROGRAM = Path(__file__).with_name("crashing_program.py")
# Where a process may die, and the last of each kind that a run comes to.
POINTS = {"commit": 80, "before": 9, "after": 9, "clock": 250}
CALLS = {
    *(f"note {n}" for n in (1, 4, 5, 9)),
    *(f"look {n}" for n in (2, 7)),
    *(f"pay {n}" for n in (3, 6, 8)),
}
SUBAGENTS = {"clerk", "buyer"}


class Crasher:
    """The program that carries runs on in processes of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self._process = ForkedProgram([str(PROGRAM), url, str(folder)])

    def carry_on(self, run: str, point: str = "never", left: int = 0) -> int:
        """Carry a run on in a process that dies at a point; gives how it ended."""
        self._process.stdin.write(json.dumps({"run": run, "point": point, "left": left}) + "\n")
        self._process.stdin.flush()
        code: int = json.loads(self._process.stdout.readline())["code"]
        return code

    def kill_often(self, run: str, drawn: random.Random, most: int = 4) -> int:
        """Carry a run on to its end in processes that die before; gives how many did."""
        kills = 0
        for _ in range(drawn.randrange(1, most + 1)):
            point = drawn.choice(list(POINTS))
            code = self.carry_on(run, point, drawn.randrange(1, POINTS[point] + 1))
            assert code in (0, -signal.SIGKILL), f"{run} ended with {code}"
            kills += code != 0
        assert self.carry_on(run) == 0, f"{run} did not come to its end"
        assert self.read(run, "answer") == "All done."
        return kills

    def effects(self, run: str) -> Counter[str]:
        """How often each call had its effect."""
        path = self._folder / f"{run}.effects"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    def read(self, run: str, name: str) -> str:
        """What the run left: its id, or its answer."""
        return (self._folder / f"{run}.{name}").read_text()

    def close(self) -> None:
        """End the program."""
        self._process.stdin.close()
        self._process.wait()
        self._process.close()


async def check_effects(crasher: Crasher, box: Toolbox, run: str) -> None:
    """Every call was made once, and had its effect once unless nobody can know."""
    effects, run_id = crasher.effects(run), crasher.read(run, "id")
    runs = [await box.store.runs.get(run_id), *await box.store.runs.inside(run_id)]
    states = await _states_of(box, [each.id for each in runs if each is not None])
    assert Counter(each.agent for each in runs if each is not None) == {
        **dict.fromkeys(SUBAGENTS, 1),
        "crasher": 1,
    }, f"{run} has other runs inside than it should"
    assert all(each is not None and each.state == "done" for each in runs), run
    assert states.keys() == CALLS | SUBAGENTS, f"{run} made {sorted(states)}"
    # The run of a subagent is durable, so that nobody need not know how its call ended.
    assert {states[each] for each in SUBAGENTS} == {"ok"}, f"{run}: {states}"
    for call in CALLS:
        said = f"{run}: {call} is {states[call]} and had its effect {effects[call]} times"
        if call.startswith("look"):
            assert states[call] == "ok" and effects[call] >= 1, said
        elif states[call] == "ok":
            assert effects[call] == 1, said
        else:
            assert states[call] == "unknown" and effects[call] <= 1, said


async def _states_of(box: Toolbox, runs: list[str]) -> dict[str, str]:
    """How each call of these runs ended; a call that was made twice is an error."""
    entries = [e for e in await box.ledger.list(limit=None) if e.call.scope.run in runs]
    states = {_name(e): e.state for e in entries}
    assert len(entries) == len(states), f"calls were made twice: {sorted(map(_name, entries))}"
    return states


def _name(entry: Any) -> str:
    call = entry.call
    return call.tool if call.tool in SUBAGENTS else f"{call.tool} {call.arguments['n']}"
