"""A psql that stays: starting one costs more than most of the statements that tests run."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

_END = "-- that was all --"


class Psql:
    """Runs statements in one session, each in a transaction of its own."""

    def __init__(
        self, program: str, address: Iterable[str], user: str | None, folder: Path
    ) -> None:
        self._process = subprocess.Popen(
            [program, *address, "-qtAX", "-v", "ON_ERROR_STOP=1"],
            user=user,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"},
        )

    def execute(self, sql: str) -> str:
        """Run statements and give what is printed; psql ends at the first that fails."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{sql}\n;\n\\echo {_END}\n")
        self._process.stdin.flush()
        said: list[str] = []
        for line in self._process.stdout:
            if line == f"{_END}\n":
                return "".join(said)
            said.append(line)
        self.close()
        raise RuntimeError(f"psql failed:\n{''.join(said)}")

    def close(self) -> None:
        """End the session."""
        self._process.kill()
        self._process.communicate()
