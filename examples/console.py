"""Serve the example tools with the console: what `make run` starts.

A link is printed that signs you in. One call runs when you come in, and another waits for you.
"""

import asyncio
import sys
from contextlib import suppress

# The file beside this one.
import tools  # type: ignore[import-not-found]

from wieldy import NotKept, Scope, Toolbox
from wieldy.core.call import Call
from wieldy.server import run

box: Toolbox = tools.box
NAME = "you"
SOMEBODY = Scope(session="example", caller="example")
PORT = 8000


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
        await make_calls()

    calling = asyncio.create_task(call_when_started())
    try:
        await run(box, port=port, stored_tokens=True, grace=1, ready=tell)
    finally:
        calling.cancel()
        with suppress(asyncio.CancelledError):
            await calling


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else PORT))
