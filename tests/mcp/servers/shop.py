"""A server with one tool of each kind, made with the SDK; run as a script it speaks on stdio."""

import asyncio
import os
import signal
import sys
import time
import warnings
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("shop", instructions="Ask for prices.")
_starts = os.environ.get("SHOP_STARTS")
if _starts:
    with open(_starts, "a") as _log:
        _log.write(f"{os.getpid()}\n")


def _note(text: str) -> None:
    """Leave a trace that tests can count."""
    with open(os.environ["SHOP_TRACE"], "a") as trace:
        trace.write(text + "\n")


class Price(BaseModel):
    """What something costs."""

    item: str
    cents: int


@server.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def price(item: str) -> Price:
    """What an item costs."""
    return Price(item=item, cents=len(item) * 100)


@server.tool(structured_output=False)
def greet(context: str) -> str:
    """Say hello; the argument has a name that clashes with other people's."""
    return f"hello {context}"


@server.tool(structured_output=False)
def picture() -> list[object]:
    """A picture with a text."""
    return ["here it is", Image(data=b"\x89PNG", format="png")]


@server.tool()
async def narrate(context: Context) -> str:
    """Say what is done while it is done."""
    with warnings.catch_warnings():
        # The only way for a server to say something about a call.
        warnings.simplefilter("ignore")
        await context.log("info", "looking it up", logger_name="shop")
        await context.report_progress(1, 2, "half")
        await context.log("warning", {"left": 3})
    return "done"


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
async def count(to: int, ctx: Context) -> int:
    """Count, and say how far it is."""
    for number in range(to):
        await ctx.report_progress(number + 1, to, f"at {number + 1}")
    return to


@server.tool()
async def wait(seconds: float) -> str:
    """Wait, and leave a trace of how it ended."""
    _note("waiting")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        _note("cancelled")
        raise
    return "waited"


@server.tool()
def block(seconds: float) -> str:
    """Block the whole server."""
    time.sleep(seconds)
    return "blocked"


@server.tool()
def die() -> str:
    """End the server in the middle of the call."""
    _note("dying")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def peek() -> str:
    """Die the first time, and answer the second: a read-only tool."""
    _note("peeked")
    if Path(os.environ["SHOP_TRACE"]).read_text().count("peeked") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "seen"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def wipe() -> str:
    """Say that it destroys."""
    return "wiped"


@server.tool()
def environment() -> dict[str, str]:
    """What the server's process has in its environment."""
    return dict(os.environ)


@server.tool()
def pid() -> int:
    """Who serves."""
    return os.getpid()


@server.tool()
def grumble(text: str) -> str:
    """Write to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    return "grumbled"


def fresh() -> str:
    """Came later."""
    return "fresh"


@server.tool()
async def restock(ctx: Context) -> str:
    """Add a tool and tell of it."""
    server.add_tool(fresh)
    server.remove_tool("wipe")
    await ctx.notify_tools_changed()
    return "restocked"


@server.resource("shop://hours")
def hours() -> str:
    """When the shop is open."""
    return "9 to 5"


@server.resource("shop://item/{name}")
def item(name: str) -> str:
    """One item."""
    return f"this is {name}"


@server.prompt()
def order(item: str) -> str:
    """How to order."""
    return f"I want {item}."


if __name__ == "__main__":
    server.run("stdio")
