"""Calls that wait, and what a person does about them from the command line."""

import asyncio
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import SECONDS, Terminal
from tests.forking.launch_files import WIELDY
from wieldy import Call, Scope, Toolbox

pytestmark = pytest.mark.usefixtures("ann")


@pytest.fixture
def waiting(command: Command) -> str:
    """The id of a call that waits."""
    return command("call", "wipe", "--arg", "path=a").stdout.strip()


def entry_of(command: Command, call_id: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(command("log", call_id, "--json").stdout)
    return entry


def test_pending_shows_what_waits_and_who_asked(folder: Path, command: Command) -> None:
    async def park() -> None:
        async with Toolbox(store="sqlite:///wieldy.db", approval_ttl=7200) as box:

            @box.tool(permission="confirm")
            def send(to: str) -> None:
                """Send."""

            scope = Scope("mailer", "monday")
            await box.call(Call("send", {"to": "ann " * 60}, scope))

    asyncio.run(park())
    done = command("pending")
    assert done.exit_code == 0
    for text in ("send", "0s", "in 1h", "mailer (monday)", "the tool asks for confirmation"):
        assert text in done.stdout
    # All of the arguments: who decides must see them.
    assert "ann " * 59 in done.stdout
    [parked] = json.loads(command("pending", "--json").stdout)
    assert (parked["agent"], parked["session"]) == ("mailer", "monday")
    assert parked["arguments"] == {"to": "ann " * 60}
    assert parked["expires_at"] > parked["proposed_at"]


def test_pending_shows_the_calls_of_one_agent_or_session(folder: Path, command: Command) -> None:
    async def park() -> None:
        async with Toolbox(store="sqlite:///wieldy.db") as box:

            @box.tool(permission="confirm")
            def send() -> None:
                """Send."""

            for n, scope in enumerate((Scope("a", "s"), Scope("a", "t"), Scope("b", "s"))):
                await box.call(Call("send", {}, scope, id=f"w{n}"))

    asyncio.run(park())

    def ids(*options: str) -> list[str]:
        done = command("pending", "--json", *options)
        return [parked["call_id"] for parked in json.loads(done.stdout)]

    assert ids("--agent", "a") == ["w0", "w1"]
    assert ids("--session", "s") == ["w0", "w2"]
    assert ids("--session", "s", "--agent", "b") == ["w2"]
    assert "w1" not in command("pending", "--session", "s").stdout


def test_nothing_is_hidden_in_what_a_person_decides_on(folder: Path, command: Command) -> None:
    deceit = "safe\u200d\u00a0\u3164\u202e\nrow"

    async def park() -> None:
        async with Toolbox(store="sqlite:///wieldy.db") as box:
            schema = {"type": "object", "additionalProperties": True}
            box.add(dict, name="wipe", permission="confirm", input_schema=schema)
            await box.call("wipe", {deceit: deceit}, session=deceit)

    asyncio.run(park())
    shown = command("pending").stdout
    assert len(shown.splitlines()) == 2
    assert not set(deceit[4:-3]) & set(shown.splitlines()[1])
    assert shown.count("safe\\u200d\\u00a0\\u3164\\u202e\\nrow") == 2
    terminal = Terminal("call", "wipe", "--arg", f"path={deceit}", cwd=folder)
    try:
        asked = terminal.wait_for("Run it?")
        assert 'path = "safe\\u200d\\u00a0\\u3164\\u202e\\nrow"' in asked
    finally:
        terminal.close()


def test_nothing_is_cut_on_a_narrow_terminal(folder: Path, command: Command) -> None:
    command("call", "wipe", "--arg", "path=" + "x" * 300 + "tail")
    terminal = Terminal("pending", columns=60, cwd=folder)
    try:
        shown = terminal.wait_for("tail").replace("\r\n", "").replace("\n", "")
        assert "x" * 300 in shown
        assert terminal.ends_with() == 0
    finally:
        terminal.close()


def test_nothing_pending_is_said(command: Command, folder: Path) -> None:
    command("call", "add", "--arg", "a=1")
    done = command("pending")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "No call waits for approval in sqlite:///wieldy.db." in done.stderr
    assert json.loads(command("pending", "--json").stdout) == []


def test_a_damaged_call_is_said_in_a_line_beside_the_others(
    command: Command, folder: Path, waiting: str
) -> None:
    damaged = command("call", "wipe", "--arg", "path=b").stdout.strip()
    with closing(sqlite3.connect(folder / "wieldy.db")) as file, file:
        file.execute("UPDATE wieldy_calls SET arguments = '{bro' WHERE id = ?", (damaged,))
    asked = [WIELDY, "pending", "--json"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS)
    assert [parked["call_id"] for parked in json.loads(done.stdout)] == [waiting]
    [line] = done.stderr.splitlines()
    assert line.startswith(f"A pending call is left out. The store: the row of call {damaged}")
    assert line.endswith("Restore it from a copy, or delete it from wieldy_calls.")


def test_with_a_source_the_approved_call_runs_here(command: Command, waiting: str) -> None:
    done = command("approve", waiting, "tools.py")
    assert (done.exit_code, done.stdout) == (0, "wiped a 1\n")
    entry = entry_of(command, waiting)
    assert (entry["state"], entry["decision"]["by"]) == ("ok", "ann")
    again = command("approve", waiting, "tools.py")
    assert (again.exit_code, again.stdout) == (0, "wiped a 1\n")


def test_without_a_source_the_decision_is_recorded(command: Command, waiting: str) -> None:
    done = command("approve", waiting)
    assert (done.exit_code, done.stdout) == (0, "")
    assert (
        f"Approved {waiting} in sqlite:///wieldy.db. No SOURCE was named to run it" in done.stderr
    )
    assert f"wieldy approve {waiting} SOURCE" in done.stderr
    [still] = json.loads(command("pending", "--json").stdout)
    assert still["state"] == "approved"
    assert entry_of(command, waiting)["decision"]["by"] == "ann"
    # The arguments that were approved are those that run.
    late = command("approve", waiting, "tools.py", "--arg", "path=b")
    assert late.exit_code == 2
    assert "was already approved" in late.stderr
    assert command("approve", waiting, "tools.py").stdout == "wiped a 1\n"


def test_a_source_without_the_tool_leaves_the_call_approved(
    command: Command, folder: Path, waiting: str
) -> None:
    empty = 'from wieldy import Toolbox\n\nbox = Toolbox(store="sqlite:///wieldy.db")\n'
    (folder / "empty.py").write_text(empty)
    done = command("approve", waiting, "empty.py")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (
        f"Approved {waiting} in sqlite:///wieldy.db. wipe has changed or is not in the SOURCE"
        in done.stderr
    )


def test_the_help_names_no_source_that_approve_would_not_take(command: Command) -> None:
    said = command("approve", "--help").stdout
    assert "then tools.py" not in " ".join(said.replace("│", " ").split())


def test_the_arguments_can_be_changed_or_replaced(command: Command) -> None:
    ids = [command("call", "wipe", "--arg", f"path={p}").stdout.strip() for p in "ab"]
    changed = command("approve", ids[0], "tools.py", "--arg", "times=3")
    assert changed.stdout == "wiped a 3\n"
    replaced = command("approve", ids[1], "tools.py", "--arguments", '{"path": "c"}')
    assert replaced.stdout == "wiped c 1\n"


def test_changed_arguments_are_checked_and_need_the_tool(command: Command, waiting: str) -> None:
    wrong = command("approve", waiting, "tools.py", "--arg", "times=often")
    assert wrong.exit_code == 2
    assert "Invalid arguments for wipe" in wrong.stderr
    elsewhere = command("approve", waiting, "--arg", "times=3")
    assert elsewhere.exit_code == 2
    assert "Name its SOURCE after the id" in elsewhere.stderr
    assert entry_of(command, waiting)["state"] == "pending"


def test_an_approved_call_that_fails_exits_with_1(command: Command, folder: Path) -> None:
    text = (folder / "tools.py").read_text()
    (folder / "tools.py").write_text(text + '\n\nbox.rules.ask("fail")\n')
    call_id = command("call", "fail", "--arg", "why=x").stdout.strip()
    done = command("approve", call_id, "tools.py", "--json")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (1, "error")


def test_a_denied_call_never_runs(command: Command, waiting: str) -> None:
    done = command("deny", waiting, "--reason", "too risky")
    assert (done.exit_code, done.stdout) == (0, f"Denied {waiting}: too risky\n")
    entry = entry_of(command, waiting)
    assert (entry["state"], entry["decision"]["by"]) == ("denied", "ann")
    after = command("approve", waiting, "tools.py")
    assert after.exit_code == 2
    assert "was already denied by ann" in after.stderr


def test_deny_gives_json_for_programs(command: Command, waiting: str) -> None:
    done = command("deny", waiting, "--json")
    outcome = json.loads(done.stdout)
    assert (done.exit_code, outcome["state"]) == (0, "denied")
    assert outcome["decision"]["approved"] is False


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_the_beginning_of_an_id_is_enough_if_it_is_one_call_s(
    command: Command, waiting: str, verb: str
) -> None:
    assert command(verb, waiting[:10]).exit_code == 0


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_an_id_that_is_none_or_several_is_answered_with_near_ones(
    command: Command, waiting: str, verb: str
) -> None:
    other = command("call", "wipe", "--arg", "path=b").stdout.strip()
    wrong = command(verb, waiting[:-3] + "x" + waiting[-3:])
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert f"Did you mean {waiting}" in wrong.stderr
    several = command(verb, "call_")
    assert several.exit_code == 2
    assert waiting in several.stderr
    assert other in several.stderr
    assert "wieldy pending" in command(verb, "zzz").stderr
    assert command(verb, "").exit_code == 2


def test_a_box_in_memory_has_nothing_to_approve(command: Command, waiting: str) -> None:
    Path("memory.py").write_text("from wieldy import Toolbox\nbox = Toolbox()\n")
    done = command("approve", waiting, "memory.py")
    assert done.exit_code == 2
    assert "keeps its calls in memory" in done.stderr


def test_what_a_tool_asks_is_answered_by_approving(command: Command) -> None:
    asked = command("call", "book", "--arg", "city=Oslo")
    call_id = asked.stdout.strip()
    assert asked.exit_code == 3
    assert "How many nights?" in asked.stderr
    assert "How many nights?" in command("pending").stdout
    bare = command("approve", call_id, "tools.py")
    assert bare.exit_code == 2
    assert "The tool asks: How many nights? Answer with --arg nights=…" in bare.stderr
    done = command("approve", call_id, "tools.py", "--arg", "nights=2", "--arg", "name=7")
    assert (done.exit_code, done.stdout) == (0, "{'nights': 2, 'name': '7'} in Oslo\n")


def test_a_secret_is_on_no_screen_while_its_call_waits(command: Command, folder: Path) -> None:
    given = ("--arg", "user=ann", "--arg", "password=hunter2222")
    call_id = command("call", "login", *given).stdout.strip()
    for arguments in (
        ("pending",),
        ("pending", "--json"),
        ("log",),
        ("log", "--json"),
        ("log", call_id),
    ):
        done = command(*arguments)
        assert "ann" in done.stdout
        assert "hunter2222" not in done.stdout
    terminal = Terminal("call", "login", *given, cwd=folder)
    try:
        terminal.wait_for("Run it?")
        terminal.type("e\n")
        terminal.wait_for("user [")
        terminal.type("bob\n")
        terminal.wait_for("password [")
        terminal.type("\n")
        terminal.wait_for("Run it?")
        terminal.type("y\n")
        terminal.wait_for("bob came in with 10 letters")
        assert "hunter2222" not in terminal.raw
    finally:
        terminal.close()
    done = command("approve", call_id, "tools.py", "--arg", "user=bob")
    assert done.stdout == "bob came in with 10 letters\n"
