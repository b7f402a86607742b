"""A run that a signal stops is recorded as interrupted, and the command says how it goes on."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.child_process import ChildProcess
from tests.cli.terminal import SECONDS, Terminal, wieldy
from tests.forking.launch_files import INSTALLED, WIELDY
from wieldy import Toolbox

AGENT = """
import asyncio
import os
from pathlib import Path

from wieldy import Call, Toolbox
from wieldy.agent import Agent
from wieldy.models.model import Answers
from wieldy.testing import ScriptedModel

box = Toolbox(store="sqlite:///wieldy.db")
native = {"tool_strategy": "native", "toolbox": box}


def count_answers(request):
    return sum(isinstance(turn, Answers) for turn in request.turns)


def work(request):
    done = count_answers(request)
    return Call("note", {"n": done}) if done < 3 else "Noted."


def ask_worker(request):
    return "The worker is done." if count_answers(request) else Call("worker", {"query": "Work."})


def buy(request):
    return "Paid." if count_answers(request) else Call("pay", {})


worker = Agent(ScriptedModel(work), name="worker", **native)
lead = Agent(ScriptedModel(ask_worker), name="lead", **native).use_tools(worker)
buyer = Agent(ScriptedModel(buy), name="buyer", **native)


@box.tool(tags=[worker.tag])
async def note(n: int) -> str:
    with open("effects", "a") as effects:
        effects.write(f"{n}\\n")
    if n == 1 and os.path.exists("pipe"):
        with open("pipe", "w") as pipe:
            pipe.write("here")
        await asyncio.Event().wait()
    return f"noted {n}"


@box.tool(tags=[buyer.tag], permission="confirm")
async def pay() -> str:
    return "paid"
"""
_RESUME = re.compile(r"`wieldy run (\S+) --resume (\w+)` continues the run")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with agents in a file, and a pipe into which one of their tools writes."""
    (tmp_path / "agent.py").write_text(AGENT)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@contextmanager
def asking(place: Path, *words: str) -> Iterator["ChildProcess[str]"]:
    """The command, once its agent has come to the call that never ends."""
    command = [WIELDY, "run", *words]
    pipe = subprocess.PIPE
    with ChildProcess(command, cwd=place, stdout=pipe, stderr=pipe, text=True) as started:
        try:
            assert (place / "pipe").read_text() == "here"
            yield started
        finally:
            started.kill()


@pytest.mark.parametrize("agent", ["worker", "lead"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_leaves_the_run_to_be_resumed(
    place: Path, agent: str, number: signal.Signals
) -> None:
    with asking(place, f"agent.py:{agent}", "Go.") as started:
        started.send_signal(number)
        _, said = started.communicate(timeout=SECONDS)

    assert started.returncode == 128 + number
    found = _RESUME.search(said)
    assert found is not None, said
    assert "Traceback" not in said
    async with Toolbox(store=f"sqlite:///{place}/wieldy.db") as box:
        assert {run.state for run in await box.store.runs.list()} == {"interrupted"}

    (place / "pipe").unlink()
    done = wieldy("run", found[1], "--resume", found[2], cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("Noted.\n" if agent == "worker" else "The worker is done.\n")
    # The call that was cut off is not made again, and the subagent goes on where it was.
    assert (place / "effects").read_text().split() == ["0", "1", "2"]
    async with Toolbox(store=f"sqlite:///{place}/wieldy.db") as box:
        assert {run.state for run in await box.store.runs.list()} == {"done"}


def test_programs_get_the_id_of_a_run_that_was_stopped(place: Path) -> None:
    with asking(place, "agent.py:worker", "Go.", "--json") as started:
        started.send_signal(signal.SIGTERM)
        told, said = started.communicate(timeout=SECONDS)

    facts = json.loads(told)
    found = _RESUME.search(said)
    assert found is not None
    assert facts == {"status": "interrupted", "run_id": found[2], "state": None, "pending": []}


def test_sigterm_stops_a_run_whose_shell_ignores_ctrl_c(place: Path) -> None:
    ignore = "trap '' INT; exec \"$@\""
    # A fork hears the signals of its launcher, and ignores none.
    command = ["sh", "-c", ignore, "sh", INSTALLED, "run", "agent.py:worker", "Go."]
    with ChildProcess(command, cwd=place, stderr=subprocess.PIPE, text=True) as started:
        assert (place / "pipe").read_text() == "here"
        started.send_signal(signal.SIGINT)
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate(timeout=SECONDS)
    assert started.returncode == 128 + signal.SIGTERM
    assert _RESUME.search(said) is not None, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, None])
async def test_a_question_can_be_left_unanswered(
    place: Path, number: signal.Signals | None
) -> None:
    terminal = Terminal("run", "agent.py:buyer", "Buy.", cwd=place, columns=200)
    try:
        terminal.wait_for("Run it? y/N/edit: ")
        if number is None:
            # The end of the input, as Ctrl-D sends it.
            terminal.type("\x04")
        else:
            terminal.process.send_signal(number)
        found = _RESUME.search(terminal.wait_for("Stopped."))
        assert found is not None
        assert terminal.ends_with() == 128 + (number or signal.SIGINT)
    finally:
        terminal.close()

    async with Toolbox(store=f"sqlite:///{place}/wieldy.db") as box:
        [run] = await box.store.runs.list()
        assert (run.id, run.state) == (found[2], "interrupted")
        [waiting] = await box.pending()
        await box.approve(waiting.id, by="ann")
    done = wieldy("run", found[1], "--resume", found[2], cwd=place)
    assert (done.returncode, done.stdout) == (0, "Paid.\n")
