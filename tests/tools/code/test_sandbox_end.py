"""A program in the sandbox ends with whoever wants it, however that ends."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child_process import ChildProcess
from tests.tools.code.conftest import PATIENCE, CodeBox, await_none
from wieldy import Call, Outcome, Status, Toolbox
from wieldy.execution.process_tree import find_descendants
from wieldy.tools.code import ProgramEnd, Sandbox, SandboxLimits, SandboxUnavailable

PROGRAM = """
import asyncio, sys
from wieldy.tools.code import Sandbox

async def show(text):
    print(text, end="", flush=True)

asyncio.run(Sandbox(kind={kind!r}).run({words!r}, {folder!r}, on_output=show))
"""
NEEDS_SANDBOX = pytest.mark.needs("the sandbox")
KINDS = (pytest.param("bubblewrap", marks=NEEDS_SANDBOX), "unprotected")


def find_by_word(word: str) -> set[int]:
    """The processes with a word in their command line."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue  # It has ended.
    return found


def endless(mark: str) -> list[str]:
    """A program that goes on, with children that do."""
    command = f"trap '' TERM INT HUP; setsid sleep {mark} & sleep {mark} & echo begun; wait"
    return ["bash", "-c", command]


@pytest.fixture
def mark() -> str:
    """A number that no other process has in its command line."""
    return f"9{int.from_bytes(os.urandom(5))}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_ends_with_the_process_that_wants_it(
    kind: str, tmp_path: Path, mark: str
) -> None:
    text = PROGRAM.format(kind=kind, words=endless(mark), folder=str(tmp_path))
    with ChildProcess([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert len(find_by_word(mark)) >= 2

        process.kill()
        process.wait(PATIENCE)

    await_none(lambda: find_by_word(mark))


async def start_endless(box: Toolbox, call: Call) -> "asyncio.Task[Outcome]":
    """A call that goes on, once it has begun."""
    begun = asyncio.Event()

    async def follow() -> Outcome:
        async for item in box.stream(call):
            begun.set()
            if isinstance(item, Outcome):
                return item
        raise AssertionError

    task = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    return task


async def test_a_call_that_is_cancelled_leaves_nothing(code_box: CodeBox, mark: str) -> None:
    call = Call("run_shell", {"command": endless(mark)[-1]})
    task = await start_endless(code_box.make(), call)
    assert len(find_by_word(mark)) >= 2

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    # Nothing is left in the moment in which the caller goes on.
    assert find_by_word(mark) == set()


async def test_a_call_that_is_interrupted_leaves_nothing(code_box: CodeBox, mark: str) -> None:
    call = Call("run_shell", {"command": endless(mark)[-1]})
    box = code_box.make()
    task = await start_endless(box, call)

    assert await box.interrupt(call.id)

    assert (await task).status is Status.INTERRUPTED
    assert find_by_word(mark) == set()


async def test_a_call_that_takes_too_long_leaves_nothing(code_box: CodeBox, mark: str) -> None:
    outcome = await code_box.shell(endless(mark)[-1], timeout=1)

    assert outcome.metadata["meta"]["stopped"] == "timeout"
    assert find_by_word(mark) == set()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_program_ends_with_its_keeper(kind: str, tmp_path: Path, mark: str) -> None:
    before = set(find_descendants([os.getpid()]))
    begun = asyncio.Event()

    async def show(text: str) -> None:
        begun.set()

    run = Sandbox(kind=kind).run(endless(mark), tmp_path, on_output=show)  # type: ignore[arg-type]
    task = asyncio.create_task(run)
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    new = find_descendants([os.getpid()]).items()
    [keeper] = [pid for pid, facts in new if pid not in before and facts.parent == os.getpid()]
    os.kill(keeper, signal.SIGKILL)

    with pytest.raises(SandboxUnavailable, match="was killed"):
        await task
    await_none(lambda: find_by_word(mark))


@NEEDS_SANDBOX
async def test_a_reader_that_fails_ends_the_program(tmp_path: Path, mark: str) -> None:
    async def fail(text: str) -> None:
        raise RuntimeError("the reader has gone")

    with pytest.raises(RuntimeError, match="has gone"):
        await Sandbox().run(endless(mark), tmp_path, on_output=fail)

    assert find_by_word(mark) == set()


@NEEDS_SANDBOX
async def test_a_sandbox_tells_how_a_program_ended(tmp_path: Path) -> None:
    sandbox = Sandbox(SandboxLimits(memory=100_000_000, timeout=100), {"/tools": tmp_path})
    (tmp_path / "job").mkdir()

    end = await sandbox.run(
        ["sh", "greet", "you"], tmp_path / "job", scripts={"greet": b"echo hello $1; exit 7"}
    )
    missing = await sandbox.run(["no-such-program"], tmp_path / "job")

    assert end == ProgramEnd(7, None, "hello you\n", "", end.seconds, end.cpu_ms, end.peak_bytes)
    assert (missing.exit_code, missing.stderr) == (
        127,
        "no-such-program: No such file or directory\n",
    )
