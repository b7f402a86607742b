"""A served console with everything that its pages show: pictures, artifacts, a run, a server."""

import asyncio
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from tests.server.console.served_console import (
    Gateway,
    make_png,
    make_tools,
    run_beside,
    serve_console,
)
from wieldy import Call, Context, Image, Resource, Text, Toolbox
from wieldy.agent import Agent
from wieldy.models.model import Answers
from wieldy.store.rollups import MINUTE, RollupKey, RollupSum
from wieldy.testing import ScriptedModel
from wieldy.tools.artifacts import add_artifact_tools

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe\x07"
EVIL_NAME = "<i>x</i>/../a?b#c%2F&\u202ed"
_SERVER = """
import sys
from mcp.server.mcpserver import MCPServer

print("the shop is open <b>now</b>", file=sys.stderr, flush=True)
server = MCPServer("shop")


@server.tool()
def price(item: str) -> str:
    "Say what <script>alert(3)</script> costs."
    return "3 €"


server.run()
"""


class PageGateway(Gateway):
    """A gateway with a tool that goes on step by step, and the ids of what was made."""

    def __init__(self, gateway: Gateway, steps: "Steps", made: dict[str, str]) -> None:
        super().__init__(gateway.box, gateway.url)
        self.steps = steps
        self.made = made


class Steps:
    """Lets the calls of `count` in a lane take one step at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._free: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = []

    def take(self, steps: int = 1, lane: str = "") -> None:
        """Let them go on."""
        with self._lock:
            for _ in range(steps):
                mine = next((each for each in self._waiting if each[0] == lane), None)
                if mine is None:
                    self._free[lane] += 1
                else:
                    self._waiting.remove(mine)
                    mine[1].call_soon_threadsafe(mine[2].set)

    def end(self) -> None:
        """Let all calls come to their end."""
        with self._lock:
            self._ended = True
            for _, loop, bell in self._waiting:
                loop.call_soon_threadsafe(bell.set)

    async def wait(self, lane: str) -> None:
        """Wait until the next step may be taken."""
        mine = lane, asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            if self._free[lane] or self._ended:
                self._free[lane] -= 1
                return
            self._waiting.append(mine)
        try:
            await mine[2].wait()
        finally:
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)


def _add_tools(box: Toolbox, steps: Steps) -> None:
    @box.tool
    async def count(context: Context, to: int = 4, lane: str = "") -> Any:
        """Count to a number, step by step."""
        for number in range(1, to + 1):
            await steps.wait(lane)
            await context.progress(number, to, f"step {number}")
            yield f"line {number}\n"

    @box.tool
    async def spread(context: Context, times: int) -> int:
        """Make many calls."""
        for number in range(times):
            await context.call("echo", {"value": number})
        return times


def _add_results(box: Toolbox) -> None:
    @box.tool(max_result=200)
    def log(lines: int = 400) -> str:
        """A long log."""
        return "\n".join(f"{number:05} all is well" for number in range(lines))

    @box.tool
    def hostile(size: int = 0) -> list[Any]:
        """Answer what would be dangerous."""
        return [
            Text(EVIL + "x" * size),
            Image(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(4)'/>", "image/png"),
            Image(make_png(4), "image/svg+xml"),
            Image(_huge_png(), "image/png"),
            Image("no base64!", "image/png"),
            Resource("javascript:alert(5)", name=EVIL),
            Resource("https://example.com/", text=EVIL, mime_type="text/html"),
        ]

    failures: list[int] = []

    @box.tool(idempotent=True, retries=3)
    def falter(times: int) -> str:
        """Fail this often before it works."""
        failures.append(times)
        if len(failures) <= times:
            raise ConnectionError("not yet")
        return "done"

    @box.tool
    def large(size: int = 0, rows: int = 0, depth: int = 0) -> Any:
        """Answer a great deal."""
        if size:
            return "x" * size
        value: Any = [{"row": number} for number in range(rows)]
        for _ in range(depth):
            value = {"inner": value}
        return value

    box.add(hostile, EVIL_NAME, description=EVIL * 1000)

    @box.tool(permission="deny")
    def never() -> str:
        """Is never called."""
        return ""


def _huge_png() -> bytes:
    """A picture that says it has ten thousand million pixels."""
    small = make_png(4)
    return small[:16] + (100_000).to_bytes(4, "big") * 2 + small[24:]


def _make_runs(folder: Path) -> dict[str, str]:
    """Run an agent to its end, and another one up to a call that waits."""

    def answer(request: Any) -> Any:
        rounds = sum(isinstance(turn, Answers) for turn in request.turns)
        return [Call("look", {"city": EVIL}), Call("book", {"place": "Café"}), "It is booked."][
            rounds
        ]

    agent = Agent(
        ScriptedModel(answer),
        name="trip",
        tool_strategy="native",
        store=f"sqlite:///{folder}/calls.db",
    )

    async def look(city: str) -> str:
        """Look at a city."""
        return f"sun in {city}"

    async def book(place: str) -> str:
        """Book a table."""
        return f"a table at {place}"

    agent.toolbox.add(look, tags=[agent.tag])
    agent.toolbox.add(book, tags=[agent.tag], permission="auto")
    done = agent.input("Plan my evening.").get_response()
    done.get_text()
    agent.close()
    return {"run": done.run_id or ""}


@contextmanager
def serve_pages(folder: Path) -> Iterator[PageGateway]:
    """A served console with something on each page."""
    made = _make_runs(folder)
    box, steps = make_tools(folder), Steps()
    _add_tools(box, steps)
    _add_results(box)
    add_artifact_tools(box, write=True)
    program = folder / "shop.py"
    program.write_text(_SERVER)
    # The caller's thread may have a loop that runs.
    run_beside(lambda: anyio.run(_fill_box, box, program)).join()
    with serve_console(box) as gateway:
        try:
            yield PageGateway(gateway, steps, made)
        finally:
            # Calls that still run come to their end before the box is closed.
            steps.end()


async def _fill_box(box: Toolbox, program: Path) -> None:
    await box.add_mcp({"shop": {"command": sys.executable, "args": [str(program)]}})
    await box.store.rollups.add(_make_figures())


def _make_figures() -> dict[RollupKey, RollupSum]:
    """Calls of the last five hours, more in some minutes than in others."""
    now = int(time.time() // MINUTE * MINUTE)
    sums: dict[RollupKey, RollupSum] = {}
    for ago in range(10, 300, 2):
        for tool, caller, most in (("search", "cal", 9), ("fetch", "bob", 4), ("wipe", None, 1)):
            calls = round(most * (1.2 + math.sin(ago / 25 + most)))
            for number in range(calls):
                status = "error" if (ago + number) % 17 == 0 else "ok"
                key = RollupKey(now - ago * 60, tool, caller, status)
                seconds = 0.02 * most * (1 + (number * ago) % 13)
                sums.setdefault(key, RollupSum()).add(seconds, 0.0004 * most)
    return sums
