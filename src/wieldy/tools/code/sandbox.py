"""Run programs in a sandbox: in namespaces of their own, watched, and ended with all they start."""

import asyncio
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from .folder_usage import give_folder
from .program_run import STATUS_WORD, OnOutput, ProgramFiles, ProgramRun
from .sandbox_host import (
    can_forbid_namespaces,
    check_system,
    choose_user,
    counts_by_namespace,
    find_bubblewrap,
)
from .sandbox_interpreter import Mount, host_interpreter, sandbox_interpreter
from .sandbox_limits import ProgramEnd, SandboxLimits
from .sandbox_root import (
    WORKSPACE,
    bind_arguments,
    closing_arguments,
    link_arguments,
    make_environment,
    memory_arguments,
    named_mounts,
    staged_path,
    system_arguments,
)

SandboxKind = Literal["bubblewrap", "unprotected"]

# A name that the script of nobody else has.
_ENTRY = ".wieldy-entry.py"
_ENTRY_TEXT = Path(__file__).with_name("program_entry.py")
_PAGE = 4096
_NICE = 5
_MAX_FILES = 256
# The variable by which the processes of a program without walls are found.
_MARK = "WIELDY_PROGRAM"


class Sandbox:
    """A place to run programs that nobody vouches for.

    A program sees `/usr`, this interpreter, what is named in `readonly`, and its working
    folder as `/workspace`. It has no network and none of the environment.

    Args:
        limits: What a program may use.
        readonly: Files and folders of the host by their place in the sandbox.
        kind: "bubblewrap", or "unprotected" for a plain process with limits and no walls.

    Raises:
        SandboxUnavailable: There is no bubblewrap here; the message says what to install.

    Example:
        `end = await Sandbox().run(["ls", "-l"], folder="/srv/job")`
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        readonly: Mapping[str, str | os.PathLike[str]] | None = None,
        kind: SandboxKind = "bubblewrap",
    ) -> None:
        if kind not in ("bubblewrap", "unprotected"):
            raise ValueError(f'sandbox is "bubblewrap" or "unprotected", not {kind!r}')
        check_system()
        self.kind = kind
        self.limits = limits or SandboxLimits()
        self._program = None if kind == "unprotected" else find_bubblewrap()
        self._forbids = self._program is not None and can_forbid_namespaces(self._program)
        walled = self._program is not None
        self._interpreter = sandbox_interpreter() if walled else host_interpreter()
        self._mounts = [*self._interpreter.mounts, *named_mounts(readonly or {})]

    @property
    def interpreter(self) -> str:
        """The path by which a program finds this interpreter."""
        return self._interpreter.path

    async def run(
        self,
        words: Sequence[str],
        folder: str | os.PathLike[str],
        *,
        writable: bool = True,
        scripts: Mapping[str, bytes] | None = None,
        on_output: OnOutput | None = None,
    ) -> ProgramEnd:
        """Run a program to its end.

        If the task that awaits this is cancelled, the program is ended with all that it has
        started before the cancellation goes on.

        Args:
            words: The program and its arguments. A word that is the name of a script stands
                for the path of that script.
            folder: The working folder, which is `/workspace` in the sandbox.
            writable: Whether the program may write there.
            scripts: Files that the program can read, by name.
            on_output: An async function that gets the output as it comes.

        Returns:
            How the program ended, also where a limit ended it.

        Raises:
            SandboxUnavailable: The system refused to make the sandbox.
        """
        place, user = await asyncio.to_thread(self._prepare_folder, folder, writable)
        with ExitStack() as held:
            files = ProgramFiles(held, self._program is not None)
            entry = files.add(_ENTRY, _ENTRY_TEXT.read_bytes())
            places = {name: files.add(name, data) for name, data in (scripts or {}).items()}
            inner = [self.interpreter, "-I", "-S", entry]
            inner += [json.dumps(self._system_limits(user))]
            inner += [places.get(word, word) for word in words]
            mounts = [*self._mounts, Mount(place, WORKSPACE, writable)]
            sources = [mount.source for mount in mounts]
            mark = os.urandom(16).hex()
            outer = self._outer_words(mounts, user is not None, files)
            if outer and user is not None:
                outer[0] = staged_path(len(sources))
                sources.append(str(self._program))
            plan = {
                "words": [*outer, *inner],
                # The other words are the program's own, whatever they look like.
                "status_word": outer.index(STATUS_WORD) if outer else None,
                "limits": self._watched_limits(),
                "watched": place if writable else None,
                "wrappers": 2 if outer else 0,
                "user": user,
                "sources": sources,
                "folder": None if outer else place,
                "nice": _NICE,
                "handles": files.handles,
                "environment": {} if outer else self._environment(place, mark),
                "mark": f"{_MARK}={mark}",
            }
            run = ProgramRun(plan, self.limits.output, files.handles, on_output)
            return await run.follow(held)

    def _environment(self, home: str, mark: str) -> dict[str, str]:
        """The environment of a program without walls, by which its processes are found."""
        return {**make_environment(home, self._interpreter), _MARK: mark}

    def _prepare_folder(
        self, folder: str | os.PathLike[str], writable: bool
    ) -> tuple[str, int | None]:
        """The real path of a folder, and the user that the program runs as, who may write there."""
        place = os.path.realpath(folder)
        user = None if self._program is None else choose_user(place)
        if user is not None and writable:
            give_folder(place, user)
        return place, user

    def _outer_words(self, mounts: list[Mount], staged: bool, files: ProgramFiles) -> list[str]:
        """Bubblewrap and its arguments; nothing where there is no sandbox."""
        if self._program is None:
            return []
        words = [self._program, *system_arguments()]
        if self._forbids:
            words += ["--disable-userns"]
        # Paths that were named are mounted later, because they may lie in `/tmp`.
        words += [*memory_arguments(self._memory_files), *bind_arguments(mounts, staged)]
        words += link_arguments(self._interpreter)
        words += [*files.arguments(self._interpreter.files), *closing_arguments()]
        for name, value in make_environment("/tmp", self._interpreter).items():
            words += ["--setenv", name, value]
        return [*words, "--"]

    @property
    def _memory_files(self) -> int:
        """How large each file system in memory is, in whole pages."""
        return -(-min(self.limits.disk, self.limits.memory) // _PAGE) * _PAGE

    def _watched_limits(self) -> dict[str, float]:
        """The limits that the keeper holds, for all processes together."""
        return {
            "memory": self.limits.memory,
            "timeout": self.limits.timeout,
            "processes": self.limits.processes,
            "cpu": self.limits.cpu,
            "disk": self.limits.disk,
            "tmpfs": self._memory_files,
        }

    def _system_limits(self, user: int | None) -> dict[str, int]:
        """The limits that the system itself holds, for each process."""
        limits = self.limits
        most = {
            "RLIMIT_CORE": 0,
            "RLIMIT_CPU": math.ceil(limits.timeout) + 1,
            "RLIMIT_DATA": limits.memory * 2,
            "RLIMIT_FSIZE": limits.disk,
            "RLIMIT_NOFILE": _MAX_FILES,
        }
        if self._program is not None and (user is not None or counts_by_namespace()):
            # The first process in the namespace is bubblewrap's own.
            most["RLIMIT_NPROC"] = limits.processes + 1
        return most
