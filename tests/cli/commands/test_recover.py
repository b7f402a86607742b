"""What a crash left open, and what a person does about it from the command line."""

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.child_process import ChildProcess
from tests.cli.conftest import Command
from tests.cli.terminal import SECONDS, wieldy
from tests.forking.launch_files import WIELDY
from tests.forking.launcher import CRASH

pytestmark = pytest.mark.usefixtures("ann")
SHOP = '''
"""Tools that stand still while there is a file named hold."""

import asyncio
import subprocess
from pathlib import Path

from wieldy import Toolbox

box = Toolbox(store="sqlite:///wieldy.db")


async def pause() -> None:
    if Path("hold").exists():
        await asyncio.Event().wait()


@box.tool(read_only=True)
async def look(item: str) -> str:
    """Look something up."""
    print("printed by the tool")
    subprocess.run(["echo", "printed by its program"], check=True)
    await pause()
    return f"{item}: 12"


@box.tool
async def pay(amount: int) -> str:
    """Pay."""
    await pause()
    if amount < 0:
        raise ValueError("nothing to pay")
    return f"paid {amount}"
'''
Crashed = Callable[..., str]


@pytest.fixture
def crashed(folder: Path) -> Crashed:
    """Makes a call in a process that is killed while it runs; gives the call's id."""
    (folder / "shop.py").write_text(SHOP)
    made: list[str] = []

    def crash(tool: str, argument: str) -> str:
        (folder / "hold").touch()
        called = [WIELDY, "call", tool, "shop.py", "--arg", argument]
        process = ChildProcess(called, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            made.append(_started(folder / "wieldy.db", made))
            return made[-1]
        finally:
            process.send_signal(CRASH)
            process.wait(SECONDS)
            (folder / "hold").unlink()

    return crash


def _started(path: Path, before: list[str]) -> str:
    asked = "SELECT id FROM wieldy_calls WHERE state = 'started'"
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
                found = [row[0] for row in file.execute(asked) if row[0] not in before]
        except sqlite3.OperationalError:
            # It is not there yet.
            found = []
        if found:
            return str(found[0])
        time.sleep(0.02)
    raise AssertionError("the call has not started")


def entry_of(command: Command, call_id: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(command("log", call_id, "--json").stdout)
    return entry


def test_what_may_run_again_does_and_the_rest_is_said(command: Command, crashed: Crashed) -> None:
    looked, paid = crashed("look", "item=tea"), crashed("pay", "amount=5")
    done = command("recover", "shop.py")
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["call", "tool", "state", "result"],
        [looked, "look", "ok", "tea:", "12"],
    ]
    assert "1 interrupted call has an unknown result" in done.stderr
    assert "wieldy settle ID ok" in done.stderr
    assert entry_of(command, looked)["metadata"]["recovered_by"] == "ann"
    assert entry_of(command, paid)["state"] == "unknown"
    again = command("recover", "shop.py", "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (0, [])
    assert "No interrupted call in" in command("recover", "shop.py").stderr


def test_what_a_program_of_a_tool_prints_is_not_among_the_results(
    folder: Path, crashed: Crashed
) -> None:
    looked = crashed("look", "item=tea")
    done = wieldy("recover", "shop.py", "--json", cwd=folder)
    assert [outcome["call_id"] for outcome in json.loads(done.stdout)] == [looked]
    assert "printed by its program" in done.stderr.splitlines()


def test_a_call_that_is_named_runs_again_whatever_its_tool_is(
    command: Command, crashed: Crashed
) -> None:
    paid, failed = crashed("pay", "amount=5"), crashed("pay", "amount=-1")
    done = command("recover", "shop.py", "--call", paid, "--json")
    [outcome] = json.loads(done.stdout)
    assert (done.exit_code, outcome["value"]) == (0, "paid 5")
    entry = entry_of(command, paid)
    assert (entry["state"], entry["decision"]["by"]) == ("ok", "ann")
    wrong = command("recover", "shop.py", "--call", failed)
    assert wrong.exit_code == 1
    assert "nothing to pay" in wrong.stdout
    ended = command("recover", "shop.py", "--call", paid)
    assert (ended.exit_code, "paid 5" in ended.stdout) == (0, False)
    assert "not run again: it is ok" in ended.stdout


@pytest.mark.parametrize("depth", [100, 101, 20_000])
def test_a_value_is_kept_however_deep_it_is(command: Command, crashed: Crashed, depth: int) -> None:
    paid, value = crashed("pay", "amount=5"), "[" * depth + "]" * depth
    done = command("settle", paid, "ok", "--value", value, "--json")
    assert done.exit_code == 0
    entry = entry_of(command, paid)
    assert entry == json.loads(done.stdout)
    # As text, where it is too deep to be read as JSON.
    assert entry["value"] == (json.loads(value) if depth == 100 else value)


@pytest.mark.parametrize(
    ("end", "more", "value", "error"),
    [
        ("ok", ("--value", '{"receipt": 7}'), {"receipt": 7}, None),
        ("ok", ("--value", "see the bank"), "see the bank", None),
        ("error", ("--reason", "the bank has not seen it"), None, "the bank has not seen it"),
    ],
)
def test_a_person_says_how_a_call_ended(
    command: Command,
    crashed: Crashed,
    end: str,
    more: tuple[str, ...],
    value: Any,
    error: str | None,
) -> None:
    paid = crashed("pay", "amount=5")
    done = command("settle", paid[:-1], end, *more)
    assert (done.exit_code, done.stdout) == (0, f"Settled {paid} as {end}.\n")
    entry = entry_of(command, paid)
    assert (entry["state"], entry["value"], entry["error"]) == (end, value, error)
    assert entry["metadata"]["settled_by"] == "ann"
    # When it ended is when that was said; how long it took nobody knows.
    assert "took " not in command("log", paid).stdout
    again = command("settle", paid, "ok")
    assert again.exit_code == 2
    assert f"was already settled as {end} by ann" in again.stderr


def test_settling_prints_the_entry_for_programs(command: Command, crashed: Crashed) -> None:
    paid = crashed("pay", "amount=5")
    entry = json.loads(command("settle", paid, "ok", "--json").stdout)
    assert (entry["call_id"], entry["state"], entry["value"]) == (paid, "ok", None)


@pytest.mark.parametrize("asked", [("settle", "call_x", "ok"), ("recover", "--call", "call_x")])
def test_a_call_that_is_not_there_is_said(command: Command, asked: tuple[str, ...]) -> None:
    command("call", "add", "--arg", "a=1")
    done = command(*asked)
    assert done.exit_code == 2
    assert "There is no call 'call_x' in sqlite:///wieldy.db." in done.stderr


def test_a_call_that_ended_by_itself_is_not_settled(command: Command) -> None:
    command("call", "add", "--arg", "a=1")
    done = command("settle", "call_", "error")
    assert done.exit_code == 2
    assert "was already ok: only a call of unknown end is settled." in done.stderr
