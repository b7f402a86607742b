"""A process in which agents work, and which may die when the inner one asks its model again.

`dying_team.py URL FOLDER HOW DEATH`: HOW says who carries the run on, and DEATH is the round of
the inner agent in whose place the process dies.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from wieldy import Call, Toolbox
from wieldy.agent import Agent, RunInterrupted, RunKeeper, ServedAgent
from wieldy.models.model import Answers, ModelRequest
from wieldy.testing import ScriptedModel
from wieldy.tools.code_mode import add_code_mode

ROUNDS = 10
_PROGRAM = 'await researcher(query="What is tea?")'


def make_team(url: str, folder: Path, death: int = -1, program: bool = False) -> Agent:
    """A writer that asks a researcher, which notes ten things, pays, and answers."""

    def research(request: ModelRequest) -> Any:
        rounds = sum(isinstance(turn, Answers) for turn in request.turns)
        if rounds == death:
            os.kill(os.getpid(), signal.SIGKILL)
        if rounds < ROUNDS:
            return Call("note", {"n": rounds})
        return Call("pay", {"n": rounds}) if rounds == ROUNDS else "Noted."

    def write(request: ModelRequest) -> Any:
        if any(isinstance(turn, Answers) for turn in request.turns):
            return "So it is."
        asked = Call("researcher", {"query": "What is tea?"})
        return Call("run_code", {"code": _PROGRAM}) if program else asked

    def trace(name: str, n: int) -> str:
        with (folder / "effects").open("a") as file:
            file.write(f"{name} {n}\n")
        return f"{name} {n} is done"

    box = Toolbox(store=url)
    native: dict[str, Any] = {"tool_strategy": "native", "toolbox": box}
    researcher = Agent(ScriptedModel(research), name="researcher", max_rounds=20, **native)
    writer = Agent(ScriptedModel(write), name="writer", **native)

    @box.tool(tags=[researcher.tag])
    async def note(n: int) -> str:
        """Note something."""
        return trace("note", n)

    @box.tool(tags=[researcher.tag], permission="confirm")
    async def pay(n: int) -> str:
        """Pay."""
        return trace("pay", n)

    if program:
        box.add(researcher.as_tool(), tags=["inner"])
        add_code_mode(box.view(tags="inner"), tags=[writer.tag])
    else:
        writer.use_tools(researcher)
    return writer


async def begin(writer: Agent, how: str) -> None:
    """Begin the run; the process dies in it."""
    if how == "served":
        await ServedAgent(writer).box.call("writer", {"query": "Write."})
    else:
        await writer.input("Write.").async_start()


async def carry_on(writer: Agent, how: str) -> None:
    """Carry the run on until it waits, has ended, or the process dies."""
    runs = writer.toolbox.store.runs
    if how == "served":
        await ServedAgent(writer).box.recover()
        return
    [run] = await runs.list(outermost=True)
    if how == "hand":
        try:
            await writer.async_resume(run.id)
        except RunInterrupted:
            return
    async with RunKeeper(writer).keeping():
        ends = ("interrupted", "done", "failed", "cancelled")
        await runs.until(run.id, lambda stored: stored.state in ends)


async def main(url: str, folder: str, how: str, death: str) -> None:
    """Begin, or carry on what was begun."""
    writer = make_team(url, Path(folder), int(death), how == "code")
    async with writer.toolbox as box:
        begun = await box.store.runs.list()
        await (carry_on(writer, how) if begun else begin(writer, how))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
