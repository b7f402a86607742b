"""A folder with tools, a store with calls, and the command in this process."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from typer import testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from tests.cli.terminal import make_token
from wieldy.cli.app import app

Command = Callable[..., Result]

TOOLS = '''
"""Tools for the tests of the command."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

from wieldy import Context, Image, InputNeeded, Resource, Secret, Toolbox

box = Toolbox(store="sqlite:///wieldy.db")
box.groups.create("files", "Files.", active=True)


@box.tool(tags={"math"}, read_only=True)
def add(a: float, b: float = 2) -> float:
    """Add two numbers.

    Args:
        a: the first one
    """
    return a + b


@box.tool
def echo(text: str, more: Any = None, tags: list[str] | None = None) -> dict[str, Any]:
    """Give back what came."""
    return {"text": text, "more": more, "tags": tags}


@box.tool(group="files", permission="confirm")
def wipe(path: str, times: int = 1) -> str:
    """Wipe a path."""
    return f"wiped {path} {times}"


@box.tool(permission="confirm")
async def slow_wipe(steps: int, context: Context) -> AsyncIterator[str]:
    """Wipe step by step."""
    for step in range(steps):
        await context.progress(step + 1, steps, f"step {step + 1}")
        yield f"step {step + 1}\\n"


@box.tool
async def count(to: int, context: Context) -> AsyncIterator[str]:
    """Count."""
    for number in range(1, to + 1):
        await context.progress(number, to, "counting")
        await asyncio.sleep(0.01)
        yield f"{number} "


@box.tool
async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


@box.tool
def fail(why: str) -> None:
    """Fail."""
    print("printed by the tool")
    raise RuntimeError(why)


@box.tool(permission="confirm")
def login(user: str, password: Secret) -> str:
    """Log in."""
    return f"{user} came in with {len(password.get_secret_value())} letters"


@box.tool
def book(city: str, context: Context) -> str:
    """Book a room."""
    if context.answers is None:
        fields = {"nights": {"type": "integer"}, "name": {"type": "string"}}
        schema = {"type": "object", "properties": fields, "required": ["nights"]}
        raise InputNeeded.form("How many nights?", schema)
    return f"{context.answers['answer']['content']} in {city}"


@box.tool
def picture() -> list[Any]:
    """Give a picture and a link."""
    return [Image(b"12345", "image/png"), Resource("file:///a.txt")]
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a tools.py and nothing in the environment."""
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    for name in ("WIELDY_STORE", "WIELDY_SOURCE", "WIELDY_TOKEN", "WIELDY_TOKENS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def ann(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The token of somebody who may decide, which is in the environment."""
    token = make_token(folder)
    monkeypatch.setenv("WIELDY_TOKEN", token)
    return token


_built_command = cache(get_command)


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command in this process, as from a fresh one."""

    def run(*arguments: str) -> Result:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", list(sys.path))
            # Typer would build all commands anew, which takes longer than most of them run.
            patch.setattr(testing, "_get_command", _built_command)
            result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
        for source in folder.glob("*.py"):
            sys.modules.pop(source.stem, None)
        return result

    return run
