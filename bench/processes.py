"""What a tool costs that runs in a process which can be killed."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from wieldy import Toolbox

from .calls import repeated
from .child import in_child
from .clock import interleaved_async
from .effort import Effort
from .row import Row, amount, ratio
from .sample import ARGUMENTS, find_blocking

_POOL = "a bare ProcessPoolExecutor"


def processes(effort: Effort) -> list[Row]:
    """A warm call, and the memory that an idle worker takes of its own."""
    base, ours = in_child(warm_calls, effort)
    bare, idle = in_child(idle_memory, effort)
    return [
        ratio("sync tool in a process, warm", ours, base, "µs", _POOL, 1.3),
        amount("idle worker, memory of its own", idle, bare, "MB", "a worker of the pool", 16),
    ]


def warm_calls(effort: Effort) -> tuple[float, float]:
    """Microseconds per call by a pool of processes and by a box."""
    count = effort.count(50)
    box = Toolbox(processes=1)
    box.add(find_blocking, isolation="process")
    with ProcessPoolExecutor(1) as pool:

        async def bare() -> None:
            loop = asyncio.get_running_loop()
            for _ in range(count):
                await loop.run_in_executor(pool, partial(find_blocking, **ARGUMENTS))

        ours = repeated(count, box.call, "find_blocking", ARGUMENTS)
        base, spent = interleaved_async(effort.rounds(60), bare, ours)
    asyncio.run(box.close())
    return base / count * 1e6, spent / count * 1e6


def idle_memory(effort: Effort) -> tuple[float, float]:
    """Megabytes that a worker of a pool, and one of a box, shares with no other process."""
    return asyncio.run(_idle_memory())


async def _idle_memory() -> tuple[float, float]:
    loop = asyncio.get_running_loop()
    async with Toolbox(processes=1) as box:
        box.add(find_blocking, isolation="process")
        outcome = await box.call("find_blocking", ARGUMENTS)
        with ProcessPoolExecutor(1) as pool:
            await loop.run_in_executor(pool, partial(find_blocking, **ARGUMENTS))
            (worker,) = pool._processes
            return _own_memory(worker), _own_memory(outcome.metadata["pid"])


def _own_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = [int(line.split()[1]) for line in lines if line.startswith("Private_")]
    return sum(own) * 1024 / 1e6
