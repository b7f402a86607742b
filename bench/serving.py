"""What a call through our MCP server costs, beside the SDK's own server."""

import asyncio
import gc
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

from mcp import Client
from mcp.server.mcpserver import MCPServer

import wieldy.mcp
from wieldy import Toolbox

from .child import in_child
from .clock import typical
from .effort import Effort
from .row import Row, ratio
from .sample import ARGUMENTS, find, make_three, named

_COUNT = 20
_ROUNDS = 60
_PROCESSES = 5


def serving(effort: Effort) -> list[Row]:
    """In memory, with one tool and with many."""
    runs = [in_child(calls, effort) for _ in range(effort.rounds(_PROCESSES))]
    many = f"among {effort.count(1000):,} tools"
    against = "the SDK's own server"
    return [
        ratio("MCP call of our server, in memory", *typical(runs, 1), "µs", against, 1.2),
        ratio(f"the same, {many}", *typical(runs, 2), "µs", against, 1.2),
    ]


def calls(effort: Effort) -> list[float]:
    """Microseconds of a call through the SDK's server, through ours, and among many tools."""
    sdk = MCPServer("bench")
    sdk.add_tool(find)
    few, many = Toolbox(), Toolbox()
    for name, function in named(effort.count(1000), make_three):
        many.add(function, name)
    for box in (few, many):
        box.add(find)
    servers = [sdk, wieldy.mcp.server(few), wieldy.mcp.server(many)]
    best = asyncio.run(_best(servers, effort.count(_COUNT), effort.rounds(_ROUNDS)))
    return [seconds * 1e6 for seconds in best]


async def _best(servers: list[Any], count: int, rounds: int) -> list[float]:
    best = [float("inf")] * len(servers)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(each)) for each in servers]
        for client in clients:
            await _list_all(client)
        gc.collect()
        for _ in range(rounds):
            for place, client in enumerate(clients):
                started = perf_counter()
                for _ in range(count):
                    await client.call_tool("find", ARGUMENTS)
                best[place] = min(best[place], (perf_counter() - started) / count)
    return best


async def _list_all(client: Client) -> None:
    """Let a client learn all tools; it would otherwise list them again for each result."""
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        cursor = page.next_cursor
        if cursor is None:
            return
