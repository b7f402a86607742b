"""The program whose runs the kill test ends at any moment, and carries on.

It reads commands as JSON lines: which run to carry on, and how to die. For each it forks a
child that carries the run on until it is done, approving what waits, or until it dies.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from wieldy import Call
from wieldy.agent import Agent, NotPending, RunBusy, RunInterrupted, RunNotFound
from wieldy.models.model import Answers, ModelRequest
from wieldy.testing import ScriptedModel

URL, FOLDER = sys.argv[1], Path(sys.argv[2])
# What each agent's model says, round by round; two of the agents are asked by the first.
ROUNDS = {
    "crasher": [
        [Call("note", {"n": 1}), Call("look", {"n": 2})],
        [Call("clerk", {"query": "Go."}), Call("buyer", {"query": "Go."})],
        [Call("pay", {"n": 3}), Call("note", {"n": 4})],
    ],
    "clerk": [
        [Call("note", {"n": 5})],
        [Call("pay", {"n": 6}), Call("look", {"n": 7})],
    ],
    "buyer": [[Call("pay", {"n": 8})], [Call("note", {"n": 9})]],
}


def die() -> None:
    """End as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


class Death:
    """Ends the process at a point that is counted: a commit, or before or after an effect.

    The point "clock" is a moment, in milliseconds.
    """

    def __init__(self, point: str, left: int) -> None:
        self._point = point
        self._left = left
        if point == "clock":
            timer = threading.Timer(left / 1000, die)
            timer.daemon = True
            timer.start()

    def reach(self, point: str) -> None:
        """Count a point that is reached."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                die()

    def watch_commits(self) -> None:
        """Count the commits of every connection, just before they are sent."""
        event.listen(Engine, "commit", lambda *_: self.reach("commit"))

        @event.listens_for(Engine, "connect")
        def trace(connection: Any, record: Any) -> None:
            if hasattr(connection, "set_trace_callback"):
                connection.set_trace_callback(
                    lambda sql: self.reach("commit") if sql == "COMMIT" else None
                )


def make_agent(name: str) -> Agent:
    """An agent that says what comes next, by how many rounds the conversation has had."""

    def answer(request: ModelRequest) -> Any:
        rounds = sum(isinstance(turn, Answers) for turn in request.turns)
        script = ROUNDS[name]
        return list(script[rounds]) if rounds < len(script) else "All done."

    return Agent(ScriptedModel(answer), name=name, tool_strategy="native", store=URL)


def make_team(death: Death, effects: Path) -> Agent:
    """An agent with two subagents; each tool leaves a trace that outlives the process."""
    inner = [make_agent("clerk"), make_agent("buyer")]
    agent = make_agent("crasher").use_tools(inner)

    def leave_trace(name: str, n: int) -> str:
        death.reach("before")
        with effects.open("a") as file:
            file.write(f"{name} {n}\n")
        death.reach("after")
        return f"{name} {n} is done"

    async def note(n: int) -> str:
        """Do something that can't be taken back."""
        return leave_trace("note", n)

    async def look(n: int) -> str:
        """Look at something."""
        return leave_trace("look", n)

    async def pay(n: int) -> str:
        """Pay, if a person agrees."""
        return leave_trace("pay", n)

    box, tags = agent.toolbox, [each.tag for each in (agent, *inner)]
    box.add(note, tags=tags)
    box.add(look, tags=tags, read_only=True)
    box.add(pay, tags=tags, permission="confirm")
    return agent


async def carry_on(run: str, death: Death) -> None:
    """Begin a run or carry it on, and approve what waits, until it is done."""
    names, effects = FOLDER / f"{run}.id", FOLDER / f"{run}.effects"
    async with make_team(death, effects) as agent:
        decisions: dict[str, Any] = {}
        while True:
            try:
                try:
                    run_id = names.read_text()
                    text = await agent.async_resume(run_id, decisions)
                except (FileNotFoundError, RunNotFound):
                    response = agent.input("Go.").get_response()
                    # Killed while it writes, this program leaves no half of an id.
                    drafted = names.with_suffix(".draft")
                    drafted.write_text(response.run_id)
                    drafted.replace(names)
                    text = await response.async_get_data()
            except RunInterrupted as error:
                decisions = {each.id: {"approved": True} for each in error.pending}
                continue
            except (RunBusy, NotPending):
                # Another process is at it, or was faster.
                decisions = {}
                await asyncio.sleep(0.01)
                continue
            (FOLDER / f"{run}.answer").write_text(text)
            return


def main() -> None:
    """Obey until there are no more commands."""
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            death = Death(command["point"], command["left"])
            death.watch_commits()
            asyncio.run(carry_on(command["run"], death))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"code": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()


main()
