"""The command as people and scripts meet it: in a pipe, and on a terminal."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from tests.child_process import ChildProcess
from tests.forking.launch_files import INSTALLED, WIELDY, run_forked
from wieldy import Toolbox
from wieldy.core.choices import Role

SECONDS = 120
_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def _environment(**more: str) -> dict[str, str]:
    forced = {"FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"}
    kept = {name: value for name, value in os.environ.items() if name not in forced}
    return {**kept, "TERM": "xterm-256color", **more}


def wieldy(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a pipe."""
    if not environment:
        return run_forked(list(arguments), cwd, _environment(), SECONDS)
    # Some of them are read when Python starts or a module is loaded.
    return subprocess.run(
        [INSTALLED, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=_environment(**environment),
        timeout=SECONDS,
    )


def make_token(
    folder: Path, name: str = "ann", roles: Sequence[Role] = ("approve",), file: str = "wieldy.db"
) -> str:
    """The token of somebody, in the store of a folder."""

    async def make() -> str:
        async with Toolbox(store=f"sqlite:///{folder}/{file}") as box:
            return await box.store.tokens.make(name, roles)

    return asyncio.run(make())


class Terminal:
    """A command on a terminal, and the person in front of it."""

    def __init__(self, *arguments: str, columns: int = 80, cwd: Path | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = ChildProcess(
            [WIELDY, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=_environment(),
            start_new_session=True,
            cwd=cwd,
        )
        os.close(theirs)
        self._unread = ""
        self.raw = ""

    def wait_for(self, text: str, seconds: float = SECONDS) -> str:
        """Read until the text is there, and give what came before it."""
        end = time.monotonic() + seconds
        while text not in self._unread:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{text!r} never came; last seen: {self._unread[-500:]!r}")
            try:
                more = os.read(self._ours, 65536).decode("utf-8", "replace")
            except OSError:
                more = ""
            assert more, f"it ended before {text!r}: {self._unread[-500:]!r}"
            self.raw += more
            self._unread = _CODES.sub("", self._unread + more)
        before, _, self._unread = self._unread.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> str:
        """Press Ctrl-C; again, as a person would, if it came between a prompt and its reading."""
        for _ in range(5):
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(TimeoutError):
                return self.wait_for("Stopped.", seconds=5)
        raise TimeoutError("it can't be interrupted")

    def go_on(self, times: int) -> None:
        for _ in range(times):
            self.wait_for("Enter to go on")
            self.type("\n")

    def ends_with(self) -> int:
        return self.process.wait(SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)
        os.close(self._ours)
