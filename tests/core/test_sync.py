"""The border to blocking code: on which thread, with which context, and never stuck."""

import asyncio
import contextvars
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from wieldy import Context, Outcome, Status, Toolbox

SOON = 120.0
colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def in_thread(function: Any) -> Any:
    """Run a blocking function on a fresh thread, and don't wait for ever."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(SOON)


def thread_box(**options: Any) -> Toolbox:
    box = Toolbox(**options)

    @box.tool
    def where() -> int:
        return threading.get_ident()

    @box.tool
    async def where_later() -> int:
        return threading.get_ident()

    @box.tool(timeout=SOON)
    def where_in_time() -> int:
        return threading.get_ident()

    return box


def test_without_a_loop_both_kinds_of_tools_can_be_called() -> None:
    box = thread_box()

    assert box.call_sync("where").status is Status.OK
    assert box.call_sync("where_later").status is Status.OK
    assert box.call_sync("nope").status is Status.ERROR


async def test_beside_a_running_loop_both_kinds_of_tools_can_be_called() -> None:
    box = thread_box()

    assert box.call_sync("where").status is Status.OK
    assert box.call_sync("where_later").status is Status.OK


def test_a_blocking_tool_runs_on_the_callers_own_thread() -> None:
    box = thread_box()

    assert box.call_sync("where").value == threading.get_ident()
    assert in_thread(lambda: box.call_sync("where").value == threading.get_ident())


def test_thread_locals_and_sqlite_connections_of_the_caller_can_be_used() -> None:
    box = Toolbox()
    local = threading.local()
    local.word = "mine"
    database = sqlite3.connect(":memory:")
    database.execute("create table t (n integer)")

    @box.tool
    def insert(n: int) -> Any:
        database.execute("insert into t values (?)", (n,))
        return [local.word, database.execute("select count(*) from t").fetchone()[0]]

    @box.tool
    def outer(n: int) -> Any:
        return box.call_sync("insert", {"n": n}).unwrap()

    assert box.call_sync("insert", {"n": 1}).unwrap() == ["mine", 1]
    assert box.call_sync("outer", {"n": 2}).unwrap() == ["mine", 2]
    database.close()


def test_a_blocking_generator_runs_on_the_callers_own_thread_too() -> None:
    box = Toolbox()

    @box.tool
    def each() -> Any:
        yield threading.get_ident()
        yield threading.get_ident()

    assert set(box.call_sync("each").value) == {threading.get_ident()}


def test_with_a_timeout_it_goes_to_a_worker_that_can_be_left_behind() -> None:
    box = thread_box()
    go = threading.Event()

    @box.tool(timeout=0.02)
    def block() -> None:
        go.wait(SOON)

    assert box.call_sync("where_in_time").value != threading.get_ident()
    outcome = box.call_sync("block")
    go.set()

    assert outcome.status is Status.TIMEOUT
    assert outcome.metadata["abandoned"] is True


async def test_beside_a_running_loop_a_blocking_tool_never_runs_inside_it() -> None:
    box = thread_box()

    async def answer() -> str:
        return "from a loop of its own"

    @box.tool
    def runs_a_loop() -> str:
        return asyncio.run(answer())

    assert box.call_sync("where").value != threading.get_ident()
    assert box.call_sync("runs_a_loop").unwrap() == "from a loop of its own"


async def test_blocking_calls_work_from_inside_both_kinds_of_tools() -> None:
    box = thread_box()

    @box.tool
    def outer() -> tuple[int, int]:
        return threading.get_ident(), box.call_sync("where").unwrap()

    @box.tool
    async def outer_later() -> int:
        value: int = box.call_sync("where").unwrap()
        return value

    @box.tool
    async def outermost() -> Any:
        return [box.call_sync("outer").unwrap(), box.call_sync("outer_later").unwrap()]

    own, inner = (await box.call("outer")).unwrap()
    assert own == inner
    assert (await box.call("outer_later")).ok
    assert (await box.call("outermost")).ok
    assert in_thread(lambda: box.call_sync("outermost")).ok


@pytest.mark.parametrize("kind", ["blocking", "async", "mixed", "timed", "asyncio_run"])
def test_deeply_nested_blocking_calls_end(kind: str) -> None:
    box = Toolbox(threads=2)

    def step(name: str, n: int) -> Any:
        return n if n == 0 else box.call_sync(name, {"n": n - 1}).unwrap()

    @box.tool
    def blocking(n: int) -> Any:
        return step("blocking", n)

    @box.tool(name="async")
    async def by_loop(n: int) -> Any:
        return step("async", n)

    @box.tool
    async def mixed(n: int) -> Any:
        return step("blocking" if n % 2 else "mixed", n)

    @box.tool(timeout=SOON)
    def timed(n: int) -> Any:
        return step("timed", n)

    @box.tool
    def asyncio_run(n: int) -> Any:
        return n if n == 0 else asyncio.run(box.call("asyncio_run", {"n": n - 1})).unwrap()

    assert in_thread(lambda: box.call_sync(kind, {"n": 40}).unwrap()) == 0


@pytest.mark.parametrize("kind", ["call_sync", "timed", "asyncio_run", "through_async"])
async def test_two_hundred_nested_blocking_calls_do_not_use_up_four_workers(kind: str) -> None:
    box = Toolbox(threads=4)

    @box.tool
    def leaf() -> int:
        return 1

    @box.tool(timeout=SOON)
    def timed_leaf() -> int:
        return 1

    @box.tool
    async def relay() -> Any:
        return (await box.call("leaf")).unwrap()

    @box.tool
    def call_sync() -> Any:
        return box.call_sync("leaf").unwrap()

    @box.tool(timeout=SOON)
    def timed() -> Any:
        return box.call_sync("timed_leaf").unwrap()

    @box.tool
    def asyncio_run() -> Any:
        return asyncio.run(box.call("timed_leaf")).unwrap()

    @box.tool
    def through_async() -> Any:
        return box.call_sync("relay").unwrap()

    outcomes = await asyncio.wait_for(box.call_many([(kind, None)] * 200), 3 * SOON)

    assert [outcome.value for outcome in outcomes] == [1] * 200


def test_many_threads_may_call_at_once() -> None:
    box = thread_box()
    together = threading.Barrier(16)

    def many() -> bool:
        together.wait(SOON)
        own = threading.get_ident()
        return all(
            box.call_sync("where").value == own
            and box.call_sync("where_later").ok
            and box.call_sync("where_in_time").ok
            for _ in range(20)
        )

    with ThreadPoolExecutor(16) as pool:
        assert all(done.result(SOON) for done in [pool.submit(many) for _ in range(16)])


def test_a_slow_call_of_one_thread_does_not_hold_up_another() -> None:
    box = Toolbox()
    go = threading.Event()

    @box.tool
    def block() -> bool:
        return go.wait(SOON)

    @box.tool
    async def release() -> None:
        go.set()

    with ThreadPoolExecutor(1) as pool:
        blocked = pool.submit(box.call_sync, "block")
        box.call_sync("release")
        assert blocked.result(SOON).value is True


def test_context_variables_are_carried_across_the_border() -> None:
    box = Toolbox()

    @box.tool
    def shade() -> str:
        return colour.get()

    @box.tool
    async def shade_later() -> str:
        return colour.get()

    @box.tool
    def deep() -> Any:
        colour.set("green")
        return [
            box.call_sync("shade").value,
            box.call_sync("shade_later").value,
            asyncio.run(box.call("shade")).value,
        ]

    colour.set("red")

    assert box.call_sync("shade").value == "red"
    assert box.call_sync("shade_later").value == "red"
    assert box.call_sync("deep").value == ["green"] * 3
    assert colour.get() == "red"


async def test_context_variables_are_carried_into_workers() -> None:
    box = Toolbox()

    @box.tool
    def shade() -> str:
        before = colour.get()
        colour.set("changed in the tool")
        return before

    colour.set("blue")

    assert (await box.call("shade")).value == "blue"
    assert colour.get() == "blue"


def test_exceptions_are_values_across_the_border_and_exiting_ends_nothing() -> None:
    box = Toolbox()

    @box.tool
    def fail() -> None:
        raise ValueError("no")

    @box.tool
    def leave() -> None:
        sys.exit(3)

    @box.tool
    async def leave_later() -> None:
        sys.exit(3)

    assert box.call_sync("fail").text == "ValueError: no"
    assert box.call_sync("leave").text == "SystemExit: 3"
    assert box.call_sync("leave_later").text == "SystemExit: 3"


@pytest.mark.parametrize("name", ["stop", "stop_later"])
def test_a_keyboard_interrupt_reaches_the_caller_and_the_border_lives_on(name: str) -> None:
    heard: list[Status] = []
    box = thread_box(observers=[lambda outcome: heard.append(outcome.status)])

    @box.tool
    def stop() -> None:
        raise KeyboardInterrupt

    @box.tool
    async def stop_later() -> None:
        raise KeyboardInterrupt

    def call() -> None:
        with pytest.raises(KeyboardInterrupt):
            box.call_sync(name)

    in_thread(call)

    assert heard == [Status.INTERRUPTED]
    assert in_thread(lambda: box.call_sync("where_later").ok)


def test_a_person_who_presses_control_c_interrupts_the_waiting_call() -> None:
    told = threading.Event()
    heard: list[Outcome] = []

    def observer(outcome: Outcome) -> None:
        heard.append(outcome)
        told.set()

    box = Toolbox(observers=[observer])

    @box.tool
    async def wait() -> None:
        await asyncio.sleep(0.02)
        person = threading.main_thread().ident
        assert person is not None
        signal.pthread_kill(person, signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        box.call_sync("wait")

    assert told.wait(SOON)
    assert [outcome.status for outcome in heard] == [Status.INTERRUPTED]
    assert box.call_sync("nope").status is Status.ERROR


def test_a_blocking_call_can_be_interrupted_from_another_thread() -> None:
    box = Toolbox()
    ids: list[str] = []
    began = threading.Event()

    @box.tool
    async def wait(context: Context) -> None:
        ids.append(context.call_id)
        began.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(box.call_sync, "wait")
        assert began.wait(SOON)
        assert asyncio.run(box.interrupt(ids[0]))
        assert waiting.result(SOON).status is Status.INTERRUPTED


def test_a_function_on_the_callers_thread_that_is_interrupted_is_told_twice() -> None:
    late, began, go = threading.Event(), threading.Event(), threading.Event()
    heard: list[Outcome] = []
    ids: list[str] = []

    def told(outcome: Outcome) -> None:
        heard.append(outcome)
        if outcome.metadata.get("late"):
            late.set()
        else:
            go.set()

    box = Toolbox(observers=[told])

    @box.tool
    def block(context: Context) -> str:
        ids.append(context.call_id)
        began.set()
        go.wait(SOON)
        return f"cancelled={context.cancelled}"

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(box.call_sync, "block")
        assert began.wait(SOON)
        assert asyncio.run(box.interrupt(ids[0]))
        outcome = waiting.result(SOON)
    assert late.wait(SOON)

    assert (outcome.status, outcome.metadata["abandoned"]) == ("interrupted", True)
    assert [(o.status, o.value) for o in heard] == [
        ("interrupted", None),
        ("ok", "cancelled=True"),
    ]


FORKED = """
import asyncio, os, sys, threading
from wieldy import Toolbox

box = Toolbox()

@box.tool
def plain(): return os.getpid()

@box.tool
async def later(): return os.getpid()

@box.tool(timeout=10)
def timed(): return os.getpid()

@box.tool
def nested(): return box.call_sync("timed").unwrap()

@box.tool
def forks():
    child = os.fork()
    if child == 0:
        ok = box.call_sync("timed").unwrap() == os.getpid()
        os._exit(0 if ok else 1)
    return os.waitpid(child, 0)[1]

def check():
    for name in ("plain", "later", "timed", "nested"):
        assert box.call_sync(name).unwrap() == os.getpid(), name
        assert asyncio.run(box.call(name)).unwrap() == os.getpid(), name

check()
child = os.fork()
if child == 0:
    check()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert box.call_sync("forks").unwrap() == 0
assert asyncio.run(box.call("forks")).unwrap() == 0
first = box.call_sync("plain").call.id
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, box.call_sync("plain").call.id.encode())
    os._exit(0)
assert os.read(read, 100).decode().rpartition("_")[0] != first.rpartition("_")[0]
print("done")
"""


def test_a_forked_child_can_call_as_its_parent_does(tmp_path: Path) -> None:
    script = tmp_path / "forked.py"
    script.write_text(FORKED)

    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=3 * SOON, check=False
    )

    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
