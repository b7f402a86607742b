"""What a gateway adds to a call over HTTP, and how it serves a crowd, beside another proxy."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from time import perf_counter

from mcp import Client

from .effort import Effort
from .peers.peer import PEERS, make_environment, prepare_folder
from .row import Row, amount, ratio
from .servers import RunningServer, running_gateway, running_server, serve_find

_ARGUMENTS = {"query": "tea", "limit": 3}
_DIRECT = "the server reached directly"
_PROXY = "FastMCP's proxy"
_CLIENTS = 200
_COUNT = 5
_ROUNDS = 40
_CROWDS = 2


def gateway(effort: Effort) -> list[Row]:
    """One client after the other, then many at once; all in one run, in turns."""
    with _running(_peer_python(effort)) as servers:
        direct, ours, *proxies = asyncio.run(_one_by_one([each.url for each in servers], effort))
        crowd = asyncio.run(_at_once([each.url for each in servers], effort))
        memory = [each.resident_mb for each in servers]
    many = f"{effort.count(_CLIENTS)} clients at once through the gateway"
    rows = [
        ratio("MCP call through the gateway, HTTP", ours, direct, "µs", _DIRECT, 6),
        ratio(f"{many}, each call", crowd[1], crowd[0], "µs", _DIRECT, 6),
        amount(f"{many}, its memory", memory[1], memory[0], "MB", _DIRECT, 200),
    ]
    if proxies:
        added, theirs = ours - direct, proxies[0] - direct
        rows += [
            ratio("MCP call, added by the gateway", added, theirs, "µs", _PROXY, 0.6),
            ratio(f"{many}, each call", crowd[1], crowd[2], "µs", _PROXY, 0.6),
        ]
    return rows


def _peer_python(effort: Effort) -> str | None:
    """The Python that has FastMCP, which is installed for a full run; None without it."""
    (peer,) = (each for each in PEERS if each.name == "fastmcp")
    if effort.share < 1:
        return None
    try:
        return make_environment(prepare_folder() / peer.name, peer.requirement)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"{peer.requirement} is left out: {error}", file=sys.stderr)
        return None


@contextmanager
def _running(peer: str | None) -> Iterator[list[RunningServer]]:
    """The server itself, the gateway in front of it, and the other proxy if there is one."""
    with running_server(serve_find) as upstream, running_gateway(upstream) as ours:
        if peer is None:
            yield [upstream, ours]
            return
        script = ["-m", "bench.peers.fastmcp_proxy"]
        with running_server(lambda port: [peer, *script, str(port), upstream.url]) as theirs:
            yield [upstream, ours, theirs]


async def _one_by_one(urls: Sequence[str], effort: Effort) -> list[float]:
    """The microseconds of a call at each address, in turns."""
    best = [float("inf")] * len(urls)
    count = effort.count(_COUNT)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(url)) for url in urls]
        for client in clients:
            await client.list_tools()
        gc.collect()
        for _ in range(effort.rounds(_ROUNDS)):
            for place, client in enumerate(clients):
                started = perf_counter()
                for _ in range(count):
                    await _call(client)
                best[place] = min(best[place], (perf_counter() - started) / count)
    return [seconds * 1e6 for seconds in best]


async def _at_once(urls: Sequence[str], effort: Effort) -> list[float]:
    """The microseconds of a call at each address while many clients call, in turns."""
    best = [float("inf")] * len(urls)
    count = effort.count(_CLIENTS)
    async with AsyncExitStack() as stack:
        crowds = [
            [await stack.enter_async_context(Client(url)) for _ in range(count)] for url in urls
        ]
        for crowd in crowds:
            await asyncio.gather(*(client.list_tools() for client in crowd))
        gc.collect()
        for _ in range(effort.rounds(_CROWDS)):
            for place, crowd in enumerate(crowds):
                started = perf_counter()
                await asyncio.gather(*map(_call, crowd))
                best[place] = min(best[place], (perf_counter() - started) / count)
    return [seconds * 1e6 for seconds in best]


async def _call(client: Client) -> None:
    result = await client.call_tool("find", _ARGUMENTS)
    if result.is_error:
        raise RuntimeError(f"a call failed: {result}")
