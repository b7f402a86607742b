"""What it costs to record a call, beside bare commits of SQLite."""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from wieldy import Toolbox

from .calls import repeated
from .child import in_child
from .clock import AsyncWork, interleaved_async, typical
from .effort import Effort
from .row import Row, ratio
from .sample import ARGUMENTS, find

_CALLERS = 100
# A slice is some milliseconds: short enough to fall between the other work of a busy machine.
# Those that are compared take about the same time: the best of shorter ones is better.
_COUNT = 20
_COMMITS = 3
# After a crowd it takes one caller some calls to be alone again: here a slice is longer.
_LONG = 100
_EACH = 10
_ROUNDS = 60
_COMMIT = "a bare SQLite commit"


def ledger(effort: Effort) -> list[Row]:
    """One caller, and many who share their commits; both fully durable."""
    runs = effort.rounds(5)
    one, commit = typical([in_child(alone, effort) for _ in range(runs)], 1)
    many, before = typical([in_child(crowded, effort) for _ in range(runs)], 1)
    return [
        # A call is two commits. 0.35 of the bare rate, and eight times one caller's, as times.
        ratio("recorded call", one, commit, "µs", _COMMIT, round(1 / 0.35, 2)),
        ratio(
            f"recorded call, {_CALLERS} callers at once", many, before, "µs", "one caller", 1 / 8
        ),
    ]


def alone(effort: Effort) -> list[float]:
    """Microseconds of a bare commit, and of one caller's call."""
    count = effort.count(_COUNT)
    with _box() as (box, file):
        works = _commits(file, _COMMITS * count), repeated(count, box.call, "find", ARGUMENTS)
        return _microseconds(effort.rounds(2 * _ROUNDS), (_COMMITS * count, count), *works)


def crowded(effort: Effort) -> list[float]:
    """Microseconds of one caller's call, and of one of many callers' calls."""
    count, each = effort.count(_LONG), effort.count(_EACH)
    with _box() as (box, _):

        async def many() -> None:
            caller = repeated(each, box.call, "find", ARGUMENTS)
            await asyncio.gather(*(caller() for _ in range(_CALLERS)))

        works = repeated(count, box.call, "find", ARGUMENTS), many
        return _microseconds(effort.rounds(_ROUNDS // 2), (count, each * _CALLERS), *works)


@contextmanager
def _box() -> Iterator[tuple[Toolbox, sqlite3.Connection]]:
    """A box with a store, and beside it a bare file."""
    with (
        tempfile.TemporaryDirectory() as name,
        closing(_bare_file(Path(name) / "bare.db")) as file,
    ):
        box = Toolbox(store=f"sqlite:///{name}/ours.db")
        box.add(find)
        yield box, file
        asyncio.run(box.close())


def _microseconds(rounds: int, counts: tuple[int, ...], *works: AsyncWork) -> list[float]:
    best = interleaved_async(rounds, *works)
    return [seconds / calls * 1e6 for seconds, calls in zip(best, counts, strict=True)]


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
