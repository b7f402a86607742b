"""The yardstick for one library. Runs in that library's environment, without wieldy."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from bench.clock import AsyncWork, interleaved
from bench.reference import pydantic_schema, raw
from bench.sample import ARGUMENTS, find, find_blocking, make_eight

Call = Callable[[dict[str, Any]], Awaitable[Any]]
# Makes a tool of a function and gives how it is called with a dict.
Bind = Callable[[Callable[..., Any]], Awaitable[Call]]
Ask = Callable[[], Awaitable[Any]]
Describe = Callable[[Callable[..., Any]], Any]

_ROUNDS = 9
_SLICES = 150


def report(describe: Describe, bind: Bind, ask: Ask | None = None) -> None:
    """Measure and print what each thing costs, as a multiple of its reference.

    `ask` is one request to the library's agent, with a model that takes no time and makes
    one call; what it costs is printed in microseconds.
    """
    figures = {"schema": _schema(describe), **asyncio.run(_figures(bind))}
    if ask is not None:
        figures["round"] = agent_round(ask)
    print(json.dumps(figures))


def agent_round(ask: Ask) -> float:
    """The microseconds of one request to an agent."""

    async def measure() -> float:
        await ask()
        spent = await _in_turn(_SLICES, ask)
        return spent[0] * 1e6

    return asyncio.run(measure())


def _schema(describe: Describe) -> float:
    count = 20

    def by_pydantic() -> None:
        for number in range(count):
            pydantic_schema(make_eight(), f"Tool{number}")

    def ours() -> None:
        for _ in range(count):
            describe(make_eight())

    ours()
    base, spent = interleaved(_ROUNDS, by_pydantic, ours)
    return spent / base


async def _figures(bind: Bind) -> dict[str, float]:
    return {
        "call": await _async_call(await bind(find)),
        "sync": await _sync_call(await bind(find_blocking)),
        "concurrent": await _concurrent(await bind(rest)),
        "blocking": await _blocking(await bind(nap)),
    }


async def _async_call(call: Call) -> float:
    count, raw_count = await _fitting(call), 5000
    base, spent = await _in_turn(_SLICES, raw(raw_count), _repeated(count, call))
    return (spent / count) / (base / raw_count)


async def _sync_call(call: Call) -> float:
    with _one_core():
        count, bare_count = await _fitting(call), await _fitting(_to_thread)
        works = _repeated(bare_count, _to_thread), _repeated(count, call)
        base, spent = await _in_turn(_SLICES, *works)
    return (spent / count) / (base / bare_count)


async def _to_thread(arguments: dict[str, Any]) -> str:
    return await asyncio.to_thread(find_blocking, **arguments)


async def _fitting(call: Call) -> int:
    """How many calls take about a millisecond, which falls between other work of the machine."""
    await call(ARGUMENTS)
    spent = []
    for _ in range(20):
        started = time.perf_counter()
        await call(ARGUMENTS)
        spent.append(time.perf_counter() - started)
    return max(1, round(0.001 / min(spent)))


async def _concurrent(call: Call) -> float:
    async def bare() -> None:
        await asyncio.gather(*(rest() for _ in range(1000)))

    async def ours() -> None:
        await asyncio.gather(*(call({}) for _ in range(1000)))

    base, spent = await _in_turn(_ROUNDS, bare, ours)
    return spent / base


async def _blocking(call: Call) -> float:
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(40)

    async def bare() -> None:
        await asyncio.gather(*(loop.run_in_executor(pool, nap) for _ in range(200)))

    async def ours() -> None:
        await asyncio.gather(*(call({}) for _ in range(200)))

    base, spent = await _in_turn(_ROUNDS, bare, ours)
    pool.shutdown()
    return spent / base


async def rest() -> str:
    """Wait for ten milliseconds."""
    await asyncio.sleep(0.01)
    return "rested"


def nap() -> str:
    """Block for ten milliseconds."""
    time.sleep(0.01)
    return "rested"


def _repeated(count: int, call: Call) -> AsyncWork:
    async def work() -> None:
        for _ in range(count):
            await call(ARGUMENTS)

    return work


async def _in_turn(rounds: int, *works: AsyncWork) -> list[float]:
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for place, work in enumerate(works):
            started = time.perf_counter()
            await work()
            best[place] = min(best[place], time.perf_counter() - started)
    return best


@contextmanager
def _one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
