"""A PostgreSQL server for the tests, started from the system's package on a free port."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

INSTRUCTION = (
    "The store's tests need a PostgreSQL server and can't start one. "
    "Run scripts/install-postgres as root, or: "
    "sudo apt-get update && sudo apt-get install -y postgresql"
)
_TRIES = 3


class Server:
    """One server in a folder of its own. It refuses to run as root, so it runs as `postgres`."""

    def __init__(self) -> None:
        self.user = "postgres" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="wieldy-pg-"))
        self.port = 0
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", "wieldy", "--no-sync")
        self._start_somewhere()
        self.execute("CREATE DATABASE test", "postgres")

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = (
            f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off "
            "-c max_connections=200"
        )
        self._run("pg_ctl", "-D", self._data, "-w", "-l", self._log, "-o", settings, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop, and wait until it is gone."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def new_database(self) -> str:
        """The address of an empty database: the one of before, emptied, which is far cheaper."""
        self.disconnect()
        self.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public", "test")
        return f"postgresql://wieldy@127.0.0.1:{self.port}/test"

    def disconnect(self) -> None:
        """Cut every connection, as a failing network does."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test'",
            "postgres",
        )

    def execute(self, sql: str, database: str) -> str:
        """Run a statement with psql and give what it prints."""
        address = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "wieldy", "-d", database)
        return self._run("psql", *address, "-qtAX", "-v", "ON_ERROR_STOP=1", "-c", sql)

    def remove(self) -> None:
        """Stop for good."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

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
