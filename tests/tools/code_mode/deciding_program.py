"""A process that runs a program, or decides on its calls: `deciding_program.py URL FOLDER WORK`."""

import asyncio
import os
import sys
from pathlib import Path

from wieldy import Toolbox
from wieldy.tools.code_mode import add_code_mode

CODE = """
import asyncio, random, time
drawn = [random.random(), time.time()]
first = await look(n=1)
paid = await asyncio.gather(pay(n=1), look(n=2), pay(n=2))
last = await pay(n=3)
[first, *paid, last, drawn == [drawn[0], time.time()]]
"""


def make_box(url: str, folder: Path) -> Toolbox:
    """A box whose tools say in a folder which process ran them."""
    box = Toolbox(store=url)

    def leave_trace(name: str, n: int) -> int:
        with (folder / "effects").open("a") as file:
            file.write(f"{name} {n} by {os.getpid()}\n")
        return n

    @box.tool(read_only=True)
    async def look(n: int) -> int:
        """Look at something."""
        return leave_trace("look", n)

    @box.tool(permission="confirm")
    async def pay(n: int) -> int:
        """Pay something."""
        return leave_trace("pay", n)

    add_code_mode(box.view(names=["look", "pay"]))
    return box


async def main(url: str, folder: str, work: str) -> None:
    """Run the program, or approve one of the calls that wait."""
    async with make_box(url, Path(folder)) as box:
        if work == "run":
            await box.call("run_code", {"code": CODE})
        else:
            await box.approve((await box.pending())[0].id, by="ann")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
