"""What a call of an MCP server's tool costs, beside the SDK's own client."""

import asyncio
import gc
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from wieldy import Toolbox

from .child import in_child
from .clock import AsyncWork, typical
from .effort import Effort
from .mcp_server import make_server
from .row import Row, ratio

_SCRIPT = str(Path(__file__).with_name("mcp_server.py"))
_ARGUMENTS = {"query": "tea", "limit": 3}
_PROCESSES = 5
_AGAINST = "the SDK's client"


def mcp_calls(effort: Effort) -> list[Row]:
    """On a kept stdio session, many at once on it, and on a server in this process."""
    runs = [in_child(on_stdio, effort) for _ in range(effort.rounds(_PROCESSES))]
    waited = [in_child(blocking, effort) for _ in range(effort.rounds(_PROCESSES))]
    many = [in_child(at_once, effort) for _ in range(effort.rounds(_PROCESSES))]
    inside = [in_child(in_memory, effort) for _ in range(effort.rounds(_PROCESSES))]
    return [
        ratio("MCP call, kept stdio session", *typical(runs, 1), "µs", _AGAINST, 1.3),
        ratio("MCP call, blocking caller", *typical(waited, 1), "µs", _AGAINST, 1.3),
        ratio("50 MCP calls at once, stdio", *typical(many, 1), "µs", _AGAINST, 1.3),
        ratio("MCP call, server object", *typical(inside, 1), "µs", _AGAINST, 2.5),
    ]


def on_stdio(effort: Effort) -> list[float]:
    """Microseconds per call by the client and by a box, each with its own process."""
    server = StdioServerParameters(command=sys.executable, args=[_SCRIPT])
    return asyncio.run(_measured(server, effort, 1))


def blocking(effort: Effort) -> list[float]:
    """Microseconds per call by the client on a loop, and by a box that blocks its thread."""
    server = StdioServerParameters(command=sys.executable, args=[_SCRIPT])
    count = effort.count(1000)
    return [asyncio.run(_by_client(server, count)), _by_blocking(server, count)]


async def _by_client(server: Any, count: int) -> float:
    best = float("inf")
    async with Client(server) as client:
        await client.list_tools()
        for _ in range(count):
            started = perf_counter()
            await client.call_tool("find", _ARGUMENTS)
            best = min(best, perf_counter() - started)
    return best * 1e6


def _by_blocking(server: Any, count: int) -> float:
    best = float("inf")
    box = Toolbox()
    asyncio.run(box.add_mcp(server))
    for _ in range(count):
        started = perf_counter()
        outcome = box.call_sync("find", _ARGUMENTS)
        best = min(best, perf_counter() - started)
        assert outcome.ok
    asyncio.run(box.close())
    return best * 1e6


def at_once(effort: Effort) -> list[float]:
    """The same with many calls under way."""
    server = StdioServerParameters(command=sys.executable, args=[_SCRIPT])
    return asyncio.run(_measured(server, effort, 50))


def in_memory(effort: Effort) -> list[float]:
    """The same with a server object in this process."""
    return asyncio.run(_measured(make_server(), effort, 1))


async def _measured(server: Any, effort: Effort, together: int) -> list[float]:
    async with Client(server) as client, Toolbox() as box:
        await client.list_tools()
        await box.add_mcp(server)

        async def theirs() -> None:
            await asyncio.gather(*(client.call_tool("find", _ARGUMENTS) for _ in range(together)))

        async def ours() -> None:
            outcomes = await asyncio.gather(
                *(box.call("find", _ARGUMENTS) for _ in range(together))
            )
            assert all(outcome.ok for outcome in outcomes)

        seconds = await _in_turn(effort.rounds(200), effort.count(5), theirs, ours)
    return [each / together * 1e6 for each in seconds]


async def _in_turn(rounds: int, count: int, *works: AsyncWork) -> list[float]:
    """The best seconds of each, measured in turn on this loop."""
    best = [float("inf")] * len(works)
    gc.collect()
    for _ in range(rounds):
        for place, work in enumerate(works):
            started = perf_counter()
            for _ in range(count):
                await work()
            best[place] = min(best[place], (perf_counter() - started) / count)
    return best
