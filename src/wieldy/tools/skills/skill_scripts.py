"""Run the scripts of skills in the sandbox, as they were when the skills were added."""

import asyncio
import os
import re
import shlex
import weakref
from collections.abc import Sequence
from uuid import uuid4

from wieldy.core.context import Context
from wieldy.toolbox import Toolbox
from wieldy.tools.code import CodeResult, Sandbox, SandboxLimits
from wieldy.tools.code.code_tools import find_workspace
from wieldy.tools.code.folder_usage import remove_folder
from wieldy.tools.code.sandbox import SandboxKind
from wieldy.tools.code.session_folders import SessionFolders
from wieldy.tools.code.workspace_run import run_in_workspace
from wieldy.tools.code.workspaces import Workspace, make_workspace
from wieldy.tools.files import FileService

from .skill_document import SkillError
from .skill_folder import Skill, SkillShelf

_INTERPRETERS = {
    ".py": ("python",),
    ".sh": ("sh",),
    ".bash": ("bash",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".cjs": ("node",),
    ".rb": ("ruby",),
    ".pl": ("perl",),
}
_PYTHON = re.compile(r"python[0-9.]*\Z")
_SETTING = re.compile(r"\w+=")
_MAX_SHEBANG = 256
_MAX_ARGUMENTS = 100_000


class SkillScripts:
    """The scripts of the skills of a shelf, and where they run.

    Args:
        box: The toolbox. If it has code tools, scripts run in the working folders of those.
        shelf: The skills.
        service: A file service whose `/workspace/` is the working folder.
        limits: What a script may use.
        kind: The kind of sandbox.
    """

    kind = None

    def __init__(
        self,
        box: Toolbox,
        shelf: SkillShelf,
        service: FileService | None,
        limits: SandboxLimits | None,
        kind: SandboxKind,
    ) -> None:
        # An object that is closed with a toolbox must not keep the toolbox alive.
        self._box = weakref.ref(box)
        self._shelf = shelf
        self._given = service is not None
        self._workspace = make_workspace(service)
        self._copies = SessionFolders()
        self._limits = limits
        self._sandbox_kind = kind
        self.held = False

    async def close(self) -> None:
        """Remove the working folders."""
        self.held = False
        await asyncio.to_thread(self._workspace.close)
        await asyncio.to_thread(self._copies.close)

    async def run(
        self, skill: str, script: str, context: Context, arguments: Sequence[str] = ()
    ) -> CodeResult:
        """Run a script of a skill from a copy that was checked against what was added."""
        found = self._shelf.skills[skill]
        path = found.find_file(script)
        _check_arguments(arguments)
        self.held = True
        folder = await asyncio.to_thread(self._copies.open_folder, uuid4().hex)
        try:
            sandbox = Sandbox(self._limits, {found.place: folder}, self._sandbox_kind)
            await asyncio.to_thread(self._shelf.copy, found, folder)
            place = found.place if sandbox.kind == "bubblewrap" else folder
            words = [*_find_program(sandbox, found, folder, path), f"{place}/{path}", *arguments]
            return await run_in_workspace(sandbox, self._find_workspace(), words, context)
        finally:
            await asyncio.to_thread(remove_folder, folder)

    def _find_workspace(self) -> Workspace:
        box = self._box()
        shared = None if self._given or box is None else find_workspace(box)
        return shared or self._workspace


def has_scripts(skill: Skill) -> bool:
    """Whether a skill has files that look like scripts."""
    return any(_suffix(path) in _INTERPRETERS or "scripts/" in path for path in skill.files)


def _find_program(sandbox: Sandbox, skill: Skill, folder: str, path: str) -> list[str]:
    """The program for a script: Python for `.py`, or what its first line or name tells."""
    known = _INTERPRETERS.get(_suffix(path), ())
    with open(os.path.join(folder, path), "rb") as file:
        first = file.read(_MAX_SHEBANG).partition(b"\n")[0].decode("utf-8", "replace")
    named = _read_shebang(first) if first.startswith("#!") else []
    if _suffix(path) == ".py" or (named and _PYTHON.match(os.path.basename(named[0]))):
        return [sandbox.interpreter]
    if not named and not known:
        endings = ", ".join(_INTERPRETERS)
        reason = f"it is no script: a script begins with #! or ends in one of {endings}"
        raise SkillError(f"{skill.name}/{path}", reason)
    return named or list(known)


def _read_shebang(line: str) -> list[str]:
    """The program of a first line, and its options; `env` only looks for the program."""
    try:
        words = shlex.split(line[2:])
    except ValueError:
        words = line[2:].split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if word != "-S" and not _SETTING.match(word)]
    return words


def _check_arguments(arguments: Sequence[str]) -> None:
    if sum(map(len, arguments)) > _MAX_ARGUMENTS:
        raise ValueError(
            f"The arguments have more than {_MAX_ARGUMENTS:,} characters. Write data to a "
            "file in /workspace, and give the script its path."
        )
    for number, word in enumerate(arguments, 1):
        if "\0" in word or any("\ud800" <= each <= "\udfff" for each in word):
            raise ValueError(
                f"Argument {number} has a NUL character or half of a surrogate pair in it. Send "
                "it without."
            )


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()
