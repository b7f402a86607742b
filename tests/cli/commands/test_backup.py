"""Copying a store into a file and back, on the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Command


def test_a_store_is_copied_and_restored(command: Command, folder: Path) -> None:
    command("call", "echo", "--arg", "text=tea")
    command("call", "wipe", "--arg", "path=a")
    copied = command("backup", "copy.backup", "--json")
    assert (copied.exit_code, json.loads(copied.stdout)["rows"]) == (0, 2)
    again = command("backup", "copy.backup")
    assert (again.exit_code, "there already" in again.stderr) == (2, True)

    other = ("--store", "sqlite:///other.db")
    restored = command("restore", "copy.backup", *other)
    assert (restored.exit_code, "Restored 2 rows" in restored.stdout) == (0, True)
    listed = json.loads(command("log", "--json", *other).stdout)
    assert {(each["tool"], each["state"]) for each in listed} == {
        ("echo", "ok"),
        ("wipe", "pending"),
    }
    full = command("restore", "copy.backup", *other)
    assert (full.exit_code, "not empty" in full.stderr) == (2, True)


def test_a_damaged_file_makes_no_store(command: Command, folder: Path) -> None:
    (folder / "copy.backup").write_text('{"kind": "wieldy backup"')
    done = command("restore", "copy.backup", "--store", "sqlite:///other.db")
    assert (done.exit_code, "cut short" in done.stderr) == (2, True)
    assert not (folder / "other.db").exists()


def test_there_has_to_be_a_store(command: Command, folder: Path) -> None:
    done = command("backup", "copy.backup", "--store", "sqlite:///nowhere.db")
    assert (done.exit_code, "no store at nowhere.db" in done.stderr) == (2, True)
    assert not (folder / "nowhere.db").exists()
    assert not (folder / "copy.backup").exists()
