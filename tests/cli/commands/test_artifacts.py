"""Artifacts from the command line: listed, read, compared."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from wieldy import Toolbox


@pytest.fixture
def kept(folder: Path) -> None:
    async def write() -> None:
        box: Any = Toolbox(store="sqlite:///wieldy.db")
        async with box:
            artifacts = box.artifacts
            await artifacts.create("plan", "one\ntwo\n", title="The [b]plan[/b]")
            await artifacts.update("plan", "two", "three")
            await artifacts.create("note", "\x1b[2Jhello", session="monday")

    asyncio.run(write())


def test_artifacts_of_all_sessions_are_listed_or_those_of_one(command: Command, kept: None) -> None:
    done = command("artifacts")
    assert done.exit_code == 0
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [
        ["artifact", "version", "session"],
        ["note", "1", "monday"],
        ["plan", "2", "markdown"],
    ]
    assert "The [b]plan[/b]" in done.stdout
    [note] = json.loads(command("artifacts", "--session", "monday", "--json").stdout)
    assert (note["id"], note["session"]) == ("note", "monday")


def test_a_cut_list_says_that_it_is_cut(command: Command, kept: None) -> None:
    done = command("artifacts", "--limit", "1", "--json")
    assert [each["id"] for each in json.loads(done.stdout)] == ["note"]
    assert "The newest 1 are shown" in done.stderr
    whole = command("artifacts", "--limit", "0", "--json")
    assert (len(json.loads(whole.stdout)), whole.stderr) == (2, "")


def test_one_artifact_is_its_text(command: Command, kept: None) -> None:
    assert command("artifacts", "plan").stdout == "one\nthree\n"
    assert command("artifacts", "plan", "--version", "1").stdout == "one\ntwo\n"
    assert command("artifacts", "note", "--session", "monday").stdout == "\\x1b[2Jhello\n"
    whole = json.loads(command("artifacts", "plan", "--json").stdout)
    assert (whole["content"], whole["version"]) == ("one\nthree\n", 2)


def test_a_handle_from_the_log_is_followed_wherever_it_leads(command: Command, kept: None) -> None:
    assert command("artifacts", "artifact://plan@1").stdout == "one\ntwo\n"
    assert command("artifacts", "artifact://plan@1", "--version", "2").stdout == "one\nthree\n"
    assert command("artifacts", "artifact://note@1").stdout == "\\x1b[2Jhello\n"
    for reference in ("plan", "artifact://plan@1"):
        wrong = command("artifacts", reference, "--version", "0")
        assert (wrong.exit_code, "has no version 0" in wrong.stderr) == (2, True)
    assert len(command("artifacts", "note", "--versions").stdout.splitlines()) == 2


def test_an_id_that_several_sessions_have_needs_one(command: Command, folder: Path) -> None:
    async def write() -> None:
        async with Toolbox(store="sqlite:///wieldy.db") as box:
            for session in ("monday", "tuesday"):
                await box.artifacts.create("note", session, session=session)

    asyncio.run(write())
    done = command("artifacts", "note")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "More than one session has 'note', such as 'tuesday', 'monday'" in done.stderr
    assert command("artifacts", "note", "--session", "monday").stdout == "monday\n"


def test_history_and_difference(command: Command, kept: None) -> None:
    history = json.loads(command("artifacts", "plan", "--versions", "--json").stdout)
    assert [each["version"] for each in history] == [1, 2]
    assert len(command("artifacts", "plan", "--versions").stdout.splitlines()) == 3
    shown = command("artifacts", "plan", "--diff", "1").stdout.splitlines()
    assert "-two" in shown
    assert "+three" in shown
    assert "-three" in command("artifacts", "plan", "--diff", "2..1").stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("plam",),
            "No session has an artifact 'plam' in sqlite:///wieldy.db. `wieldy",
        ),
        (("plan", "--version", "9"), "9"),
        (("plan", "--diff", "one"), "--diff takes one version or two"),
        (("--versions",), "need the id of an artifact"),
        (("--limit", "-1"), "--limit takes a number"),
    ],
)
def test_a_wrong_question_is_a_usage_error(
    command: Command, kept: None, arguments: tuple[str, ...], said: str
) -> None:
    done = command("artifacts", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_no_artifacts_are_said(command: Command, kept: None) -> None:
    done = command("artifacts", "--session", "tuesday")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "There are no artifacts in session " in done.stderr
