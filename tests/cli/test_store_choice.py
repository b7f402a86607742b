"""The store of a source is found by naming the source, and messages name the store in use."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import make_token
from wieldy import Toolbox
from wieldy.cli.store_choice import StoreChoice


@pytest.fixture
def elsewhere(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a call that waits in a store that only its source knows."""
    text = (folder / "tools.py").read_text().replace("sqlite:///wieldy.db", "sqlite:///kept.db")
    (folder / "mine.py").write_text(text)
    (folder / "tools.py").unlink()
    monkeypatch.setenv("WIELDY_TOKEN", make_token(folder, file="kept.db"))
    return command("call", "wipe", "mine.py", "--arg", "path=a").stdout.strip()


def test_a_source_s_store_is_found_by_naming_the_source(
    folder: Path, command: Command, elsewhere: str
) -> None:
    [parked] = json.loads(command("pending", "--source", "mine.py", "--json").stdout)
    assert parked["call_id"] == elsewhere
    [entry] = json.loads(command("log", "--source", "mine.py", "--json").stdout)
    assert entry["call_id"] == elsewhere
    assert command("log", elsewhere, "--source", "mine.py:box").exit_code == 0
    assert command("artifacts", "--source", "mine.py").exit_code == 0
    denied = command("deny", elsewhere[:20], "--source", "mine.py")
    assert (denied.exit_code, denied.stdout[:7]) == (0, "Denied ")
    assert not (folder / "wieldy.db").exists()


def test_approve_and_recover_take_their_source_as_an_option_too(
    command: Command, elsewhere: str
) -> None:
    done = command("approve", elsewhere, "--source", "mine.py")
    assert (done.exit_code, done.stdout) == (0, "wiped a 1\n")
    again = command("recover", "--source", "mine.py")
    assert again.exit_code == 0
    assert "No interrupted call in sqlite:///kept.db can run again without your consent." in (
        again.stderr
    )


def test_settle_finds_the_store_of_a_source(command: Command, elsewhere: str) -> None:
    done = command("settle", elsewhere, "ok", "--source", "mine.py")
    # It waits, so there is nothing to settle; the call itself was found.
    assert done.exit_code == 2
    assert "There is no call" not in done.stderr


def test_a_call_that_waits_says_where_a_person_finds_it(
    folder: Path, command: Command, elsewhere: str
) -> None:
    done = command("call", "wipe", "mine.py", "--arg", "path=b")
    call_id = done.stdout.strip()
    assert "The call waits in sqlite:///kept.db" in done.stderr
    assert "finds it with `wieldy pending --source mine.py`." in done.stderr
    assert command("approve", call_id, "mine.py").stdout == "wiped b 1\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("deny", "nothing", "--source", "mine.py"), "`wieldy pending --source mine.py` lists"),
        (("log", "nothing", "--source", "mine.py"), "`wieldy log --source mine.py` lists"),
        (("log", "nothing", "--store", "sqlite:///kept.db"), "--store sqlite:///kept.db` lists"),
        (
            ("settle", "nothing", "ok", "--source", "mine.py"),
            "`wieldy log --state unknown --source mine.py` lists",
        ),
        (("artifacts", "nothing", "--source", "mine.py"), "`wieldy artifacts --source mine.py`"),
    ],
)
def test_a_hint_works_on_the_same_store(
    command: Command, elsewhere: str, words: tuple[str, ...], said: str
) -> None:
    done = command(*words)
    assert done.exit_code == 2
    assert "'nothing' in sqlite:///kept.db." in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("box = Toolbox()", (), "keeps its calls in memory"),
        ('box = Toolbox(store="sqlite:///no.db")', (), "There is no store at no.db."),
        ('box = Toolbox(store="sqlite:///no.db").view()', (), "is a view of a toolbox"),
        ("box = Toolbox()", ("--store", "sqlite:///a.db"), "Give --store or --source"),
    ],
)
def test_a_source_without_a_store_is_said_and_none_is_made(
    folder: Path, command: Command, text: str, options: tuple[str, ...], said: str
) -> None:
    (folder / "other.py").write_text(f"from wieldy import Toolbox\n{text}\n")
    for words in (
        ("pending",),
        ("log",),
        ("log", "--follow"),
        ("deny", "x"),
        ("settle", "x", "ok"),
    ):
        done = command(*words, "--source", "other.py", *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in done.stderr
    assert [*folder.glob("*.db")] == []


def test_a_source_that_is_no_python_has_the_store_that_is_here(
    folder: Path, command: Command
) -> None:
    command("call", "wipe", "--arg", "path=a")
    [parked] = json.loads(command("pending", "--source", "mcp.json", "--json").stdout)
    assert parked["tool"] == "wipe"


def test_without_any_store_the_three_ways_to_name_one_are_said(command: Command) -> None:
    said = command("pending").stderr
    for way in ("--store", "WIELDY_STORE", "--source"):
        assert way in said


def test_a_store_that_can_t_be_opened_is_named(folder: Path, command: Command) -> None:
    (folder / "broken.db").write_bytes(b"this is no database" * 100)
    done = command("log", "--store", "sqlite:///broken.db")
    assert done.exit_code == 2
    assert "The store in use is sqlite:///broken.db." in done.stderr


def test_an_address_is_shown_without_its_password() -> None:
    url = "postgresql://ann:hunter22@db.example.com/calls?password=hunter22"
    choice = StoreChoice(url)
    shown = "postgresql://ann:***@db.example.com/calls"
    assert choice.command("log") == f"`wieldy log --store '{shown}'`"

    async def address() -> str:
        async with Toolbox(store=url) as box:
            return box.store.address

    assert asyncio.run(address()) == shown
