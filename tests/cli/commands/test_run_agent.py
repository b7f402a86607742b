"""One question to an agent from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, wieldy

AGENT = """
from wieldy import Call, Context
from wieldy.agent import Agent
from wieldy.models.model_errors import ModelUnavailable
from wieldy.core.tool import Tool
from wieldy.testing import ScriptedModel

calls = [Call("add", {"a": 1, "b": 2}), Call("count", {"to": 2})]
agent = Agent(ScriptedModel([["Let me see.", *calls], "It is 3."]), tool_strategy="native")
asker = Agent(
    ScriptedModel([Call("wipe", {"path": "/tmp/x"}), "Wiped."]),
    tool_strategy="native",
    store="sqlite:///wieldy.db",
)
broken = Agent(ScriptedModel([ModelUnavailable("scripted:model", "it is asleep")]))


@agent.tool_func
def add(a: int, b: int) -> int:
    return a + b


@agent.tool_func
async def count(to: int, ctx: Context) -> str:
    for n in range(to):
        await ctx.progress(n + 1, to, "counting")
        await ctx.emit(f"number {n}")
    await ctx.notice("that was all", "warning")
    return "counted"


asker.use_tools(Tool(lambda path: f"wiped {path}", name="wipe", permission="confirm"))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with agents in a file."""
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def test_the_answer_is_on_stdout_and_the_calls_on_stderr(place: Path) -> None:
    done = wieldy("run", "agent.py", "1 + 2?", cwd=place)

    assert (done.returncode, done.stdout) == (0, "Let me see.\nIt is 3.\n")
    assert "add(a=1, b=2) → 3" in done.stderr
    assert "count: number 1" in done.stderr
    assert "count (warning): that was all" in done.stderr


def test_programs_get_the_whole_run_as_json(place: Path) -> None:
    done = wieldy("run", "agent.py", "1 + 2?", "--json", cwd=place)

    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert (told["status"], told["answer"], told["meta"]["rounds"]) == ("done", "It is 3.", 1)
    assert {each["tool_name"]: each["result"] for each in told["tools"]}["add"] == 3


def test_a_call_that_waits_has_its_exit_code_where_nobody_is_there(place: Path) -> None:
    done = wieldy("run", "agent.py:asker", "Wipe it.", cwd=place)
    told = wieldy("run", "agent.py:asker", "Wipe it.", "--json", cwd=place)

    assert done.returncode == told.returncode == 3
    assert done.stdout.startswith("call_")
    assert "wipe" in done.stderr
    (pending,) = json.loads(told.stdout)["pending"]
    assert pending["tool"] == "wipe"


def test_a_person_on_a_terminal_is_asked_and_the_run_goes_on(place: Path) -> None:
    terminal = Terminal("run", "agent.py:asker", "Wipe it.", cwd=place)
    try:
        terminal.wait_for("Run it?")
        terminal.type("y\n")
        terminal.wait_for("Wiped.")
        assert terminal.ends_with() == 0
    finally:
        terminal.close()


def test_a_refusal_is_told_to_the_model(place: Path) -> None:
    terminal = Terminal("run", "agent.py:asker", "Wipe it.", cwd=place)
    try:
        terminal.wait_for("Run it?")
        terminal.type("n\n")
        terminal.wait_for("denied")
        assert terminal.ends_with() == 0
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("agent.py:broken", 1, "it is asleep"),
        ("agent.py:nobody", 2, "no agent named 'nobody'"),
        ("missing.py", 2, "no file"),
    ],
)
def test_what_goes_wrong_is_said_in_words(place: Path, source: str, code: int, words: str) -> None:
    done = wieldy("run", source, "hi", cwd=place)

    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
