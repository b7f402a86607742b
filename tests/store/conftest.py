"""Each test of a store runs on both kinds of database."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.child import Children
from tests.store.made_store import make_file
from tests.store.server import Server

Execute = Callable[[str], str]
_SERVER = pytest.StashKey[Server]()
_MADE_FILE = pytest.StashKey[Path]()


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Server:
    """The PostgreSQL server of this test session, also for the folders that import this fixture."""
    if _SERVER not in pytestconfig.stash:
        started = pytestconfig.stash[_SERVER] = Server()
        pytestconfig.add_cleanup(started.remove)
    return pytestconfig.stash[_SERVER]


def _made_file(request: pytest.FixtureRequest) -> Path:
    """The file that the stores of this test session are copies of."""
    stash = request.config.stash
    if _MADE_FILE not in stash:
        folders: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        stash[_MADE_FILE] = make_file(folders.mktemp("made") / "store.db")
    return stash[_MADE_FILE]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that holds nothing. Its tables are there already."""
    if request.param == "sqlite":
        return f"sqlite:///{shutil.copy(_made_file(request), tmp_path / 'store.db')}"
    server: Server = request.getfixturevalue("server")
    return server.new_store()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: Server = request.getfixturevalue("server")
    return server.new_database()


@pytest.fixture
def children(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Children]:
    """Starts other processes on the same store."""
    url: str = request.getfixturevalue("new_url" if "new_url" in request.fixturenames else "url")
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
