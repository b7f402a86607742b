"""Programs of the tests that are spoken with, or killed, while they run."""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from tests.forking.launch_files import find_server
from tests.forking.launcher import ask_for_program, read_end

# What the programs load, and ours too: no test looks at how these programs start.
_LOADED = (
    "asyncpg",
    "wieldy.agent",
    "wieldy.cli.app",
    "wieldy.store.artifacts.artifacts",
    "wieldy.tools.code_mode",
)
_SECONDS = 120.0


class ForkedProgram:
    """A script that was started with its arguments, and an end of its streams.

    Args:
        prefix: The command that starts the fork server, such as one that takes rights away.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        stderr: int = 2,
        prefix: Sequence[str] = (),
    ) -> None:
        (read, stdin), (stdout, write) = os.pipe(), os.pipe()
        self.stdin = os.fdopen(stdin, "w")
        self.stdout = os.fdopen(stdout)
        self._code: int | None = None
        self._line = socket.socket(socket.AF_UNIX)
        self._line.settimeout(_SECONDS)
        self._line.connect(find_server(_LOADED, tuple(prefix)))
        place, streams = str(folder or Path.cwd()), [read, write, stderr]
        self._process = ask_for_program(
            self._line, words[0], list(words), place, dict(environment), streams
        )
        os.close(read)
        os.close(write)

    def kill(self) -> None:
        """End it as a crash does, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end, and give its code, which is negative if a signal ended it."""
        if self._code is None:
            with self._line:
                self._code = read_end(self._line)
        return self._code

    def close(self) -> None:
        """End it, and close its streams."""
        if self._code is None:
            self.kill()
            self.wait()
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()


def run_program(
    words: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a script with its arguments to its end."""
    with (
        tempfile.TemporaryFile("a+") as stderr,
        closing(ForkedProgram(words, folder, environment, stderr.fileno(), prefix)) as program,
    ):
        program.stdin.close()
        stdout, code = program.stdout.read(), program.wait()
        stderr.seek(0)
        return subprocess.CompletedProcess(list(words), code, stdout, stderr.read())
