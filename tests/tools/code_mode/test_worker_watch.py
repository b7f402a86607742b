"""A program of code mode ends with the process that runs it, however that ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child_process import ChildProcess
from tests.mcp.waiting import until
from wieldy import Toolbox
from wieldy.execution.process_tree import read_process
from wieldy.tools.code_mode import add_code_mode

PROGRAM = "tests.tools.code_mode.computing_program"
ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks into /proc")


def named_children(parent: int, name: str) -> list[int]:
    """The processes that a process has started, and whose command line contains a name."""
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        facts = read_process(int(entry))
        if facts is not None and facts.parent == parent and facts.state != "Z":
            command = Path(f"/proc/{entry}/cmdline").read_bytes().decode()
            found += [int(entry)] if name in command else []
    return found


def is_busy(pid: int) -> bool:
    facts = read_process(pid)
    return facts is not None and facts.cpu_ms > 100


def has_ended(pid: int) -> bool:
    facts = read_process(pid)
    return facts is None or facts.state == "Z"


async def test_a_program_that_computes_ends_when_its_process_is_killed() -> None:
    command = [sys.executable, "-m", PROGRAM]
    with ChildProcess(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        await until(lambda: any(map(is_busy, named_children(process.pid, "monty"))))
        (worker,) = filter(is_busy, named_children(process.pid, "monty"))
        (watch,) = named_children(process.pid, "worker_watch")

        process.kill()
        process.wait()

        await until(lambda: has_ended(worker) and has_ended(watch), seconds=10)


async def test_a_closed_toolbox_leaves_no_process() -> None:
    before = set(named_children(os.getpid(), "worker_watch"))
    async with Toolbox() as box:
        add_code_mode(box.view())
        assert (await box.call("run_code", {"code": "1 + 1"})).value == 2
        (watch,) = {*named_children(os.getpid(), "worker_watch")} - before

    assert has_ended(watch)


async def test_programs_run_although_somebody_has_killed_the_watch() -> None:
    before = set(named_children(os.getpid(), "worker_watch"))
    async with Toolbox() as box:
        add_code_mode(box.view())
        await box.call("run_code", {"code": "1"})
        (watch,) = {*named_children(os.getpid(), "worker_watch")} - before
        os.kill(watch, 9)
        await until(lambda: has_ended(watch))

        assert (await box.call("run_code", {"code": "2 + 1"})).value == 3
