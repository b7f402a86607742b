"""Ctrl-C, and what looks like it, in a worker, its supervisor and the program."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.child_process import ChildProcess
from tests.execution.tree import gone, note_pid, tree_of, written
from tests.forking.launch_files import WIELDY
from tests.mcp.waiting import alive
from wieldy import Status, Toolbox

INTERRUPTED = "ended with KeyboardInterrupt."


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def hang(path: str) -> None:
    note_pid(path)
    signal.pause()


class Stubborn:
    """A value whose arrival in a worker is a KeyboardInterrupt."""

    def __reduce__(self) -> tuple[Any, ...]:
        return raise_interrupt, ()

    def __deepcopy__(self, memo: object) -> "Stubborn":
        return self


@pytest.mark.parametrize("isolation", ["process", "thread"])
async def test_a_function_that_raises_an_interrupt_has_failed_and_ends_nothing(
    box: Toolbox, isolation: Any
) -> None:
    box.add(raise_interrupt, isolation=isolation, timeout=60)
    box.add(os.getpid, name="pid", isolation=isolation)

    outcome = await box.call("raise_interrupt")

    assert outcome.status is Status.ERROR
    assert INTERRUPTED in outcome.text
    assert (await box.call("pid")).ok


async def test_an_interrupt_while_a_worker_reads_what_it_is_sent_ends_nothing(
    box: Toolbox,
) -> None:
    @box.tool(isolation="process", validation="describe", timeout=60)
    def take(value: object) -> int:
        return 1

    outcome = await box.call("take", {"value": Stubborn()})

    assert outcome.status is Status.ERROR
    assert (await box.call("take", {"value": 2})).value == 1


async def test_a_worker_that_gets_the_signal_ends_its_call_only(
    box: Toolbox, tmp_path: Path
) -> None:
    box.add(hang, isolation="process")
    box.add(os.getpid, name="pid", isolation="process")
    calling = asyncio.create_task(box.call("hang", {"path": str(tmp_path / "pid")}))
    busy = await written(tmp_path / "pid")

    os.kill(busy, signal.SIGINT)
    outcome = await calling
    idle = (await box.call("pid")).value
    os.kill(idle, signal.SIGINT)
    await gone(idle)

    assert INTERRUPTED in outcome.text
    assert (await box.call("pid")).value != idle


async def test_a_supervisor_that_gets_the_signal_goes_on(box: Toolbox) -> None:
    box.add(os.getppid, name="supervisor", isolation="process")
    supervisor = (await box.call("supervisor")).value

    os.kill(supervisor, signal.SIGINT)

    assert (await box.call("supervisor")).value == supervisor
    assert alive(supervisor)


def start(words: list[str], folder: Path) -> "subprocess.Popen[str]":
    """Start a program whose stderr is read."""
    return ChildProcess(
        words, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


WAYS = {
    "awaiting": "asyncio.run(box.call('hang', {'path': sys.argv[1]}))",
    "blocking": "box.call_sync('hang', {'path': sys.argv[1]})",
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_program_that_gets_the_signal_ends_with_its_workers(
    way: str, tmp_path: Path
) -> None:
    text = (
        "import asyncio, sys\n"
        "from tests.execution.test_interrupts import hang\n"
        "from wieldy import Toolbox\n"
        "box = Toolbox()\n"
        f"box.add(hang, isolation='process')\n{WAYS[way]}\n"
    )
    words = [sys.executable, "-W", "ignore", "-c", text, str(tmp_path / "pid")]
    program = start(words, Path(__file__).parents[2])
    worker = await written(tmp_path / "pid")
    everything = tree_of(program.pid) | {worker}

    program.send_signal(signal.SIGINT)
    _, said = await asyncio.to_thread(program.communicate, None, 120)

    assert said.rstrip().endswith("KeyboardInterrupt")
    assert program.returncode != 0
    await gone(*everything)


async def test_a_server_goes_on_after_an_interrupt_in_a_worker(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(SERVED)
    server = start([WIELDY, "serve", "tools.py", "--port", "0"], tmp_path)
    try:
        assert server.stderr is not None
        said = ""
        while "Press Ctrl-C to stop." not in said:
            line = server.stderr.readline()
            assert line, said
            said += line
        async with Client(said.split(" tools at ")[1].split(": ")[0]) as client:
            raised = await client.call_tool("raise_interrupt", {})
            calling = asyncio.create_task(client.call_tool("hang", {"path": str(tmp_path / "pid")}))
            os.kill(await written(tmp_path / "pid"), signal.SIGINT)
            interrupted = await calling
        for answer in (raised, interrupted):
            assert INTERRUPTED in str(answer.content)
        # It still has its port, and stops in order.
        async with Client(said.split(" tools at ")[1].split(": ")[0]) as client:
            assert (await client.list_tools()).tools
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=120)
        assert server.returncode == 0
    finally:
        server.kill()
        server.communicate(timeout=120)


SERVED = """
import os, signal
from wieldy import Toolbox

box = Toolbox()


@box.tool(isolation="process")
def raise_interrupt() -> None:
    raise KeyboardInterrupt


@box.tool(isolation="process")
def hang(path: str) -> None:
    with open(f"{path}.partly", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{path}.partly", path)
    signal.pause()
"""
