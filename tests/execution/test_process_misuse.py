"""Tools that misbehave in their process, and what the next call sees of it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.execution.tree import gone, written
from wieldy import Status, Toolbox


def change_folder(folder: str) -> str:
    os.chdir(folder)
    return os.getcwd()


def change_environment(name: str) -> None:
    os.environ[name] = "changed"
    os.environ.pop("PATH", None)


def handle_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    signal.setitimer(signal.ITIMER_REAL, 600, 600)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    os.umask(0o777)


def look() -> dict[str, Any]:
    """What a call finds of the one before it."""
    mask = os.umask(0)
    os.umask(mask)
    return {
        "pid": os.getpid(),
        "folder": os.getcwd(),
        "environment": {k: v for k, v in os.environ.items() if k != "WIELDY_SUPERVISOR"},
        "handlers": [str(signal.getsignal(each)) for each in sorted(signal.valid_signals())],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "umask": mask,
        "timer": signal.getitimer(signal.ITIMER_REAL),
    }


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (change_folder, {"folder": "/"}),
        (change_environment, {"name": "WIELDY_TEST"}),
        (handle_signals, {}),
    ],
)
async def test_what_a_tool_changes_is_changed_back_for_the_next_call(
    function: Any, arguments: dict[str, Any]
) -> None:
    async with Toolbox(processes=1) as box:
        box.add(look, isolation="process")
        box.add(function, name="change", isolation="process")
        before = (await box.call("look")).value
        changed = await box.call("change", arguments)
        after = (await box.call("look")).value

    assert changed.ok
    assert after == before


async def test_a_tool_sees_the_folder_and_environment_of_now(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    box.add(look, isolation="process")
    await box.call("look")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WIELDY_TEST", "later")
    seen = (await box.call("look")).value

    assert seen["folder"] == str(tmp_path)
    assert seen["environment"]["WIELDY_TEST"] == "later"


async def test_a_tool_that_closes_file_descriptors_is_an_error_and_the_pool_heals(
    box: Toolbox, tmp_path: Path
) -> None:
    @box.tool(isolation="process")
    def close_all(folder: str) -> str:
        os.closerange(3, 4096)
        files = [open(f"{folder}/{number}", "w") for number in range(20)]  # noqa: SIM115
        return f"{len(files)} opened in their place"

    outcome = await box.call("close_all", {"folder": str(tmp_path)})

    assert outcome.status is Status.ERROR
    assert "closed file descriptors that it had not opened" in outcome.text
    written_there = await asyncio.to_thread(
        lambda: {file.read_bytes() for file in tmp_path.iterdir()}
    )
    assert written_there == {b""}
    box.add(os.getpid, name="pid", isolation="process")
    assert (await box.call("pid")).ok


async def test_megabytes_that_a_tool_prints_go_where_this_process_prints(
    box: Toolbox, capfd: pytest.CaptureFixture[str]
) -> None:
    @box.tool(isolation="process")
    def shout() -> int:
        sys.stdout.write("x" * 5_000_000)
        sys.stderr.write("y" * 5_000_000)
        return sys.stdout.fileno()

    outcome = await box.call("shout")

    assert outcome.ok
    out, err = capfd.readouterr()
    assert (out.count("x") + err.count("x"), err.count("y")) == (5_000_000, 5_000_000)


async def test_a_child_that_comes_back_from_the_function_is_not_heard(box: Toolbox) -> None:
    @box.tool(isolation="process")
    def twice() -> str:
        return "child" if os.fork() == 0 else "parent"

    outcomes = [await box.call("twice") for _ in range(5)]

    assert [outcome.value for outcome in outcomes] == ["parent"] * 5


async def test_forks_without_end_are_ended(box: Toolbox, tmp_path: Path) -> None:
    @box.tool(isolation="process", timeout=1)
    def multiply() -> None:
        for _ in range(7):
            os.fork()
        while True:
            time.sleep(0.01)
            if os.fork() == 0:
                os._exit(0)
            os.wait()

    outcome = await box.call("multiply")

    assert outcome.status is Status.TIMEOUT
    await gone(outcome.metadata["pid"])


async def test_a_deadlock_ends_with_the_timeout(box: Toolbox) -> None:
    @box.tool(isolation="process", timeout=0.5)
    def deadlock() -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    @box.tool(isolation="process", timeout=0.5)
    async def blocks_its_loop() -> None:
        time.sleep(600)  # noqa: ASYNC251

    outcomes = await box.call_many([("deadlock", None), ("blocks_its_loop", None)])

    assert [outcome.status for outcome in outcomes] == ["timeout"] * 2


async def test_arguments_and_results_that_cannot_be_sent_are_errors_that_say_so(
    box: Toolbox,
) -> None:
    @box.tool(isolation="process", validation="describe")
    def take(value: Any) -> Any:
        return value

    @box.tool(isolation="process")
    def give() -> Any:
        return threading.Lock()

    @box.tool(isolation="process")
    def show() -> Any:
        yield "fine"
        yield threading.Lock()

    class Unreadable:
        def __reduce__(self) -> Any:
            return (int, ("no number",))

    sent = await box.call("take", {"value": threading.Lock()})
    lost = await box.call("take", {"value": Unreadable()})
    given = await box.call("give")
    shown = await box.call("show")
    fine = await box.call("take", {"value": 1})

    assert "the argument 'value' can't be sent to a process: cannot pickle" in sent.text
    assert "the arguments can't be read in the worker: invalid literal" in lost.text
    assert "the result can't be sent back from the process: cannot pickle" in given.text
    assert "cannot pickle '_thread.lock' object" in shown.text
    assert fine.value == 1


class Heartbeat:
    """Counts the turns of the loop while something else goes on."""

    def __init__(self) -> None:
        self.turns = 0

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self.turns += 1

    async def during(self, calling: Any) -> Any:
        beating = asyncio.create_task(self.beat())
        try:
            return await calling
        finally:
            beating.cancel()


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"x" * 100_000_000,
        lambda: "y" * 100_000_000,
        lambda: [{"number": number, "text": str(number)} for number in range(1_000_000)],
    ],
    ids=["bytes", "text", "objects"],
)
async def test_a_hundred_megabytes_go_each_way_while_the_loop_is_free(
    box: Toolbox, make: Callable[[], Any]
) -> None:
    value = make()

    @box.tool(isolation="process", validation="describe")
    def echo(value: Any) -> Any:
        return value

    await box.call("echo", {"value": 1})
    heart = Heartbeat()
    outcome = await heart.during(box.call("echo", {"value": value}))

    assert outcome.value == value
    assert heart.turns > 20


async def test_work_on_the_processor_leaves_the_loop_free_and_uses_every_worker(
    box: Toolbox, tmp_path: Path
) -> None:
    @box.tool(isolation="process")
    def meet(own: str, other: str) -> int:
        Path(own).touch()
        while not Path(other).exists():
            sum(range(1000))
        return os.getpid()

    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    pairs = [("meet", {"own": one, "other": two}), ("meet", {"own": two, "other": one})]
    outcomes = await Heartbeat().during(box.call_many(pairs))

    assert len({outcome.value for outcome in outcomes}) == 2


async def test_a_thread_that_a_tool_leaves_behind_does_not_disturb_later_calls() -> None:
    async with Toolbox(processes=1) as box:

        @box.tool(isolation="process")
        def leave() -> None:
            def chatter() -> None:
                while True:
                    threading.Event().wait(0.001)

            threading.Thread(target=chatter, daemon=True).start()

        @box.tool(isolation="process")
        def echo(number: int) -> int:
            return number

        await box.call("leave")
        assert [(await box.call("echo", {"number": each})).value for each in range(20)] == list(
            range(20)
        )


async def test_an_answer_is_not_waited_for_from_a_worker_that_was_stopped(
    box: Toolbox, tmp_path: Path
) -> None:
    @box.tool(isolation="process", timeout=1)
    def freeze(path: str) -> None:
        from tests.execution.tree import note_pid  # noqa: PLC0415

        note_pid(path)
        os.kill(os.getpid(), signal.SIGSTOP)

    outcome = await box.call("freeze", {"path": str(tmp_path / "pid")})

    assert outcome.status is Status.TIMEOUT
    await gone(await written(tmp_path / "pid"))


def test_a_missing_package_is_named_when_the_tool_is_registered() -> None:
    program = (
        "import sys\n"
        "sys.modules['cloudpickle'] = None\n"
        "from wieldy import DefinitionError, Toolbox\n"
        "try:\n"
        "    Toolbox().add(print, isolation='process')\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )

    assert "pip install" in done.stdout + done.stderr
    assert "wieldy[process]" in done.stdout + done.stderr
