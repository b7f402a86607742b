"""Stores whose tables are made once, because that takes longer than most of the tests."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from wieldy import Toolbox


def make_tables(url: str) -> None:
    """Make the tables of a store as a program does that opens it first."""

    async def open_store() -> None:
        async with Toolbox(store=url) as box:
            await box.ledger.list()

    # A test that asks for a store may have a loop of its own.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, open_store()).result()


def make_file(file: Path) -> Path:
    """Make a file of a store that holds nothing."""
    make_tables(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as database, database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            # These two are filled when they are made.
            if name not in ("wieldy_version", "wieldy_chores"):
                database.execute(f"DELETE FROM {name}")
    return file
