"""A program that runs out of disk, in a file system of its own that nobody else sees."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from wieldy import Toolbox

FOLDER = Path(sys.argv[1])


async def main() -> None:
    """Print how calls end before, while and after the disk is full."""
    ballast = FOLDER / "ballast"
    ran: list[int] = []
    answers = []
    async with Toolbox(store=f"sqlite:///{FOLDER}/store.db") as box:

        @box.tool
        async def work(n: int, text: str) -> int:
            """Work, and fill the disk on the way if asked."""
            ran.append(n)
            if n == 3:
                fill(ballast)
            return n * 2

        async def call(n: int) -> None:
            outcome = await box.call("work", {"n": n, "text": "x" * 20_000})
            error = None if outcome.error is None else str(outcome.error)
            answers.append([n, outcome.status.value, outcome.value, error])

        await call(1)
        fill(ballast)
        await call(2)
        ballast.unlink()
        await call(3)
        # What the end of the third could not find is there again for the fourth.
        ballast.unlink()
        await call(4)
        states = {
            dict(entry.call.arguments or {})["n"]: entry.state  # type: ignore[arg-type]
            for entry in await box.ledger.list()
        }
    sys.stdout.write(json.dumps({"answers": answers, "ran": ran, "states": states}))


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    for size in (65536, 4096, 1):
        while True:
            try:
                os.write(file, b"x" * size)
            except OSError:
                break
    os.close(file)


subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(FOLDER)], check=True)
asyncio.run(main())
