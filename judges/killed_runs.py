"""Kill runs of agents with subagents and approvals, on SQLite and on PostgreSQL, and look at them.

`python judges/killed_runs.py SECONDS [SEED]` gives half of the time to each database. It ends with
1 if an effect happened twice, a call was lost, or a run did not come to its end.
"""

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.agent.runs.crasher import Crasher, check_effects
from tests.store.server import Server
from wieldy import Toolbox

# A judge that has hardly killed anything has shown nothing.
FEWEST_KILLS = 20
# How often one run is killed at most.
MAX_KILLS = 10


async def kill_runs(name: str, url: str, seconds: float, drawn: random.Random) -> int:
    """Kill runs until time is up; gives how many kills there were."""
    end, kills, number = time.monotonic() + seconds, 0, 0
    with tempfile.TemporaryDirectory(prefix="wieldy-kills-") as folder:
        crasher = Crasher(url, Path(folder))
        try:
            async with Toolbox(store=url) as box:
                while time.monotonic() < end:
                    run = f"run{number}"
                    kills += await asyncio.to_thread(crasher.kill_often, run, drawn, MAX_KILLS)
                    await check_effects(crasher, box, run)
                    number += 1
        finally:
            crasher.close()
    print(f"{name}: {number} runs, {kills} kills, no effect twice and none lost")
    return kills


async def judge(seconds: float, seed: int) -> int:
    """Judge both databases; returns the exit code."""
    drawn = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="wieldy-kills-") as folder:
        kills = [await kill_runs("SQLite", f"sqlite:///{folder}/runs.db", seconds / 2, drawn)]
    server = Server()
    try:
        kills.append(await kill_runs("PostgreSQL", server.new_database(), seconds / 2, drawn))
    finally:
        server.remove()
    return 0 if min(kills) >= FEWEST_KILLS else 1


def main() -> int:
    """Judge, and say what went wrong."""
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    print(f"Killing runs for {seconds:g} seconds; the seed is {seed}")
    try:
        return asyncio.run(judge(seconds, seed))
    except AssertionError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


sys.exit(main())
