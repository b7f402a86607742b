"""`wieldy serve agent.py`: the agent over real transports, and runs that go on by themselves."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.cli.commands.test_serve import Serving
from tests.cli.terminal import make_token, wieldy
from tests.forking.launch_files import WIELDY
from tests.mcp.clients import Person, connected, text_of
from wieldy import Toolbox

AGENT = """
import os
import signal
from wieldy import Call, Context
from wieldy.agent import Agent
from wieldy.models.model import Answers
from wieldy.testing import ScriptedModel


def answer(request):
    told = any(isinstance(turn, Answers) for turn in request.turns)
    return "The refund is done." if told else Call("refund", {"order": "A-17"})


def deps(run):
    return f"deps of {run.agent}"


agent = Agent(
    ScriptedModel(answer), name="desk", tool_strategy="native", store="sqlite:///wieldy.db"
)


async def refund(order: str, ctx: Context) -> str:
    if "CRASH" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    with open("paid.txt", "a") as file:
        file.write(f"{order} {ctx.deps}\\n")
    return f"paid {order}"


agent.toolbox.add(refund, tags=[agent.tag], permission="confirm")
unnamed = Agent(ScriptedModel([]))
"""
TOOLS = """
from wieldy import Toolbox

box = Toolbox()


@box.tool
def add(a: int, b: int) -> int:
    return a + b
"""
PAID = "A-17 deps of desk\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an agent, and with tools, in files."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


@pytest.fixture
def serving(place: Path) -> Iterator[Serving]:
    server = Serving(place, "agent.py")
    yield server
    server.close()


async def test_over_stdio_a_pause_is_a_question(place: Path) -> None:
    command = StdioServerParameters(
        command=WIELDY, args=["serve", "agent.py", "--stdio"], cwd=str(place)
    )
    person = Person()
    async with Client(stdio_client(command), elicitation_callback=person) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("desk", {"query": "Pay back."})

    assert (names, text_of(result)) == (["desk"], "The refund is done.")
    assert person.asked[0].startswith("desk asks: May refund run?")
    assert (place / "paid.txt").read_text() == PAID


async def test_a_server_goes_on_after_wieldy_approve_and_its_client_comes_back(
    serving: Serving, place: Path
) -> None:
    async with connected(serving.url) as client:
        told = text_of(await client.call_tool("desk", {"query": "Pay back."}))
        call_id = re.findall(r"refund \((\w+)\)", told)[0]
        token = await asyncio.to_thread(make_token, place)
        done = wieldy("approve", call_id, "--token", token, cwd=place)
        assert done.returncode == 0, done.stderr
        async with asyncio.timeout(120), Toolbox(store=f"sqlite:///{place}/wieldy.db") as box:
            (run,) = await box.store.runs.list()
            await box.store.runs.until(run.id, lambda stored: stored.state == "done")
        again = re.findall(r"resume_call='(\w+)'", told)[0]
        result = await client.call_tool("desk", {"query": "Pay back.", "resume_call": again})

    assert text_of(result) == "The refund is done."
    assert (place / "paid.txt").read_text() == PAID
    serving.process.send_signal(signal.SIGINT)
    _, said = serving.process.communicate(timeout=120)
    assert f"Run {run.id} of desk was decided on, and goes on." in said
    assert f"Run {run.id} of desk is done." in said


def test_a_server_takes_up_runs_that_others_have_left(place: Path) -> None:
    asked = wieldy("run", "agent.py", "Pay back.", "--approve", "pending", "--json", cwd=place)
    run_id = json.loads(asked.stdout)["run_id"]
    call_id = json.loads(asked.stdout)["pending"][0]["call_id"]
    approved = wieldy("approve", call_id, "--token", make_token(place), cwd=place)
    assert approved.returncode == 0
    assert not (place / "paid.txt").exists()
    server = Serving(place, "agent.py", "tools.py")
    try:
        assert "2 tools at" in server.said
        asyncio.run(_until_done(place, run_id))
    finally:
        server.close()
    assert (place / "paid.txt").read_text() == PAID


def test_a_server_takes_up_runs_whose_process_died(place: Path) -> None:
    asked = wieldy("run", "agent.py", "Pay back.", "--approve", "pending", "--json", cwd=place)
    facts = json.loads(asked.stdout)
    call_id = facts["pending"][0]["call_id"]
    wieldy("approve", call_id, "--token", make_token(place), cwd=place)
    killed = subprocess.run(
        [WIELDY, "run", "agent.py", "--resume", facts["run_id"]],
        cwd=place,
        env={**os.environ, "CRASH": "1"},
        capture_output=True,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL
    server = Serving(place, "agent.py")
    try:
        asyncio.run(_until_done(place, facts["run_id"]))
    finally:
        server.close()
    # Nobody knows whether the tool had paid, so it is not run again.
    assert not (place / "paid.txt").exists()


async def _until_done(place: Path, run_id: str) -> None:
    async with asyncio.timeout(120), Toolbox(store=f"sqlite:///{place}/wieldy.db") as box:
        await box.store.runs.until(run_id, lambda stored: stored.state == "done")


def test_an_agent_without_a_name_is_refused_with_advice(place: Path) -> None:
    done = subprocess.run(
        [WIELDY, "serve", "agent.py:unnamed", "--stdio"],
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert 'Agent(name="' in done.stderr


BOTH = """
from wieldy import Toolbox
from wieldy.agent import Agent
from wieldy.testing import ScriptedModel

box = Toolbox()


@box.tool
def refund(order: str) -> str:
    return f"paid {order}"


agent = Agent(ScriptedModel(["It is done."]), name="desk", toolbox=box, tool_strategy="native")
agent.use_tools("refund")
"""


async def test_a_file_with_an_agent_and_a_box_means_the_agent_for_every_command(
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.py").write_text(BOTH)

    def names(source: str, *more: str) -> list[str]:
        done = wieldy("list", source, "--json", *more, cwd=tmp_path)
        return [tool["name"] for tool in json.loads(done.stdout)]

    async def served(source: str) -> list[str]:
        parameters = StdioServerParameters(
            command=str(WIELDY), args=["serve", source, "--stdio"], cwd=tmp_path
        )
        async with Client(stdio_client(parameters)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert await served("agent.py") == ["desk"] == names("agent.py")
    assert await served("agent.py:box") == ["refund"] == names("agent.py:box")
    described = wieldy("describe", "desk", "agent.py", cwd=tmp_path)
    called = wieldy("call", "desk", "agent.py", "--arg", "query=hello", cwd=tmp_path)
    assert (described.returncode, called.returncode, called.stdout.strip()) == (
        0,
        0,
        "It is done.",
    ), called.stderr
    assert wieldy("describe", "refund", "agent.py:box", cwd=tmp_path).returncode == 0
    checked = wieldy("check", "agent.py", "--json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
