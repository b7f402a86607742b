"""The tools of the sources, as a table, whole, and for a provider."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command


def test_list_shows_name_group_permission_source_and_first_line(command: Command) -> None:
    done = command("list")
    assert done.exit_code == 0
    lines = [line.split(None, 4) for line in done.stdout.splitlines()]
    assert lines[0] == ["name", "group", "permission", "source", "description"]
    assert lines[1] == ["add", "basic", "auto", "tools.py", "Add two numbers."]
    assert lines[3] == ["wipe", "files", "confirm", "tools.py", "Wipe a path."]


def test_list_gives_json_for_programs(command: Command) -> None:
    listed = json.loads(command("list", "tools.py", "--json").stdout)
    assert listed[0] == {
        "name": "add",
        "description": "Add two numbers.",
        "group": "basic",
        "tags": ["math"],
        "permission": "auto",
        "asks_because": None,
        "source": "tools.py",
        "server": None,
    }


def test_describe_says_all_about_a_tool(command: Command) -> None:
    done = command("describe", "add")
    assert done.exit_code == 0
    for text in ("read-only", "math", "a ", "number", "the first one", "2", '"required"'):
        assert text in done.stdout
    whole = json.loads(command("describe", "add", "tools.py", "--json").stdout)
    assert whole["input_schema"]["required"] == ["a"]
    assert whole["traits"]["read_only"] is True


def test_describe_gives_a_provider_s_definition(command: Command) -> None:
    definition = json.loads(command("describe", "add", "--provider", "anthropic").stdout)
    assert (definition["name"], definition["input_schema"]["required"]) == ("add", ["a"])
    strict = json.loads(command("describe", "add", "--provider", "openai", "--strict").stdout)
    assert strict["function"]["strict"] is True
    wrong = command("describe", "add", "--provider", "opnai")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "Did you mean: openai" in wrong.stderr


@pytest.mark.parametrize("arguments", [("describe", "ad"), ("call", "ad", "--arg", "a=1")])
def test_a_wrong_name_is_answered_with_a_near_one(
    command: Command, arguments: tuple[str, ...]
) -> None:
    done = command(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "There is no tool named 'ad'. Did you mean 'add'?" in done.stderr


def test_without_a_source_the_command_says_what_to_name(command: Command, folder: Path) -> None:
    (folder / "tools.py").unlink()
    done = command("list")
    assert done.exit_code == 2
    assert "No SOURCE is named" in done.stderr
    assert "WIELDY_SOURCE" in done.stderr


def test_the_source_may_come_from_the_environment(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tools.py").rename(folder / "my tools.py")
    monkeypatch.setenv("WIELDY_SOURCE", "'my tools.py'")
    assert "my tools.py" in command("list").stdout


def test_a_tool_that_is_switched_off_is_hinted_at(command: Command, folder: Path) -> None:
    text = (folder / "tools.py").read_text()
    (folder / "tools.py").write_text(text + '\n\nbox.groups.deactivate("files")\n')
    done = command("call", "wipe", "--arg", "path=a")
    assert done.exit_code == 2
    assert "These groups are not active: files." in done.stderr
