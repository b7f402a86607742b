"""Each test of a store runs on both kinds of database."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.child import Children
from tests.store.server import Server


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
def dump(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """All that a store holds, as text."""

    def read(url: str) -> str:
        if url.startswith("postgresql"):
            server: Server = request.getfixturevalue("server")
            return server.execute("SELECT * FROM wieldy_calls", url.rpartition("/")[2])
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return repr(connection.execute("SELECT * FROM wieldy_calls").fetchall())

    return read
