"""Runs the command in forks of a process that has loaded it.

Most of the time of a short command goes into loading modules, and the tests run hundreds of
commands. Each still has a process, a folder and an environment of its own.
"""

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

WIELDY = str(Path(sys.executable).parent / "wieldy")
_ROOT = str(Path(__file__).parents[2])
# The parts that most commands need. Other modules are loaded in the fork, as a command would.
_LOADED = ["wieldy.cli.app", "wieldy.store.store", "mcp.client.session", "tests.cli.command_server"]


def run_forked(
    words: list[str],
    folder: Path | None,
    environment: dict[str, str],
    seconds: float,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. It writes into files, so that a reader can't hold it up.

    If `together`, errors are written among the output.
    """
    with tempfile.TemporaryFile("a+b") as out, tempfile.TemporaryFile("a+b") as err:
        files = [
            _share_descriptor(out.fileno()),
            _share_descriptor((out if together else err).fileno()),
        ]
        place = str(folder or Path.cwd())
        process = _context().Process(
            target=_become_command, args=(words, place, environment, files)
        )
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, seconds)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess([WIELDY, *words], process.exitcode, *texts)


def _share_descriptor(descriptor: int) -> Any:
    from multiprocessing.reduction import DupFd  # noqa: PLC0415 - missing where there is no fork

    return DupFd(descriptor)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    return context


def _become_command(
    words: list[str], folder: str, environment: dict[str, str], files: list[Any]
) -> None:
    """Be the command, as the script of the environment would."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files, start=1):
        os.dup2(file.detach(), number)
    sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
    sys.argv = [WIELDY, *words]
    sys.path[:] = [
        str(Path(WIELDY).parent),
        *(path for path in sys.path if path not in ("", _ROOT)),
    ]

    from wieldy.cli import main  # noqa: PLC0415

    try:
        main()
    finally:
        atexit._run_exitfuncs()
