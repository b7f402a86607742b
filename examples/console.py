"""Serve the example tools with the console: what `make run` starts.

A link is printed that signs you in. One call runs when you come in, another waits for you, an agent
with a scripted model has ended a run, and an MCP server is connected.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

# The file beside this one.
import tools  # type: ignore[import-not-found]

from wieldy import NotKept, Scope, Toolbox
from wieldy.agent import Agent
from wieldy.core.call import Call
from wieldy.server import run
from wieldy.testing import ScriptedModel

box: Toolbox = tools.box
NAME = "you"
SOMEBODY = Scope(session="example", caller="example")
PORT = 8000
SERVER = Path(__file__).with_name("word_server.py")


async def run_agent() -> None:
    """Have an agent answer a question, with a tool of the toolbox."""
    model = ScriptedModel([Call("add", {"a": 19, "b": 23}), "19 and 23 are 42."])
    agent = Agent(model, name="adder", toolbox=box, tool_strategy="native")
    agent.use_tools("add")
    await agent.input("What are 19 and 23?").async_start()


async def make_link() -> str:
    """The key of a link that signs you in, with all roles."""
    try:
        return await box.store.sign_ins.make_link(NAME)
    except NotKept:
        await box.store.tokens.make(NAME, ["call", "approve", "administer"])
        return await box.store.sign_ins.make_link(NAME)


async def make_calls() -> None:
    """Leave something to decide on and something to look at, and keep a call running."""
    mail = {"to": "ann@example.com", "subject": "Hello", "text": "Shall this go out?"}
    if not await box.pending(session=SOMEBODY.session):
        await box.call(Call("send_mail", mail, SOMEBODY))
    await box.call(Call("primes", {"below": 100_000}, SOMEBODY))
    await box.call(Call("add", {"a": "1", "b": "two"}, SOMEBODY))
    await run_agent()
    while True:
        await box.call(Call("count", {"to": 500}, SOMEBODY))


async def main(port: int = PORT) -> None:
    """Serve until Ctrl-C."""
    key, started = await make_link(), asyncio.Event()

    def tell(url: str) -> None:
        page = url.removesuffix("/mcp")
        print(f"Open this link, which signs you in once:\n\n  {page}/sign-in#{key}\n")
        print(f"Another link: wieldy token link {NAME} --url {page}")
        print(f"MCP clients connect to {url} with a token of `wieldy token make NAME`.")
        print("\nPress Ctrl-C to stop.", flush=True)
        started.set()

    async def call_when_started() -> None:
        await started.wait()
        connecting = box.add_mcp([sys.executable, str(SERVER)], name="words", trusted=True)
        await asyncio.gather(connecting, make_calls())

    calling = asyncio.create_task(call_when_started())
    try:
        await run(box, port=port, stored_tokens=True, grace=1, ready=tell)
    finally:
        calling.cancel()
        with suppress(asyncio.CancelledError):
            await calling


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else PORT))
