"""Each test of a store runs on both kinds of database."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.child import Children
from tests.store.server import Server

Execute = Callable[[str], str]


@pytest.fixture(autouse=True)
def in_time(bounded: None) -> None:
    """A test that waits for what never comes fails instead of standing still."""


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The PostgreSQL server of this test session."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: Server = request.getfixturevalue("server")
    return server.new_database()


@pytest.fixture
def children(url: str, tmp_path: Path) -> Iterator[Children]:
    """Starts other processes on the same store."""
    with Children(url, tmp_path) as children:
        yield children


@pytest.fixture
def execute(url: str, request: pytest.FixtureRequest) -> Execute:
    """Runs a statement past the library, and gives what it finds as text."""

    def run(sql: str) -> str:
        if url.startswith("postgresql"):
            server: Server = request.getfixturevalue("server")
            return server.execute(sql, url.rpartition("/")[2]).strip()
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            rows = connection.execute(sql).fetchall()
        return "\n".join("|".join(map(str, row)) for row in rows)

    return run


@pytest.fixture
def dump(execute: Execute) -> Callable[[], str]:
    """All that a store holds of calls, as text."""
    return lambda: execute("SELECT * FROM wieldy_calls")
