"""One call from the command line: its arguments, its output, its approval, its exit code."""

import getpass
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal, wieldy

Start = Callable[..., Terminal]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts commands on terminals, and ends them all."""
    started = []

    def begin(*arguments: str, columns: int = 80) -> Terminal:
        terminal = Terminal(*arguments, columns=columns, cwd=folder)
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.close()


LOUD = '''
import subprocess, sys
from wieldy import Toolbox

box = Toolbox(store="sqlite:///wieldy.db")


@box.tool(permission="confirm")
def shout() -> str:
    """Shout."""
    sys.__stdout__.write("by itself\\n")
    subprocess.run(["echo", "by its program"], check=True)
    return "done"
'''


def test_the_result_is_on_stdout_and_nothing_else(command: Command) -> None:
    done = command("call", "add", "--arg", "a=1")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "3.0\n", "")


def test_arguments_are_read_by_the_tool_s_schema(command: Command, folder: Path) -> None:
    (folder / "note.txt").write_text("from a file")
    cases: dict[tuple[str, ...], dict[str, Any]] = {
        ("text=1",): {"text": "1"},
        ("text=null", "more=null"): {"text": "null", "more": None},
        ("text=a=b", "more=[1, 2]"): {"text": "a=b", "more": [1, 2]},
        ("text=@note.txt", "more=plain"): {"text": "from a file", "more": "plain"},
        ("text=@@home", "more=true"): {"text": "@home", "more": True},
        ("text=", 'tags=["a"]', "tags=b"): {"text": "", "tags": ["a", "b"]},
    }
    for pairs, expected in cases.items():
        given = [piece for pair in pairs for piece in ("--arg", pair)]
        done = command("call", "echo", *given)
        assert json.loads(done.stdout) == {"more": None, "tags": None} | expected, done.stderr


def test_arguments_may_be_json_and_a_pair_counts_more(command: Command, folder: Path) -> None:
    done = command(
        "call", "echo", "--arguments", '{"text": "a", "more": {"x": 1}}', "--arg", "text=b"
    )
    assert json.loads(done.stdout) == {"text": "b", "more": {"x": 1}, "tags": None}
    (folder / "arguments.json").write_text('{"a": 5}')
    assert command("call", "add", "--arguments", "@arguments.json").stdout == "7.0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--arg", "texts=1"), "There is no argument 'texts'. Did you mean 'text'?"),
        (("--arg", "zzz=1"), "The arguments are: text, more, tags."),
        (("--arg", "text"), "--arg takes name=value, not 'text'."),
        (("--arg", "text=1", "--arg", "text=2"), "'text' is given twice"),
        (("--arg", "text=@nowhere"), "'nowhere' can't be read"),
        (("--arguments", "{"), "this is not JSON"),
        (("--arguments", "[1]"), "takes a JSON object, not list"),
        (("--timeout", "0"), "--timeout takes a number of seconds greater than 0."),
    ],
)
def test_arguments_that_cannot_be_read_are_a_usage_error(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    done = command("call", "echo", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_call_that_fails_exits_with_1_and_says_why_on_stderr(command: Command) -> None:
    done = command("call", "fail", "--arg", "why=not today")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "RuntimeError: not today" in done.stderr
    # What a tool prints by itself is not its result.
    assert "printed by the tool" in done.stderr
    invalid = command("call", "add", "--arg", "a=x")
    assert invalid.exit_code == 1
    assert "Invalid arguments for add" in invalid.stderr


def test_the_outcome_is_json_for_programs(command: Command) -> None:
    done = command("call", "add", "--arg", "a=1", "--json")
    outcome = json.loads(done.stdout)
    assert (outcome["state"], outcome["value"], outcome["error"]) == ("ok", 3.0, None)
    failed = command("call", "fail", "--arg", "why=x", "--json")
    outcome = json.loads(failed.stdout)
    assert (failed.exit_code, outcome["state"]) == (1, "error")
    assert outcome["error"] == "RuntimeError: x"


def test_what_streams_is_joined_as_the_model_would_get_it(command: Command) -> None:
    done = command("call", "count", "--arg", "to=3")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "1 2 3 \n", "")


def test_what_is_not_text_is_named(command: Command) -> None:
    done = command("call", "picture")
    assert done.stdout == "[image/png, 6 bytes]\n[resource: file:///a.txt]\n"


def test_a_call_is_stopped_after_its_time(command: Command) -> None:
    done = command("call", "hang", "--timeout", "0.2")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "hang did not finish within 0.2 s." in done.stderr
    [entry] = json.loads(command("log", "--json").stdout)
    assert entry["state"] == "interrupted"


def test_in_a_pipe_a_call_that_needs_approval_waits(folder: Path) -> None:
    done = wieldy("call", "wipe", "--arg", "path=a", cwd=folder)
    assert done.returncode == 3
    call_id = done.stdout.strip()
    # A model with a shell reads this.
    assert "A person has to agree" in done.stderr and "wieldy approve" not in done.stderr
    [waiting] = json.loads(wieldy("pending", "--json", cwd=folder).stdout)
    assert (waiting["call_id"], waiting["arguments"]) == (call_id, {"path": "a"})


def test_without_a_store_nothing_waits(command: Command, folder: Path) -> None:
    text = (folder / "tools.py").read_text().replace('store="sqlite:///wieldy.db"', "")
    (folder / "tools.py").write_text(text)
    done = command("call", "wipe", "--arg", "path=a")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "did not run" in done.stderr
    assert command("call", "wipe", "--arg", "path=a", "--yes").stdout == "wiped a 1\n"


def test_yes_is_the_word_of_a_person_at_the_terminal(command: Command, start: Start) -> None:
    words = ("call", "wipe", "--arg", "path=a", "--yes", "--session")
    # Without a terminal it may be a program that says so, of its own call.
    assert command(*words, "none").exit_code == 3
    terminal = start(*words, "s")
    terminal.wait_for("wiped a 1")
    assert terminal.ends_with() == 0
    [entry] = json.loads(command("log", "--session", "s", "--json").stdout)
    assert (entry["state"], entry["decision"]["by"]) == ("ok", getpass.getuser())


def test_on_a_terminal_the_person_is_asked_and_sees_the_arguments(start: Start) -> None:
    terminal = start("call", "wipe", "--arg", "path=a", "--arg", "times=3")
    shown = terminal.wait_for("Run it? y/N/edit: ")
    assert 'path = "a"' in shown
    assert "times = 3" in shown
    terminal.type("perhaps\n")
    terminal.wait_for("Run it? y/N/edit: ")
    terminal.type("y\n")
    terminal.wait_for("wiped a 3")
    assert terminal.ends_with() == 0


def test_an_approved_call_streams(start: Start) -> None:
    terminal = start("call", "slow_wipe", "--arg", "steps=2")
    terminal.wait_for("Run it?")
    terminal.type("yes\n")
    terminal.wait_for("step 1")
    terminal.wait_for("step 2")
    assert terminal.ends_with() == 0


@pytest.mark.parametrize("answer", ["\n", "n\n"])
def test_a_no_denies_the_call(start: Start, command: Command, answer: str) -> None:
    terminal = start("call", "wipe", "--arg", "path=a")
    terminal.wait_for("Run it?")
    terminal.type(answer)
    terminal.wait_for("was denied: the caller said no")
    assert terminal.ends_with() == 1
    [entry] = json.loads(command("log", "--json").stdout)
    assert entry["state"] == "denied"


def test_arguments_can_be_edited_before_the_call_runs(start: Start) -> None:
    terminal = start("call", "wipe", "--arg", "path=a")
    terminal.wait_for("Run it?")
    terminal.type("edit\n")
    terminal.wait_for('path ["a"]: ')
    terminal.type("b\n")
    terminal.wait_for("times []: ")
    terminal.type("many\n")
    terminal.wait_for("Run it?")
    terminal.type("y\n")
    terminal.wait_for("Invalid arguments")
    terminal.wait_for("Run it?")
    terminal.type("e\n")
    terminal.wait_for('path ["a"]: ')
    terminal.type("c\n")
    terminal.wait_for("times []: ")
    terminal.type("\n")
    assert 'path = "c"' in terminal.wait_for("Run it?")
    terminal.type("y\n")
    terminal.wait_for("wiped c 1")
    assert terminal.ends_with() == 0


def test_a_question_that_is_left_keeps_the_call_waiting(start: Start, command: Command) -> None:
    terminal = start("call", "wipe", "--arg", "path=a")
    terminal.wait_for("Run it?")
    assert "Traceback" not in terminal.interrupt()
    assert terminal.ends_with() == 130
    [waiting] = json.loads(command("pending", "--json").stdout)
    assert waiting["state"] == "pending"


def test_a_running_call_is_interrupted_and_recorded_as_that(start: Start, command: Command) -> None:
    terminal = start("call", "count", "--arg", "to=5000")
    terminal.wait_for("1 ")
    assert "Traceback" not in terminal.interrupt()
    assert terminal.ends_with() == 130
    [entry] = json.loads(command("log", "--json").stdout)
    assert entry["state"] == "interrupted"


def test_a_terminal_shows_progress(start: Start) -> None:
    terminal = start("call", "count", "--arg", "to=20")
    terminal.wait_for("counting")
    terminal.wait_for("20 ")
    assert terminal.ends_with() == 0


def test_on_a_terminal_the_person_answers_what_a_tool_asks(start: Start) -> None:
    terminal = start("call", "book", "--arg", "city=Oslo")
    terminal.wait_for("How many nights?")
    terminal.wait_for("nights: ")
    terminal.type("3\n")
    terminal.wait_for("name (optional): ")
    terminal.type("\n")
    terminal.wait_for("{'nights': 3} in Oslo")
    assert terminal.ends_with() == 0


def test_what_a_program_of_a_tool_prints_is_no_part_of_the_result(folder: Path, ann: str) -> None:
    (folder / "loud.py").write_text(LOUD)
    for command in (["call", "shout", "loud.py"], ["approve", "call_", "loud.py"]):
        done = wieldy(*command, "--json", cwd=folder)
        assert json.loads(done.stdout)["tool"] == "shout"
    assert json.loads(done.stdout)["value"] == "done"
    assert {"by itself", "by its program"} <= set(done.stderr.splitlines())
    called = wieldy("call", "shout", "loud.py", cwd=folder)
    shown = wieldy("approve", called.stdout.strip(), "loud.py", cwd=folder)
    assert (shown.returncode, shown.stdout) == (0, "done\n")


def test_blocks_are_written_to_files_of_our_own_naming(command: Command, folder: Path) -> None:
    (folder / "draw.py").write_text("""
from wieldy import Image, Text, Toolbox

box = Toolbox()


@box.tool
def draw() -> list:
    return [Text("a picture"), Image(b"png", "image/png"), Image(b"odd", "../../evil")]
""")

    done = command("call", "draw", "draw.py", "--out", "shown")

    assert done.exit_code == 0, done.output
    written = {file.name: file.read_bytes() for file in (folder / "shown").iterdir()}
    assert written == {"001.txt": b"a picture", "002.png": b"png", "003.bin": b"odd"}
