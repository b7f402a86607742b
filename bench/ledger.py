"""Measure the ledger: calls per second beside bare SQLite commits in the same run."""

import asyncio
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from wieldy import Toolbox

ROUNDS = 3
SECONDS = 1.0


def bare(folder: Path, rows: int) -> float:
    """Rows per second of bare sqlite3, WAL and FULL, so many rows a commit."""
    connection = sqlite3.connect(folder / f"bare{rows}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS calls (id TEXT PRIMARY KEY, a TEXT, b TEXT)")
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(rows):
            stamp = f"{time.perf_counter_ns()}-{done}"
            connection.execute("INSERT INTO calls VALUES (?, ?, ?)", (stamp, "x" * 100, "y" * 100))
            done += 1
        connection.execute("COMMIT")
    rate = done / (time.perf_counter() - start)
    connection.close()
    return rate


async def ours(folder: Path, callers: int) -> float:
    """Recorded calls per second of so many concurrent callers."""
    async with Toolbox(store=f"sqlite:///{folder}/ours{callers}.db") as box:

        @box.tool
        async def search(query: str, limit: int, tags: list[str]) -> str:
            """Search."""
            return query

        arguments = {"query": "tea", "limit": 3, "tags": ["a", "b"]}
        await box.call("search", arguments)
        end = time.perf_counter() + SECONDS

        async def call() -> int:
            done = 0
            while time.perf_counter() < end:
                (await box.call("search", arguments)).unwrap()
                done += 1
            return done

        start = time.perf_counter()
        done = sum(await asyncio.gather(*(call() for _ in range(callers))))
        return done / (time.perf_counter() - start)


def main() -> None:
    """Print the rates and their ratios, a few times."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=where) as name:
            folder = Path(name)
            commit, hundred = bare(folder, 1), bare(folder, 100)
            one, many = asyncio.run(ours(folder, 1)), asyncio.run(ours(folder, 100))
        print(
            f"bare commits/s {commit:,.0f}; bare rows/s, 100 a commit {hundred:,.0f}; "
            f"calls/s of one caller {one:,.0f} = {one / commit:.2f} of bare (target 0.35); "
            f"of 100 callers {many:,.0f} = {many / one:.1f} x one (target 8), "
            f"{many / hundred:.2f} of bare hundreds (or 0.2)"
        )


if __name__ == "__main__":
    main()
