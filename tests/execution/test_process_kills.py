"""What ends a process, and what is gone when it is ended."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.child_process import ChildProcess
from tests.execution.tree import gone, is_headless, note_pid, tree_of, written
from tests.mcp.waiting import alive, until
from wieldy import Context, Outcome, Status, Toolbox

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]

# The first thread ends, and the process goes on in another.
HEADLESS = [
    sys.executable,
    "-c",
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); "
    "ctypes.CDLL(None).pthread_exit(None)",
]


def family(folder: str) -> None:
    """Start a child, one in a session of its own, and one whose parent is gone; then hang."""
    note_pid(f"{folder}/child", subprocess.Popen(SLEEPER).pid)
    note_pid(f"{folder}/session", subprocess.Popen(SLEEPER, start_new_session=True).pid)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note_pid(f"{folder}/orphan")
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.pause()
        os._exit(0)
    note_pid(f"{folder}/headless", subprocess.Popen(HEADLESS, start_new_session=True).pid)
    note_pid(f"{folder}/worker")
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


NAMES = ("child", "session", "orphan", "headless", "worker")


async def started(folder: Path) -> list[int]:
    """The processes of a family, once all of them run, and one of them without its first thread."""
    pids = {name: await written(folder / name) for name in NAMES}
    await until(lambda: is_headless(pids["headless"]) or not alive(pids["headless"]))
    return [*pids.values()]


async def test_a_timeout_ends_the_whole_family(box: Toolbox, tmp_path: Path) -> None:
    box.add(family, isolation="process", timeout=2)

    outcome = await box.call("family", {"folder": str(tmp_path)})

    assert outcome.status is Status.TIMEOUT
    assert "abandoned" not in outcome.metadata
    assert outcome.metadata["pid"] == await written(tmp_path / "worker")
    assert not any(map(alive, await started(tmp_path)))


async def test_a_cancellation_ends_the_whole_family(box: Toolbox, tmp_path: Path) -> None:
    box.add(family, isolation="process")
    calling = asyncio.create_task(box.call("family", {"folder": str(tmp_path)}))
    pids = await started(tmp_path)

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert not any(map(alive, pids))


async def test_an_interruption_ends_the_whole_family(tmp_path: Path, box: Toolbox) -> None:
    box.add(family, isolation="process")
    call_ids: list[str] = []

    async def notice(run: Any, proceed: Any) -> Outcome:
        call_ids.append(run.call.id)
        outcome: Outcome = await proceed(run)
        return outcome

    async with Toolbox(middleware=[notice], processes=1) as watched:
        watched.add(family, isolation="process")
        calling = asyncio.create_task(watched.call("family", {"folder": str(tmp_path)}))
        pids = await started(tmp_path)
        assert await watched.interrupt(call_ids[0])
        outcome = await calling

    assert outcome.status is Status.INTERRUPTED
    assert not any(map(alive, pids))


async def test_who_stops_reading_a_stream_ends_its_process(box: Toolbox, tmp_path: Path) -> None:
    @box.tool(isolation="process")
    def endless(folder: str) -> Any:
        yield "first"
        family(folder)

    stream = box.stream("endless", {"folder": str(tmp_path)})
    await anext(stream)
    pids = await started(tmp_path)
    await stream.aclose()  # type: ignore[attr-defined]

    await gone(*pids)


def swallow(size: int) -> int:
    held = []
    while True:
        held.append(bytearray(size))


def swallow_in_a_child(size: int) -> int:
    return subprocess.run(
        [sys.executable, "-c", f"held = []\nwhile True: held.append(bytearray({size}))"]
    ).returncode


@pytest.mark.parametrize("function", [swallow, swallow_in_a_child])
async def test_a_memory_limit_holds_for_the_whole_tree(box: Toolbox, function: Any) -> None:
    box.add(function, name="greedy", isolation="process", memory="200MB", timeout=60)

    outcome = await box.call("greedy", {"size": 1_000_000})

    assert outcome.status is Status.ERROR
    assert outcome.text.startswith("MemoryExceeded: The process that ran greedy was killed")
    assert outcome.metadata["peak_bytes"] > 200_000_000
    assert not alive(outcome.metadata["pid"])


def segfault() -> None:
    ctypes.string_at(0)


def exit_at_once() -> None:
    os._exit(3)


def kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def abort() -> None:
    os.abort()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (segfault, "crashed: it was ended by SIGSEGV."),
        (exit_at_once, "exited with code 3 before the function returned."),
        (kill_oneself, "crashed: it was ended by SIGKILL, as the system does when memory runs out"),
        (abort, "crashed: it was ended by SIGABRT."),
    ],
)
async def test_a_crash_is_an_error_that_says_so_and_the_pool_heals(
    box: Toolbox, function: Any, said: str
) -> None:
    box.add(function, name="crash", isolation="process")
    box.add(os.getpid, name="pid", isolation="process")

    outcomes = await box.call_many([("crash", None), ("pid", None)] * 4)

    assert [outcome.status for outcome in outcomes] == ["error", "ok"] * 4
    assert all(said in outcome.text for outcome in outcomes[::2])


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize(("idempotent", "entered"), [(False, 1), (True, 3)])
async def test_a_killed_call_is_tried_again_only_where_that_does_no_harm(
    box: Toolbox, tmp_path: Path, idempotent: bool, entered: int, hangs: bool, unsafe: bool
) -> None:
    log = tmp_path / "log"

    @box.tool(
        isolation="process", retries=2, retry_unsafe=unsafe, idempotent=idempotent, timeout=0.5
    )
    def crash(log: str, hangs: bool) -> None:
        with open(log, "a") as file:
            file.write("entered\n")
        while hangs:
            time.sleep(60)
        os._exit(1)

    outcome = await box.call("crash", {"log": str(log), "hangs": hangs})

    assert outcome.status is (Status.TIMEOUT if hangs else Status.ERROR)
    assert outcome.metadata.get("attempts", 1) == entered
    # On a busy machine a hanging attempt may be over before its function has written.
    written = log.read_text().count("entered") if log.exists() else 0
    assert written <= entered if hangs else written == entered


async def test_children_that_a_tool_leaves_behind_are_gone_when_it_returns(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def leave() -> list[int]:
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(write, str(os.getpid()).encode())
                signal.pause()
            os._exit(0)
        orphan = int(os.read(read, 100))
        return [subprocess.Popen(SLEEPER).pid, orphan]

    first = await box.call("leave")
    assert not any(map(alive, first.value))

    second = await box.call("leave")
    assert second.metadata["pid"] == first.metadata["pid"]


async def test_a_worker_that_dies_while_idle_is_replaced(box: Toolbox) -> None:
    box.add(os.getpid, name="pid", isolation="process")
    first = (await box.call("pid")).value

    os.kill(first, signal.SIGKILL)
    await gone(first)
    outcome = await box.call("pid")

    assert outcome.value != first


async def test_a_supervisor_that_is_killed_takes_its_workers_and_is_replaced(
    box: Toolbox, tmp_path: Path
) -> None:
    box.add(family, isolation="process")
    box.add(os.getppid, name="supervisor", isolation="process")
    supervisor = (await box.call("supervisor")).value
    calling = asyncio.create_task(box.call("family", {"folder": str(tmp_path)}))
    pids = await started(tmp_path)

    os.kill(supervisor, signal.SIGKILL)
    outcome = await calling

    assert "The process that ran family ended because its supervisor was killed." in outcome.text
    await gone(*pids)
    assert (await box.call("supervisor")).value not in (supervisor, os.getpid())


PROGRAM = """
import asyncio, sys
from tests.execution.test_process_kills import family
from wieldy import Toolbox

box = Toolbox()
box.add(family, isolation="process")
asyncio.run(box.call("family", {"folder": sys.argv[1]}))
"""


def program(text: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a program that wants a process."""
    return ChildProcess(
        [sys.executable, "-W", "ignore", "-c", text, str(folder)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_nothing_outlives_the_process_that_wanted_it(tmp_path: Path, number: int) -> None:
    parent = program(PROGRAM, tmp_path)
    pids = await started(tmp_path)
    everything = tree_of(parent.pid) | set(pids)

    parent.send_signal(number)
    await asyncio.to_thread(parent.wait)

    await gone(*everything)


FORKING = """
import os, threading, time

def fork():
    while not os.path.exists(sys.argv[1] + "/worker"):
        time.sleep(0.01)
    if os.fork() == 0:
        time.sleep(600)
    open(sys.argv[1] + "/forked", "w").close()

threading.Thread(target=fork, daemon=True).start()
"""


async def test_nothing_outlives_a_process_whose_forked_child_lives_on(tmp_path: Path) -> None:
    parent = program(PROGRAM.replace("asyncio.run(", f"{FORKING}\nasyncio.run("), tmp_path)
    pids = await started(tmp_path)
    await until((tmp_path / "forked").exists)

    parent.kill()
    await asyncio.to_thread(parent.wait)

    await gone(*pids)
    os.killpg(parent.pid, signal.SIGKILL)


async def test_a_box_that_is_closed_or_dropped_leaves_no_process() -> None:
    before = tree_of(os.getpid())
    box = Toolbox()
    box.add(os.getpid, name="pid", isolation="process")
    await box.call("pid")
    await box.close()
    assert tree_of(os.getpid()) == before

    dropped = Toolbox()
    dropped.add(os.getpid, name="pid", isolation="process")
    await dropped.call("pid")
    with pytest.warns(ResourceWarning, match="worker processes"):
        del dropped
        await until(lambda: tree_of(os.getpid()) == before)


async def test_the_deadline_begins_when_the_worker_has_the_function(box: Toolbox) -> None:
    @box.tool(isolation="process", timeout=0.2)
    def quick(ctx: Context) -> int:
        return ctx.attempt

    assert (await box.call("quick")).value == 1


async def test_the_ledger_shows_where_a_call_ran(tmp_path: Path) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/wieldy.db", processes=1) as box:
        box.add(os.getpid, name="pid", isolation="process")
        box.add(family, isolation="process", timeout=1)
        ran = await box.call("pid")
        killed = await box.call("family", {"folder": str(tmp_path)})
        entries = [await box.ledger.get(each.call.id) for each in (ran, killed)]

    for entry, outcome in zip(entries, (ran, killed), strict=True):
        assert entry is not None
        facts = ("isolation", "pid", "cpu_ms", "peak_bytes")
        assert [entry.metadata.get(each) for each in facts] == [
            outcome.metadata[each] for each in facts
        ]
    assert ran.metadata["isolation"] == "process"
