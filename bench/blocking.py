"""What a sync tool costs that runs off the loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from wieldy import Toolbox

from .calls import repeated
from .child import in_child
from .clock import interleaved_async
from .effort import Effort
from .row import Row, excess, ratio
from .sample import ARGUMENTS, find_blocking

_THREADS = 40
_POOL = f"a bare pool of {_THREADS} threads"


def blocking(effort: Effort) -> list[Row]:
    """One after the other on one core, and many at once on all."""
    runs = [in_child(at_once, effort) for _ in range(effort.rounds(4))]
    pool, pool_held, box, box_held = (min(column) for column in zip(*runs, strict=True))
    base, ours = in_child(one_by_one, effort, one_core=True)
    many = f"{effort.count(200)} blocking sleeps of 10 ms"
    return [
        ratio("sync tool off the loop", ours, base, "µs", "asyncio.to_thread, one core", 1.25),
        ratio(f"{many} at once", box, pool, "ms", _POOL, 1.35),
        excess(f"{many}, loop held", box_held, pool_held, "ms", _POOL, 5),
    ]


def one_by_one(effort: Effort) -> tuple[float, float]:
    """Microseconds per call by `asyncio.to_thread` and by a box."""
    count = effort.count(100)
    box = Toolbox()
    box.add(find_blocking)

    async def bare() -> None:
        for _ in range(count):
            await asyncio.to_thread(find_blocking, **ARGUMENTS)

    ours = repeated(count, box.call, "find_blocking", ARGUMENTS)
    base, spent = interleaved_async(effort.rounds(100), bare, ours)
    return base / count * 1e6, spent / count * 1e6


def at_once(effort: Effort) -> tuple[float, float, float, float]:
    """Milliseconds of a pool and of a box, each with how long it held the loop."""
    return asyncio.run(_at_once(effort.count(200), effort.rounds(12)))


async def _at_once(count: int, rounds: int) -> tuple[float, float, float, float]:
    bare, ours = [], []
    for _ in range(rounds):
        bare.append(await _timed(lambda: _by_pool(count)))
        ours.append(await _timed(lambda: _by_box(count)))
    return (*_best(bare), *_best(ours))


async def _by_pool(count: int) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(_THREADS) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, nap) for _ in range(count)))


async def _by_box(count: int) -> None:
    async with Toolbox(threads=_THREADS) as box:
        box.add(nap)
        outcomes = await box.call_many([("nap", {})] * count)
    assert all(outcome.ok for outcome in outcomes)


def nap() -> None:
    """Block for ten milliseconds."""
    time.sleep(0.01)


async def _timed(start: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Milliseconds that it takes, and the longest that the loop did not answer meanwhile."""
    held: list[float] = []
    watch = asyncio.create_task(_watch(held))
    await asyncio.sleep(0)
    started = time.perf_counter()
    await start()
    spent = time.perf_counter() - started
    # One more turn, so that a block at the very end is seen too.
    await asyncio.sleep(0.002)
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch
    return spent * 1e3, max(held) * 1e3


async def _watch(held: list[float]) -> None:
    pause = 0.001
    while True:
        asked = time.perf_counter()
        await asyncio.sleep(pause)
        held.append(time.perf_counter() - asked - pause)


def _best(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    return min(spent for spent, _ in pairs), min(held for _, held in pairs)
