"""A toolbox whose code runs in a real sandbox, and a look at what is left afterwards."""

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.machine import require
from wieldy import Outcome, Toolbox
from wieldy.execution.process_tree import find_descendants
from wieldy.tools.code import add_code_tools
from wieldy.tools.code.folder_usage import remove_folder
from wieldy.tools.code.sandbox_host import choose_user

PATIENCE = 120


class CodeBox:
    """A toolbox with code tools, whose `/workspace` is a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "workspace"
        self.boxes: list[Toolbox] = []

    def make(self, **options: Any) -> Toolbox:
        """A toolbox that does not ask, with files in the folder unless others are given."""
        if options.get("sandbox") != "unprotected":
            require("the sandbox")
        box = Toolbox(permission_mode="bypass")
        add_code_tools(box, **{"files": self.root, "timeout": 100, **options})
        self.boxes.append(box)
        return box

    async def python(self, code: str, **options: Any) -> Outcome:
        """Run Python code in a toolbox of its own."""
        return await self.make(**options).call("run_python", {"code": code})

    async def shell(self, command: str, **options: Any) -> Outcome:
        """Run a command in a toolbox of its own."""
        return await self.make(**options).call("run_shell", {"command": command})


@pytest.fixture
async def code_box(tmp_path: Path) -> AsyncIterator[CodeBox]:
    made = CodeBox(tmp_path / "root")
    yield made
    for box in made.boxes:
        await box.close()
    # Deeper than pytest could remove it.
    remove_folder(str(made.root))


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """No test leaves a process or a mount."""
    below, mounts = set(find_descendants([os.getpid()])), read_mounts()
    yield
    await_none(lambda: set(find_descendants([os.getpid()])) - below)
    await_none(lambda: processes_of(tmp_path / "root" / "workspace"))
    assert read_mounts() == mounts


def read_mounts() -> str:
    """The mounts that this process sees."""
    return Path("/proc/self/mountinfo").read_text()


def processes_of(folder: Path) -> set[int]:
    """The processes of the user that code in this folder runs as; nobody where this is not root."""
    user = choose_user(os.path.realpath(folder))
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == user:
                found.add(int(entry.name))
        except OSError:
            continue  # It has ended.
    return found


def await_none(look: Callable[[], set[int]]) -> None:
    """Wait until there are no processes: the system buries them in its own time."""
    deadline = time.monotonic() + PATIENCE
    while found := look():
        assert time.monotonic() < deadline, f"processes {found} are left"
        time.sleep(0.01)
