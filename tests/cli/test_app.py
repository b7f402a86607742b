"""The command itself: its version, its help, and what it says without its extra."""

import inspect
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.terminal import SECONDS, wieldy
from wieldy.cli.app import app, demo, init, show_docs
from wieldy.cli.token_app import token_app


def test_version_is_the_package_s() -> None:
    done = wieldy("--version")
    assert (done.returncode, done.stdout) == (0, f"wieldy {version('wieldy')}\n")


@pytest.mark.parametrize("arguments", [("--help",), ()])
def test_help_lists_the_commands(arguments: tuple[str, ...]) -> None:
    done = wieldy(*arguments)
    assert done.returncode == 0
    assert "demo" in done.stdout


def test_the_first_commands_are_those_to_begin_with() -> None:
    assert [each.callback for each in app.registered_commands[:3]] == [demo, show_docs, init]


def test_a_command_is_described_in_one_line_first() -> None:
    commands = [*app.registered_commands, *token_app.registered_commands]
    described = [inspect.getdoc(each.callback) or "" for each in commands]
    assert [text for text in described if not text.partition("\n\n")[0].endswith(".")] == []
    assert [text for text in described if "\n" in text.partition("\n\n")[0]] == []


def test_an_unknown_command_fails_and_names_a_near_one() -> None:
    done = wieldy("dmeo")
    assert done.returncode != 0
    assert "No such command 'dmeo'" in done.stderr
    assert "'demo'" in done.stderr


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_extra_the_command_names_the_install(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None\nfrom wieldy.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 1
    assert 'pip install "wieldy[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_loads_only_what_it_needs() -> None:
    heavy = "sqlalchemy", "mcp", "starlette", "httpx2", "openai", "wieldy.agent", "wieldy.server"
    program = f"""
import sys
sys.argv = ["wieldy", "--version"]
from wieldy.cli import main
try:
    main()
except SystemExit:
    print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.stdout.splitlines()[1:] == ["[]"], done.stdout + done.stderr
