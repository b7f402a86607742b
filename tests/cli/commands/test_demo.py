"""The demo, in a pipe and on a terminal."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.terminal import SECONDS, Terminal, wieldy


@pytest.fixture(scope="module")
def piped() -> subprocess.CompletedProcess[str]:
    """The demo in a pipe, run once."""
    return wieldy("demo")


def test_the_demo_answers_for_itself_in_a_pipe(piped: subprocess.CompletedProcess[str]) -> None:
    assert (piped.returncode, piped.stderr) == (0, "")
    for text in (
        "send_mail",
        "'required': ['city']",
        "page 4: 480 words",
        "100%",
        "'kind': 'integer_from_text'",
        "the demo approves the call",
        "sent 'Lunch' to team@example.com",
        "/etc is not for tools",
        "did not finish within 0.4 s",
        "abandoned  True",
        "late    True",
        "{'take': True}",
        "requests  2",
        "What to try next",
    ):
        assert text in piped.stdout, text


def test_the_demo_in_a_pipe_is_plain_text_of_80_columns(
    piped: subprocess.CompletedProcess[str],
) -> None:
    lines = piped.stdout.splitlines()

    assert [line for line in lines if "\x1b" in line] == []
    assert [line for line in lines if len(line) > 80] == []


def test_the_demo_shows_what_an_ascii_terminal_can() -> None:
    done = wieldy("demo", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_program_that_the_demo_suggests_runs(piped: subprocess.CompletedProcess[str]) -> None:
    shown = piped.stdout.partition("What to try next\n")[2]
    program = "\n".join(
        line.removeprefix("  ") for line in shown.splitlines() if line[:2] in ("  ", "")
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal("demo")
    yield terminal
    terminal.close()


def test_on_a_terminal_the_demo_waits_and_asks(terminal: Terminal) -> None:
    terminal.go_on(4)
    terminal.wait_for("yes, no or edit: ")
    terminal.type("perhaps\n")
    terminal.wait_for("yes, no or edit: ")
    terminal.type("yes\n")
    terminal.wait_for("sent 'Lunch' to team@example.com")
    terminal.wait_for("approved by you")
    terminal.go_on(3)
    terminal.wait_for("What to try next")
    assert terminal.ends_with() == 0


def test_a_call_that_the_person_denies_is_not_run(terminal: Terminal) -> None:
    terminal.go_on(4)
    terminal.wait_for("yes, no or edit: ")
    terminal.type("n\n")
    shown = terminal.wait_for("Enter to go on")
    assert "denied by you" in shown
    assert "sent" not in shown


def test_edited_arguments_are_checked_and_run(terminal: Terminal) -> None:
    terminal.go_on(4)
    terminal.wait_for("yes, no or edit: ")
    terminal.type("edit\n")
    terminal.wait_for("to [team@example.com]: ")
    terminal.type("nobody\n")
    terminal.wait_for("subject [Lunch]: ")
    terminal.type("\n")
    terminal.wait_for("still parked")
    terminal.wait_for("yes, no or edit: ")
    terminal.type("edit\n")
    terminal.wait_for("to [team@example.com]: ")
    terminal.type("ann@example.com\n")
    terminal.wait_for("subject [Lunch]: ")
    terminal.type("Tea\n")
    terminal.wait_for("sent 'Tea' to ann@example.com")


@pytest.mark.parametrize("moment", ["Enter to go on", "page 1: 120 words"])
def test_an_interrupted_demo_stops_without_a_traceback(terminal: Terminal, moment: str) -> None:
    terminal.go_on(2 if moment.startswith("page") else 0)
    terminal.wait_for(moment)
    assert "Traceback" not in terminal.interrupt()
    assert terminal.ends_with() == 130


def test_the_end_of_input_stops_the_demo(terminal: Terminal) -> None:
    terminal.wait_for("Enter to go on")
    terminal.type("\x04")
    terminal.wait_for("Stopped.")
    assert terminal.ends_with() == 130
