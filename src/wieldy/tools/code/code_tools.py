"""The tools `run_python` and `run_shell`, and how they are added to a toolbox."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wieldy.core.context import Context
from wieldy.core.limits.limits import parse_size
from wieldy.core.tool import Permission, Tool
from wieldy.toolbox import Toolbox
from wieldy.tools.files.file_grants import USER_FILES
from wieldy.tools.files.file_service import FileService

from .code_result import CodeResult
from .sandbox import Sandbox, SandboxKind
from .sandbox_limits import SandboxLimits
from .workspace_run import run_in_workspace
from .workspaces import Workspace, find_service, make_workspace

_RUN_PYTHON = "run_python"
_MAX_LENGTH = 1_000_000
_DRIVER = Path(__file__).with_name("python_driver.py")


def add_code_tools(
    box: Toolbox,
    files: FileService | str | os.PathLike[str] | None = None,
    memory: int | str = "512MB",
    timeout: float = 60,
    processes: int = 32,
    disk: int | str = "256MB",
    output: int = 1_000_000,
    *,
    readonly: Mapping[str, str | os.PathLike[str]] | None = None,
    sandbox: SandboxKind = "bubblewrap",
) -> list[Tool]:
    """Add `run_python` and `run_shell`, which run code in a sandbox. Both ask first.

    Args:
        box: The toolbox that gets them.
        files: A file service, or the folder of one, whose `/workspace/` is the working folder.
            Without it each session has a folder of its own, until the toolbox is closed.
        memory: How much memory a program and all that it starts may hold.
        timeout: How many seconds it may take.
        processes: How many processes and threads it may have at the same time.
        disk: How much it may keep in its working folder and in `/tmp`.
        output: How many bytes it may print.
        readonly: Files and folders of this machine that code may read, by their place in the
            sandbox: `{"/data": "/srv/measurements"}`. With `/userinput`, or with a folder of the
            service whose files come from outside, all results come from outside.
        sandbox: "bubblewrap", or "unprotected": a plain process of this user, which can read,
            change and send whatever this user can.

    Returns:
        The two tools.

    Raises:
        SandboxUnavailable: There is no sandbox here; the message says what to install.
        ValueError: A limit makes no sense, or the service does not grant `/workspace/`.

    Example:
        `add_code_tools(box, files="project", timeout=20)`
    """
    limits = SandboxLimits(parse_size(memory), timeout, processes, parse_size(disk), output)
    place = Sandbox(limits, readonly, sandbox)
    service = find_service(files)
    tools = CodeTools(place, make_workspace(service))
    box.close_with(tools)
    options: dict[str, Any] = {"permission": Permission.CONFIRM, "destructive": True}
    if any(_is_outside(*named, service) for named in (readonly or {}).items()):
        options["untrusted"] = True
    return [
        box.add(tools.run_python, _RUN_PYTHON, **options),
        box.add(tools.run_shell, "run_shell", **options),
    ]


class CodeTools:
    """What the two tools share: the sandbox, and where working folders come from."""

    kind = None

    def __init__(self, sandbox: Sandbox, workspace: Workspace) -> None:
        self._sandbox = sandbox
        self.workspace = workspace
        self._shell = shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh"
        self.held = False

    async def close(self) -> None:
        """Remove the working folders."""
        self.held = False
        await asyncio.to_thread(self.workspace.close)

    async def run_python(self, code: str, context: Context) -> CodeResult:
        """Run Python code in a sandbox without network, and give what it prints.

        The value of a last expression is shown. The working folder is /workspace; files in it
        stay for later calls. Pictures that are saved there, and plots, are shown.

        Args:
            code: the code
        """
        scripts = {"driver.py": _DRIVER.read_bytes(), "code.py": _encode("code", code)}
        words = [self._sandbox.interpreter, "driver.py", "code.py"]
        return await self._run(words, scripts, context)

    async def run_shell(self, command: str, context: Context) -> CodeResult:
        """Run a shell command in a sandbox without network, and give what it prints.

        The working folder is /workspace; files in it stay for later calls. Pictures that are
        saved there are shown.

        Args:
            command: one command, or a script of several lines
        """
        scripts = {"command.sh": _encode("command", command)}
        return await self._run([self._shell, "command.sh"], scripts, context)

    async def _run(
        self, words: list[str], scripts: dict[str, bytes], context: Context
    ) -> CodeResult:
        self.held = True
        return await run_in_workspace(self._sandbox, self.workspace, words, context, scripts)


def find_workspace(box: Toolbox) -> Workspace | None:
    """The workspaces of a toolbox's code tools; None if it has no such tools."""
    tool = box.find_tool(_RUN_PYTHON)
    owner = None if tool is None else getattr(tool.function, "__self__", None)
    return owner.workspace if isinstance(owner, CodeTools) else None


def _is_outside(target: str, source: str | os.PathLike[str], service: FileService | None) -> bool:
    """Whether something that code may read is what somebody brought from outside."""
    if target.split("/")[1] == USER_FILES:
        return True
    return service is not None and service.covers_untrusted(os.path.realpath(source))


def _encode(what: str, text: str) -> bytes:
    """The bytes of a program; `ValueError` where no program looks like this."""
    if not text.strip():
        raise ValueError(f"The {what} is empty. Send what is to be run.")
    if len(text) > _MAX_LENGTH:
        raise ValueError(
            f"The {what} has {len(text):,} characters, and {_MAX_LENGTH:,} are the most. "
            "Write data to a file and read it from there."
        )
    if "\0" in text:
        raise ValueError(f"The {what} has a NUL character in it. Send it without.")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The {what} has half of a surrogate pair at character {error.start}, which is no "
            "text. Send it as whole characters."
        ) from None
