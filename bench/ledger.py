"""What it costs to record a call, beside bare commits of SQLite."""

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from wieldy import Toolbox

from .calls import repeated
from .child import in_child
from .clock import AsyncWork, interleaved_async, typical
from .effort import Effort
from .row import Row, ratio
from .sample import ARGUMENTS, find

_CALLERS = 100
# A slice is a few milliseconds: short enough to fall between the other work of a busy machine.
_COUNT = 10
_EACH = 3
_ROUNDS = 60
_COMMIT = "a bare SQLite commit"


def ledger(effort: Effort) -> list[Row]:
    """One caller, and many who share their commits; both fully durable."""
    runs = [in_child(recorded, effort) for _ in range(effort.rounds(5))]
    one, commit = typical(runs, 1)
    crowds = [[alone, crowd] for _, alone, crowd in runs]
    many, alone = typical(crowds, 1)
    return [
        # A call is two commits. 0.35 of the bare rate, and eight times one caller's, as times.
        ratio("recorded call", one, commit, "µs", _COMMIT, round(1 / 0.35, 2)),
        ratio(f"recorded call, {_CALLERS} callers at once", many, alone, "µs", "one caller", 1 / 8),
    ]


def recorded(effort: Effort) -> list[float]:
    """Microseconds of a bare commit, of one caller's call, and of one of many callers' calls."""
    count, each = effort.count(_COUNT), effort.count(_EACH)
    with (
        tempfile.TemporaryDirectory() as name,
        closing(_bare_file(Path(name) / "bare.db")) as file,
    ):
        box = Toolbox(store=f"sqlite:///{name}/ours.db")
        box.add(find)
        one = repeated(count, box.call, "find", ARGUMENTS)

        async def many() -> None:
            caller = repeated(each, box.call, "find", ARGUMENTS)
            await asyncio.gather(*(caller() for _ in range(_CALLERS)))

        best = interleaved_async(effort.rounds(_ROUNDS), _commits(file, count), one, many)
        asyncio.run(box.close())
    spent = zip(best, (count, count, each * _CALLERS), strict=True)
    return [seconds / calls * 1e6 for seconds, calls in spent]


def _bare_file(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute("PRAGMA synchronous=FULL")
    file.execute("CREATE TABLE calls (id TEXT PRIMARY KEY, a TEXT, b TEXT)")
    return file


def _commits(file: sqlite3.Connection, count: int) -> AsyncWork:
    """Work that commits a row so many times."""

    async def work() -> None:
        for _ in range(count):
            row = (str(time.perf_counter_ns()), "x" * 100, "y" * 100)
            file.execute("BEGIN IMMEDIATE")
            file.execute("INSERT INTO calls VALUES (?, ?, ?)", row)
            file.execute("COMMIT")

    return work
