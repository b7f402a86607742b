"""What shells and terminals expect of any command: `-h`, `NO_COLOR`, a pipe that is closed."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import SECONDS, Terminal, wieldy
from tests.forking.launch_files import WIELDY
from wieldy.cli.app import app

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]  # type: ignore[union-attr]
_STYLED = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_short_option_for_help(command: Command, name: str) -> None:
    done = command(name, "-h")
    assert (done.exit_code, done.stdout) == (0, command(name, "--help").stdout)


def test_the_command_itself_has_it_too() -> None:
    assert wieldy("-h").stdout == wieldy("--help").stdout


@pytest.fixture
def unread() -> Iterator[int]:
    """The writing end of a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(
    "words",
    [
        ("log",),
        ("log", "--json"),
        ("list",),
        ("describe", "add", "--json"),
        ("call", "count", "--arg", "to=3"),
        ("call", "add", "--arg", "a=1", "--json"),
        ("pending",),
        ("check",),
        ("--help",),
        ("list", "-h"),
        ("--version",),
        ("demo",),
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_no_error(
    folder: Path, command: Command, unread: int, words: tuple[str, ...]
) -> None:
    command("call", "wipe", "--arg", "path=a")
    done = subprocess.run(
        [WIELDY, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=unread,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("--help",)], ids=" ".join)
def test_output_that_can_not_be_written_is_one_line_and_no_traceback(
    folder: Path, words: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [WIELDY, *words],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
        )
    said = "The output can't be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_call_whose_reader_leaves_is_stopped_and_recorded(folder: Path, command: Command) -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{WIELDY} call count --arg to=1000000 | head -c 1"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1", "")
    assert "interrupted" in command("log").stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--help",), "Commands"),
        (("nonsense",), "nonsense"),
        (("list",), "Add two numbers."),
        (("call", "ad"), "Did you mean"),
        (("call", "wipe", "--arg", "path=a"), "Run it?"),
        (("describe", "add"), "the first one"),
        (("demo",), "Enter to go on"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_no_color_means_none_on_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], text: str
) -> None:
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        terminal = Terminal(*words, cwd=folder)
        try:
            terminal.wait_for(text)
            assert bool(_STYLED.search(terminal.raw)) is (not value)
        finally:
            terminal.close()


def test_a_traceback_is_shown_when_asked_for(folder: Path, command: Command) -> None:
    plain = command("call", "fail", "--arg", "why=late")
    assert "Traceback" not in plain.stderr
    done = command("call", "fail", "--arg", "why=late", "--traceback")
    assert done.exit_code == 1
    shown = done.stderr.partition("Traceback (most recent call last):\n")[2].splitlines()
    # The first frame is the tool's own, not one of ours.
    assert shown[0].startswith('  File "tools.py", line ')
    assert shown[1] == "    raise RuntimeError(why)"
    assert shown[-1] == "RuntimeError: late"
    as_json = command("call", "fail", "--arg", "why=late", "--traceback", "--json")
    assert "raise RuntimeError(why)" in as_json.stderr
    assert "Traceback" not in as_json.stdout


def test_a_traceback_of_an_approved_call_is_shown_and_none_that_tells_a_secret(
    folder: Path, command: Command, ann: str
) -> None:
    (folder / "risky.py").write_text(
        "from wieldy import Secret, Toolbox\n"
        'box = Toolbox(store="sqlite:///wieldy.db")\n'
        '@box.tool(permission="confirm")\n'
        "def enter(password: Secret) -> None:\n"
        '    """Enter."""\n'
        "    raise RuntimeError(password.get_secret_value())\n"
        '@box.tool(permission="confirm")\n'
        "def leave() -> None:\n"
        '    """Leave."""\n'
        '    raise RuntimeError("no door")\n'
    )
    secret = command("call", "enter", "risky.py", "--arg", "password=hunter2222")
    told = command("approve", secret.stdout.strip(), "risky.py", "--traceback")
    assert "it contains a secret" in told.stderr
    assert "hunter2222" not in told.stderr
    plain = command("call", "leave", "risky.py")
    told = command("approve", plain.stdout.strip(), "risky.py", "--traceback")
    assert 'raise RuntimeError("no door")' in told.stderr
