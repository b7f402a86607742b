"""Programs in forks of a process that has loaded their modules.

Loading modules takes most of the time of a short program, and the tests start hundreds. Each
still has a process, a folder, an environment and streams of its own, and may be killed.
"""

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_LARGEST = 1_000_000
_LOADED = (
    "asyncpg",
    "wieldy.agent",
    "wieldy.cli.app",
    "wieldy.store.artifacts.artifacts",
    "wieldy.tools.code_mode",
)
_SECONDS = 120.0


class ForkedProgram:
    """A program that was started, with an end of its streams."""

    def __init__(self, line: socket.socket, stdin: int, stdout: int) -> None:
        self._line = line
        self._line.settimeout(_SECONDS)
        self._code: int | None = None
        self.pid = _receive_number(line)
        self.stdin = os.fdopen(stdin, "w")
        self.stdout = os.fdopen(stdout)

    def kill(self) -> None:
        """End it as a crash does, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end, and give its code."""
        if self._code is None:
            self._code = _receive_number(self._line)
            self._line.close()
        return self._code

    def close(self) -> None:
        """End it, and close its streams."""
        if self._code is None:
            self.kill()
            self.wait()
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()


class ForkServer:
    """Starts programs in forks of a process of its own.

    Args:
        prefix: The command that starts this process, such as one that takes rights away.
    """

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-B", "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=_ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with its arguments to its end."""
        with tempfile.TemporaryFile("a+") as stderr:
            program = self.start(words, environment, folder, stderr.fileno())
            with closing(program):
                program.stdin.close()
                stdout = program.stdout.read()
                code = program.wait()
            stderr.seek(0)
            return subprocess.CompletedProcess(list(words), code, stdout, stderr.read())

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
        stderr: int = 2,
    ) -> ForkedProgram:
        """Start a script with its arguments."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (read, stdin), (stdout, write) = os.pipe(), os.pipe()
        asked = {
            "words": list(words),
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
        }
        given = [theirs.fileno(), read, write, stderr]
        socket.send_fds(self._line, [json.dumps(asked).encode()], given)
        theirs.close()
        os.close(read)
        os.close(write)
        return ForkedProgram(ours, stdin, stdout)

    def close(self) -> None:
        """End the process; programs that run go on."""
        self._line.close()
        self._process.wait(_SECONDS)


@cache
def fork_server() -> ForkServer:
    """The server of this process; it ends with it."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def _receive_number(line: socket.socket) -> int:
    said = line.recv(100)
    assert said, "the server of forks has ended"
    return int(said)


def _serve(line: socket.socket) -> dict[str, Any] | None:
    """Fork for everyone who asks; gives what was asked for in the fork, and nothing at the end."""
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not line:
                    selector.unregister(key.fileobj)
                    _tell_end(key.fd, *key.data)
                    continue
                said, given, _, _ = socket.recv_fds(line, _LARGEST, 4)
                if not said:
                    return None
                teller, *streams = given
                child = os.fork()
                if child == 0:
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                    asked: dict[str, Any] = json.loads(said)
                    return asked
                for stream in streams:
                    os.close(stream)
                os.write(teller, str(child).encode())
                selector.register(os.pidfd_open(child), selectors.EVENT_READ, (child, teller))


def _tell_end(watched: int, child: int, teller: int) -> None:
    _, status = os.waitpid(child, 0)
    # Whoever asked may be gone.
    with suppress(BrokenPipeError):
        os.write(teller, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(teller)
    os.close(watched)


def _become(words: list[str], environment: dict[str, str], folder: str) -> None:
    """Be the script, as if it had been started with Python."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    sys.path[0] = str(Path(words[0]).parent)
    runpy.run_path(words[0], run_name="__main__")


def _main(number: int) -> None:
    for name in _LOADED:
        import_module(name)
    # What is there already is never looked at again, so that forks share its memory.
    gc.freeze()
    # The fork leaves the loop too, and ends as a program does.
    asked = _serve(socket.socket(fileno=number))
    if asked is not None:
        _become(**asked)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
