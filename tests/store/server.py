"""A PostgreSQL server for the tests, started from the system's package on a free port."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from itertools import chain
from pathlib import Path

from tests.store.made_store import make_tables
from tests.store.psql import Psql

INSTRUCTION = (
    "The store's tests need a PostgreSQL server and can't start one. "
    "Run scripts/install-postgres as root, or: "
    "sudo apt-get update && sudo apt-get install -y postgresql"
)
_TRIES = 3
_SETTINGS = {"listen_addresses": "127.0.0.1", "fsync": "off", "max_connections": "200"}
_NEW_SCHEMA = "DROP SCHEMA public CASCADE; CREATE SCHEMA public;"
# What distinguishes the tables of a store from those that a test has changed.
_SHAPE = """
SELECT md5(string_agg(line, E'\\n' ORDER BY line)) FROM (
    SELECT concat_ws(' ', attrelid::regclass, attname, atttypid, atttypmod, attcollation,
            attnotnull, atthasdef, relkind, reloptions) AS line
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND NOT attisdropped
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT version::text FROM wieldy_version AS version
) AS lines;
"""
_USED = """
SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    AND relname <> 'wieldy_version' AND pg_relation_size(oid) > 0;
"""


class Server:
    """One server in a folder of its own. It refuses to run as root, so it runs as `postgres`."""

    def __init__(self) -> None:
        self.user = "postgres" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="wieldy-pg-"))
        self.port = 0
        self._shape = ""
        self._idle: dict[str, list[Psql]] = {}
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        # The locale of whoever runs the tests may know no encoding.
        form = ("-E", "UTF8", "--locale=C")
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", "wieldy", "--no-sync", *form)
        self._start_somewhere()
        self.execute("CREATE DATABASE test", "postgres")

    def start(self, **changed: str) -> None:
        """Start, and wait until it answers; some settings may be others than usual."""
        settings = f"-p {self.port} -k {self.folder}"
        for name, value in {**_SETTINGS, **changed}.items():
            settings += f" -c {name}={value}"
        self._run("pg_ctl", "-D", self._data, "-w", "-l", self._log, "-o", settings, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop, and wait until it is gone."""
        for session in chain.from_iterable(self._idle.values()):
            session.close()
        self._idle.clear()
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def new_database(self) -> str:
        """The address of an empty database: the one of before, emptied, which is far cheaper."""
        self.disconnect()
        self.execute(_NEW_SCHEMA, "test")
        return self.url

    def new_store(self) -> str:
        """The address of a store that holds nothing.

        Making its tables takes far longer than most tests, so they are made once and emptied.
        """
        self.disconnect()
        if not self._shape:
            self._make_store()
            self._shape = self._read_shape()
        elif self._read_shape() != self._shape:
            self._make_store()
        else:
            self._empty_store()
        return self.url

    def disconnect(self) -> None:
        """Cut every connection but ours, as a failing network does."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = 'test' AND application_name <> 'psql';",
            "postgres",
        )

    def execute(self, sql: str, database: str) -> str:
        """Run statements with psql and give what it prints."""
        idle = self._idle.setdefault(database, [])
        session = idle.pop() if idle else self.connect(database)
        said = session.execute(sql)
        idle.append(session)
        return said

    def connect(self, database: str) -> Psql:
        """A session with psql, for the caller alone."""
        address = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "wieldy", "-d", database)
        return Psql(_find("psql"), address, self.user, self.folder)

    def remove(self) -> None:
        """Stop for good."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_store(self) -> None:
        self.execute(_NEW_SCHEMA, "test")
        make_tables(self.url)
        self._empty_store()

    def _empty_store(self) -> None:
        used = self.execute(_USED, "test").strip()
        chore = f"INSERT INTO wieldy_chores VALUES ('prune', {time.time()})"
        self.execute(f"TRUNCATE {used}; {chore};", "test")

    def _read_shape(self) -> str:
        there = self.execute("SELECT to_regclass('wieldy_version');", "test").strip()
        return self.execute(_SHAPE, "test") if there else "no store"

    @property
    def url(self) -> str:
        """The address of the database of the tests."""
        return f"postgresql://wieldy@127.0.0.1:{self.port}/test"

    @property
    def log(self) -> str:
        """What the server has written about itself."""
        return Path(self._log).read_text()

    @property
    def data(self) -> Path:
        """The folder of its databases and of its settings."""
        return self.folder / "data"

    @property
    def _data(self) -> str:
        return str(self.data)

    @property
    def _log(self) -> str:
        return str(self.folder / "log")

    def _start_somewhere(self) -> None:
        for attempt in range(_TRIES):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            try:
                return self.start()
            except RuntimeError:
                # Somebody may have taken the port in between.
                if attempt + 1 == _TRIES:
                    raise
        return None

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [_find(program), *arguments],
            user=self.user,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            # A server started by pg_ctl would hold a pipe open for as long as it runs.
            stdout=(out := tempfile.TemporaryFile()),  # noqa: SIM115 - closed below
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        with out:
            out.seek(0)
            said = out.read().decode()
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{said}\n{INSTRUCTION}")
        return said


def _find(program: str) -> str:
    found = shutil.which(program)
    if found is not None:
        return found
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    if not packaged:
        raise RuntimeError(INSTRUCTION)
    return str(packaged[-1])
