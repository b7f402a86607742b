"""What the shell offers after Tab."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import wieldy


def completed(folder: Path, line: str) -> list[str]:
    """What bash is told for the last word of a line."""
    words = line.split(" ")
    done = wieldy(
        cwd=folder,
        _WIELDY_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("wieldy log --state unk", ["unknown"]),
        ("wieldy describe add --provider gem", ["gemini", "gemini-openapi"]),
        ("wieldy describe ad", ["add"]),
        ("wieldy call add to", ["tools.py"]),
        ("wieldy appr", ["approve"]),
        ("wieldy settle call_", []),
    ],
)
def test_words_are_completed(folder: Path, line: str, offered: list[str]) -> None:
    assert completed(folder, line) == offered


def test_calls_and_tools_of_the_store_are_completed(folder: Path, command: Command) -> None:
    call_id = command("call", "wipe", "--arg", "path=a").stdout.strip()
    for line in ("wieldy approve call_", "wieldy deny ", "wieldy log call_"):
        assert completed(folder, line) == [call_id]
    assert completed(folder, "wieldy log --tool w") == ["wipe"]


def test_a_source_that_fails_completes_to_nothing(folder: Path) -> None:
    (folder / "tools.py").write_text("print('x'); raise SystemExit('no')")
    assert completed(folder, "wieldy call a") == []
    assert completed(folder, "wieldy approve call_") == []


def test_completion_can_be_installed(folder: Path) -> None:
    done = wieldy(
        "--show-completion",
        "bash",
        cwd=folder,
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    assert done.returncode == 0
    assert "_WIELDY_COMPLETE=complete_bash" in done.stdout
    installed = wieldy(
        "--install-completion",
        "bash",
        cwd=folder,
        HOME=str(folder),
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    assert installed.returncode == 0
    assert "wieldy" in (folder / ".bashrc").read_text()
