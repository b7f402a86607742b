"""What tools, rows and servers say reaches a terminal as text and as nothing else."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Command
from tests.cli.terminal import SECONDS, Terminal, wieldy
from tests.forking.launch_files import WIELDY
from wieldy import Toolbox
from wieldy.cli import screen

NASTY = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m[red]not red[/red] :skull: a\rb "
    "\u202etxt.exe\u200b \x00 \ud800 [/"
)
TOOLS = f"""
from wieldy import Toolbox
from wieldy.core.tool import Tool

NASTY = {NASTY!r}
box = Toolbox(store="sqlite:///wieldy.db")


@box.tool(description=NASTY + "\\n" + NASTY, permission="confirm")
def say(text: str) -> str:
    return NASTY


@box.tool(description="Raise.")
def broken() -> None:
    raise RuntimeError(NASTY)


box.add(
    lambda **_: NASTY,
    name=NASTY,
    description=NASTY,
    input_schema={{"properties": {{NASTY: {{"description": NASTY, "default": NASTY}}}}}},
)
"""


@pytest.fixture
def hostile(folder: Path) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    return folder


def is_harmless(text: str) -> bool:
    codes = {*range(0x20), *range(0x7F, 0xA0), 0x200B, 0x202E} - {0x0A}
    return not any(ord(character) in codes for character in text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("list", "--json"),
        ("describe", "say"),
        ("describe", NASTY),
        ("describe", NASTY, "--json"),
        ("describe", NASTY + "x"),
        ("check",),
        ("check", "--strict"),
        ("check", "--strict", "--json"),
        ("call", NASTY),
        ("call", NASTY, "--json"),
        ("call", "broken"),
        ("call", "say", "--arg", f"text={NASTY}", "--yes"),
        ("call", "say", "--arg", f"{NASTY}={NASTY}"),
        ("log",),
        ("log", "--json"),
        ("log", "--tool", NASTY),
        ("log", NASTY),
        ("pending",),
        ("pending", "--json"),
        ("approve", NASTY),
        ("deny", NASTY),
        ("recover",),
        ("recover", "--json"),
        ("recover", "--call", NASTY),
        ("settle", NASTY, "ok"),
        ("settle", "call_", NASTY),
        ("list", NASTY),
        ("list", NASTY + ".json"),
        ("log", "--store", "sqlite:///" + NASTY),
        ("log", "--since", NASTY),
    ],
    ids=lambda arguments: " ".join(arguments).replace(NASTY, "NASTY"),
)
def test_no_command_lets_control_characters_or_markup_through(
    command: Command, hostile: Path, ann: str, arguments: tuple[str, ...]
) -> None:
    text = NASTY.encode("utf-8", "replace").decode()
    command("call", "say", "--arg", f"text={text}", "--session", text)
    command("call", NASTY)
    command("call", "broken")
    done = command(*arguments)
    assert is_harmless(done.stdout), done.stdout
    assert is_harmless(done.stderr), done.stderr
    if "--json" in arguments or "json" in arguments:
        assert json.loads(done.stdout) is not None
    elif "not red" in done.stdout:
        assert "[red]not red[/red] :skull:" in done.stdout


def test_what_is_logged_of_a_server_steers_no_terminal(folder: Path) -> None:
    dying = f"import sys; sys.exit({NASTY.replace(chr(0), '').replace(chr(0xD800), '')!r})"
    servers = {
        "dying": {"command": sys.executable, "args": ["-c", dying]},
        "mine": {
            "command": WIELDY,
            "args": ["serve", "tools.py", "--stdio"],
            "env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            "cwd": str(folder),
        },
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    done = wieldy("list", "mcp.json", cwd=folder)

    assert "add" in done.stdout and "owned" in done.stderr
    assert not set("\x1b\x07\x9b\u202e\u200b") & set(done.stdout + done.stderr)


def test_a_person_is_asked_about_what_is_there(hostile: Path) -> None:
    text = "\x1b[2K\x1b[1Ainnocent\u202e"
    terminal = Terminal("call", "say", "--arg", f"text={text}", cwd=hostile)
    try:
        shown = terminal.wait_for("Run it?")
        assert "\\u001b[2K\\u001b[1Ainnocent\\u202e" in shown
        assert "\x1b[1A" not in terminal.raw
        terminal.type("y\n")
        terminal.wait_for("not red")
        assert terminal.ends_with() == 0
        assert "\x1b]0;" not in terminal.raw
        assert "\x9b" not in terminal.raw
    finally:
        terminal.close()


@given(st.text())
def test_clean_text_is_harmless_and_ordinary_text_is_itself(text: str) -> None:
    cleaned = screen.clean(text).replace("\t", "")
    assert is_harmless(cleaned)
    assert "\n" not in screen.line(text)
    if text.isprintable() and text.isascii():
        assert screen.clean(text) == text


def test_letters_of_all_languages_stay() -> None:
    said = "Grüße, 你好, नमस्ते, שלום, 👩\u200d💻"
    assert screen.clean(said) == said


@pytest.mark.parametrize("depth", [99, 100, 900, 5000])
def test_rows_of_any_depth_are_written_for_programs(folder: Path, depth: int) -> None:
    deep: Any = "leaf"
    for level in range(depth):
        deep = [deep] if level % 2 else {"a": deep}

    async def make() -> None:
        async with Toolbox(store="sqlite:///wieldy.db") as box:
            box.add(lambda a: a, name="give")
            box.add(lambda a: a, name="ask", permission="confirm")
            await box.call("give", {"a": deep})
            await box.call("ask", {"a": deep})

    asyncio.run(make())
    for asked in (["log"], ["log", "--limit", "0"], ["pending"]):
        done = subprocess.run([WIELDY, *asked, "--json"], capture_output=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        # A call that is too deep is refused, and does not wait for a decision.
        assert len(found) == (2 if asked[0] == "log" else int(depth < 100))
        if depth < 100:
            assert all(entry["arguments"] == {"a": deep} for entry in found)
        assert subprocess.run([WIELDY, *asked], capture_output=True).returncode == 0
