"""The command as people and scripts meet it: in a pipe, on a terminal, without its extra."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

WIELDY = str(Path(sys.executable).parent / "wieldy")
SECONDS = 60
_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def _environment(**more: str) -> dict[str, str]:
    forced = {"FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"}
    kept = {name: value for name, value in os.environ.items() if name not in forced}
    return {**kept, "TERM": "xterm-256color", **more}


def wieldy(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [WIELDY, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=_environment(**environment),
        timeout=SECONDS,
    )


def test_version_is_the_package_s() -> None:
    done = wieldy("--version")
    assert (done.returncode, done.stdout) == (0, f"wieldy {version('wieldy')}\n")


@pytest.mark.parametrize("arguments", [("--help",), ()])
def test_help_lists_the_commands(arguments: tuple[str, ...]) -> None:
    done = wieldy(*arguments)
    assert done.returncode == 0
    assert "demo" in done.stdout


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
        "the demo says yes",
        "sent 'Lunch' to team@example.com",
        "/etc is not for tools",
        "did not finish within 0.4 s",
        "abandoned  True",
        "late    True",
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


class Terminal:
    """A demo on a terminal, and the person in front of it."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [WIELDY, "demo"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=_environment(),
            start_new_session=True,
        )
        os.close(theirs)
        self._unread = ""

    def wait_for(self, text: str, seconds: float = SECONDS) -> str:
        """Read until the text is there, and give what came before it."""
        end = time.monotonic() + seconds
        while text not in self._unread:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{text!r} never came; last seen: {self._unread[-500:]!r}")
            try:
                more = os.read(self._ours, 65536).decode("utf-8", "replace")
            except OSError:
                more = ""
            assert more, f"the demo ended before {text!r}: {self._unread[-500:]!r}"
            self._unread = _CODES.sub("", self._unread + more)
        before, _, self._unread = self._unread.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> str:
        """Press Ctrl-C; again, as a person would, if it came between a prompt and its reading."""
        for _ in range(5):
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(TimeoutError):
                return self.wait_for("Stopped.", seconds=5)
        raise TimeoutError("the demo can't be interrupted")

    def go_on(self, times: int) -> None:
        for _ in range(times):
            self.wait_for("Enter to go on")
            self.type("\n")

    def ends_with(self) -> int:
        return self.process.wait(SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)
        os.close(self._ours)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
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
    terminal.go_on(2)
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


TOOLS = '''
from typing import Any
from wieldy import Toolbox

box = Toolbox()


@box.tool
def search(query: str, options: dict[str, Any], page: int = 1) -> str:
    """Search."""
    return query


plain = Toolbox()


@plain.tool
def now() -> str:
    """The time."""
    return "now"
'''


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "my_tools.py"
    path.write_text(TOOLS)
    return str(path)


def test_check_says_per_provider_what_is_lost_or_changed(tools: str) -> None:
    done = wieldy("check", tools, "--strict")
    assert done.returncode == 1
    for line in ("openai strict: 1 tool,", "anthropic strict:", "gemini", "mcp", "JSON text"):
        assert line in done.stdout
    assert "\x1b" not in done.stdout


def test_check_is_content_where_nothing_is_lost(tools: str) -> None:
    done = wieldy("check", f"{tools}:plain", "--provider", "openai", "--strict")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert "as the tools say it" in done.stdout


def test_check_gives_json_for_programs(tools: str) -> None:
    done = wieldy("check", tools, "--provider", "openai", "--provider", "mcp", "--strict", "--json")
    openai, mcp = json.loads(done.stdout)
    assert (openai["provider"], openai["strict"], openai["lost"]) == ("openai", True, True)
    assert {change["path"] for change in openai["tools"]["search"]} == {"options", "page"}
    assert (mcp["provider"], mcp["lost"], mcp["tools"]) == ("mcp", False, {"search": []})
    assert openai["tokens"] > 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere.py", "There is no file nowhere.py."),
        ("no_such_module:box", "no_such_module can't be loaded: ModuleNotFoundError"),
        ("json:box", "json has no toolbox named 'box'. It has no Toolbox at all."),
        ("{tools}:plan", "Did you mean {tools}:plain?"),
    ],
)
def test_check_says_what_is_wrong_with_a_source(tools: str, source: str, said: str) -> None:
    done = wieldy("check", source.format(tools=tools))
    assert (done.returncode, done.stdout) == (2, "")
    assert said.format(tools=tools) in done.stderr.replace("\n", "")


def test_check_shows_what_a_broken_file_raised(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('not today')")
    done = wieldy("check", str(path))
    assert done.returncode == 2
    assert "RuntimeError: not today" in done.stderr


def test_check_names_near_providers(tools: str) -> None:
    done = wieldy("check", tools, "--provider", "opnai")
    assert done.returncode == 2
    assert "Did you mean: openai" in done.stderr
