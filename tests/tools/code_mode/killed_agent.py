"""A process whose agent is killed inside of a program: `killed_agent.py URL FOLDER POINT`."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wieldy import Call
from wieldy.agent import Agent
from wieldy.testing import ScriptedModel
from wieldy.tools.code_mode import add_code_mode

CODE = """
total = 0
for n in range(3):
    total += await act(n=n)
    await look(n=n)
total
"""


def make_agent(url: str, folder: Path, script: Sequence[Any], point: str = "never") -> Agent:
    """An agent with code mode whose process dies behind the effect of one call."""
    agent = Agent(ScriptedModel(script), name="coder", tool_strategy="native", store=url)
    box = agent.toolbox

    def leave_trace(name: str, n: int) -> int:
        with (folder / "effects").open("a") as file:
            file.write(f"{name} {n}\n")
        if point == f"after {name} {n}":
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    @box.tool(tags="inner")
    async def act(n: int) -> int:
        """Do something that can't be taken back."""
        return leave_trace("act", n)

    @box.tool(tags="inner", read_only=True)
    async def look(n: int) -> int:
        """Look at something."""
        return leave_trace("look", n)

    add_code_mode(box.view(tags="inner"), tags=[agent.tag])
    return agent


async def main(url: str, folder: str, point: str) -> None:
    """Let the agent run the program."""
    script = [[Call("run_code", {"code": CODE})], "Done."]
    await make_agent(url, Path(folder), script, point).input("Go.").async_start()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
