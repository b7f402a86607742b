"""`wieldy explain`: what would become of a call, and why."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command


def test_it_says_what_would_happen_why_and_what_a_person_would_be_asked(
    command: Command, folder: Path
) -> None:
    done = command("explain", "wipe", "--arg", "path=a", "--arg", "times=2")

    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        "A person would be asked.",
        "because   the tool asks for confirmation",
        'question  May wipe with {"path":"a","times":2} run? It needs approval: the tool asks '
        "for confirmation",
    ]


def test_it_is_json_for_programs(command: Command, folder: Path) -> None:
    done = command("explain", "add", "--arg", "a=1", "--json")

    assert json.loads(done.stdout) == {
        "tool": "add",
        "decision": "run",
        "because": "nothing holds it back",
        "matched": [],
        "question": None,
        "limits": [],
    }


def test_the_scope_of_the_call_counts(command: Command, folder: Path) -> None:
    tools = folder / "tools.py"
    tools.write_text(
        tools.read_text()
        + """
box.rules.deny("add", caller="ann", reason="not for ann")
box.rules.ask("add", session="s", agent="mailer")
box.set_mode("read-only", session="locked")
"""
    )

    def decided(*options: str) -> tuple[str, str]:
        told = json.loads(command("explain", "add", "--arg", "a=1", "--json", *options).stdout)
        return told["decision"], told["because"]

    assert decided("--caller", "ann") == ("deny", "not for ann")
    assert decided("--session", "s") == ("run", "nothing holds it back")
    assert decided("--session", "s", "--agent", "mailer") == ("ask", "the rule ask 'add'")
    told = command("explain", "add", "--arg", "a=1", "--caller", "ann").stdout
    assert "It would be denied." in told and "matched  deny 'add'" in told
    done = command("explain", "echo", "--arg", "text=a", "--session", "locked")
    assert "only read-only tools may run" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("ad",), 2, "Did you mean"),
        (("add", "--arg", "a=many"), 2, "Invalid arguments for add"),
        (("add", "--arg", "x=1"), 2, "There is no argument 'x'"),
        (("add",), 2, "a: missing"),
    ],
)
def test_what_can_not_be_called_is_said(
    command: Command, folder: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = command("explain", *arguments)
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr


def test_nothing_is_run_or_recorded(command: Command, folder: Path) -> None:
    command("explain", "wipe", "--arg", "path=a")
    assert json.loads(command("log", "--json").stdout) == []


def test_it_knows_which_sessions_have_something_from_outside_in_them(
    command: Command, folder: Path
) -> None:
    tools = folder / "tools.py"
    tools.write_text(
        tools.read_text()
        + """
box.add(lambda: "news", name="fetch", untrusted=True)
box.rules.deny("add", untrusted=True, reason="a page was read")
"""
    )
    fetched = command("call", "fetch", "--session", "s")
    assert fetched.exit_code == 0, fetched.stderr

    for session, decision in (("s", "deny"), ("t", "run")):
        asked = ("explain", "add", "--arg", "a=1", "--session", session, "--json")
        told = json.loads(command(*asked).stdout)
        assert told["decision"] == decision
        assert [rule["untrusted"] for rule in told["matched"]] == [True] * (decision == "deny")
