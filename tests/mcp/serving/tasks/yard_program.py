"""A program that serves tools and an agent, to be killed: `yard_program.py STORE hang|go`."""

import asyncio
import sys
from typing import Any

from wieldy import Call, Context
from wieldy.agent import Agent, ServedAgent
from wieldy.mcp import Tasks, serve
from wieldy.testing import ScriptedModel

store, way = sys.argv[1:]
# The process that goes on asks the model only for what is missing.
answers: list[Any] = [Call("dig", {}), "The hole is dug."]
model = ScriptedModel(answers if way == "hang" else answers[1:])
agent = Agent(model, name="desk", tool_strategy="native", store=f"sqlite:///{store}")


async def _work(context: Context) -> str:
    await context.progress(1, 2, "begun")
    if way == "hang":
        await asyncio.Event().wait()
    return "done"


async def dig(context: Context) -> str:
    """Dig a hole."""
    return await _work(context)


async def build(context: Context) -> str:
    """Build something that must not be built twice."""
    return await _work(context)


async def look(context: Context) -> str:
    """Look for something, which may be done twice."""
    return await _work(context)


async def wipe(path: str) -> str:
    """Wipe it."""
    return f"wiped {path}"


agent.toolbox.add(dig, tags=[agent.tag], read_only=True)
served = ServedAgent(agent)
served.box.add(build)
served.box.add(look, read_only=True)
served.box.add(wipe, permission="confirm")


def ready(url: str) -> None:
    """Say where the server is."""
    sys.stderr.write(f"{url}\n")
    sys.stderr.flush()


async def main() -> None:
    """Serve until the end, and let runs go on."""
    async with served.keep_runs().keeping():
        await serve(served.box, view=served.view, port=0, ready=ready, tasks=Tasks(after=0))


if __name__ == "__main__":
    asyncio.run(main())
