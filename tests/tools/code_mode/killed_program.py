"""A process whose program is killed in one of its calls: `killed_program.py URL FOLDER POINT`."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from wieldy import Outcome, Toolbox
from wieldy.tools.code_mode import add_code_mode

CODE = """
import asyncio, random
total = 0
for n in range(3):
    total += await act(n=n)
    await look(n=n)
total += sum(await asyncio.gather(act(n=10), act(n=11)))
print(random.random())
total
"""


def make_box(url: str, folder: Path, point: str = "never") -> Toolbox:
    """A box whose process dies at a point: before or after an effect, or between two calls."""

    def reach(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(outcome: Outcome) -> None:
        sent = outcome.call.arguments
        reach(f"ended {outcome.call.tool} {sent.get('n') if isinstance(sent, dict) else None}")

    box = Toolbox(store=url, observers=[watch])

    def leave_trace(name: str, n: int) -> int:
        reach(f"before {name} {n}")
        with (folder / "effects").open("a") as file:
            file.write(f"{name} {n}\n")
        reach(f"after {name} {n}")
        return n

    @box.tool
    async def act(n: int) -> int:
        """Do something that can't be taken back."""
        return leave_trace("act", n)

    @box.tool(read_only=True)
    async def look(n: int) -> int:
        """Look at something."""
        return leave_trace("look", n)

    add_code_mode(box.view(names=["act", "look"]))
    return box


async def main(url: str, folder: str, point: str) -> None:
    """Run the program."""
    async with make_box(url, Path(folder), point) as box:
        await box.call("run_code", {"code": CODE})


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
