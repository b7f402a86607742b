"""Run a server's process under the guard, with pipes to it."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from wieldy.core.errors import InvalidSource
from wieldy.core.forking import renewed_in_child
from wieldy.core.task import time_limit

_GUARD = str(Path(__file__).with_name("process_guard.py"))
# The guard waits two seconds after SIGTERM and two seconds after SIGKILL.
_GUARD_SECONDS = 6.0


class Process:
    """A running server. `stdin` and `stdout` are this side's non-blocking ends of its pipes.

    `ended` is set when the server is gone; `exit_code` is then its exit code, if known.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | None, stderr: int
    ) -> None:
        program = _find_program(command[0], env, cwd)
        self.ended = asyncio.Event()
        self.exit_code: int | None = None
        self._group: int | None = None
        theirs_in, self.stdin = os.pipe()
        self.stdout, theirs_out = os.pipe()
        self._lifeline, theirs = socket.socketpair()
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", _GUARD, str(theirs.fileno()), program, *command[1:]],
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=stderr,
                pass_fds=[theirs.fileno()],
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        except BaseException:
            self._close_our_ends()
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
            theirs.close()
        _running.add(self)
        for ours in (self.stdin, self.stdout):
            os.set_blocking(ours, False)
        self._lifeline.setblocking(False)
        self._watch = asyncio.get_running_loop().create_task(self._hear_guard())

    def close_stdin(self) -> None:
        """Close the server's stdin, which asks it to exit."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    async def stop(self, grace: float) -> None:
        """End the server. After `grace` seconds the guard ends its whole process group."""
        self.close_stdin()
        with suppress(TimeoutError):
            async with time_limit(grace):
                await self.ended.wait()
        with suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):
            async with time_limit(_GUARD_SECONDS):
                await self.ended.wait()
        if not self.ended.is_set():
            self._guard.kill()
        self._watch.cancel()
        with suppress(asyncio.CancelledError):
            await self._watch
        self._reap_guard()
        self._close_our_ends()
        _running.discard(self)

    async def _hear_guard(self) -> None:
        """Read the guard's messages until it exits."""
        loop = asyncio.get_running_loop()
        heard = b""
        with suppress(ConnectionError):
            while said := await loop.sock_recv(self._lifeline, 512):
                heard += said
                for line in heard.split(b"\n")[:-1]:
                    word, _, number = line.partition(b" ")
                    if word == b"pid":
                        self._group = int(number)
                    else:
                        self.exit_code = int(number)
        self.ended.set()

    def _reap_guard(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(1)
        if self.exit_code is None and self._group is not None:
            # The guard was killed, so this process has to end the server's group itself.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)

    def _close_our_ends(self) -> None:
        self.close_stdin()
        if self.stdout >= 0:
            os.close(self.stdout)
            self.stdout = -1
        self._lifeline.close()

    def forget(self) -> None:
        """Close this side's ends in a forked child, because the server belongs to the parent."""
        self._close_our_ends()
        _running.discard(self)


# A forked child has copies of the pipes, and would keep the parent's servers alive with them.
_running = renewed_in_child(Process.forget)


def _find_program(program: str, env: Mapping[str, str], cwd: str | None) -> str:
    """The program's path, found with the `PATH` of the server's own environment."""
    if cwd is not None and not os.path.isdir(cwd):
        raise InvalidSource(program, f"there is no folder {cwd!r} to start it in")
    if os.path.dirname(program):
        found = os.path.join(cwd or "", program)
        if os.path.isfile(found):
            return program
    elif found := shutil.which(program, path=env.get("PATH")) or "":
        return found
    raise InvalidSource(program, "there is no such program; install it, or give its full path")
