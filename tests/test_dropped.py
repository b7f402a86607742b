"""A toolbox that nobody closes gives back what it holds, and says where it was made."""

import gc
import linecache
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from mcp.server import MCPServer

from tests.mcp.conftest import SHOP
from tests.mcp.waiting import children_of, until
from tests.openapi.api import document, operation, serving
from wieldy import Toolbox
from wieldy.dialects.agently import AgentlyToolManager
from wieldy.dialects.sage import MCPRegistry

SOON = 120.0
Use = Callable[[Path], Awaitable[Toolbox]]


@pytest.fixture(autouse=True)
async def given_back(tmp_path: Path, heard: list[warnings.WarningMessage]) -> AsyncIterator[None]:
    """Each test gives back what its boxes held."""
    gc.collect()
    # What other tests have loaded is not looked through each time.
    gc.freeze()
    before = held_now(tmp_path)
    yield
    await collected(lambda: held_now(tmp_path) <= before)
    gc.unfreeze()


@pytest.fixture
def heard() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings of this test."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


async def collected(true: Callable[[], bool]) -> None:
    """Wait for what is true when everything that nobody can reach is gone.

    For a moment a thread may still know what it has answered to.
    """
    await until(lambda: gc.collect() >= 0 and true())


def work() -> str:
    """Block for no time."""
    return "done"


async def with_threads(folder: Path) -> Toolbox:
    box = Toolbox()
    box.add(work)
    assert (await box.call("work")).ok
    return box


async def with_store(folder: Path) -> Toolbox:
    box = Toolbox(store=f"sqlite:///{folder}/wieldy.db")

    @box.tool
    async def count() -> int:
        # A tool that knows its toolbox is the rule, and makes a ring of everything.
        return len(box)

    for _ in range(3):
        assert (await box.call("count")).ok
    assert len(await box.ledger.list()) == 3
    return box


async def with_process(folder: Path) -> Toolbox:
    box = Toolbox()
    await box.add_mcp(SHOP)
    box.add(lambda: len(box), name="own")
    assert (await box.call("own")).ok
    return box


async def with_server_object(folder: Path) -> Toolbox:
    server = MCPServer("inside")
    server.add_tool(lambda: "1", name="one")
    box = Toolbox()
    await box.add_mcp(server)
    assert (await box.call("one")).ok
    return box


async def with_connections(folder: Path) -> Toolbox:
    box = Toolbox()
    with serving() as api:
        [tool] = await box.add_openapi(document({"/x": {"get": operation()}}), base_url=api.url)
        assert (await box.call(tool.name)).ok
    return box


def held_now(folder: Path) -> set[object]:
    """Our threads but those of the border, open files in the folder, and processes of ours."""
    ours = [each for each in threading.enumerate() if each.name.startswith("wieldy")]
    held: set[object] = {each for each in ours if not each.name.startswith("wieldy-border")}
    for each in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            held.add(os.readlink(f"/proc/self/fd/{each}"))
    inside = {each for each in held if not isinstance(each, str) or each.startswith(str(folder))}
    return inside | children_of(os.getpid())


HOLDERS = (with_store, with_process, with_server_object, with_connections)


@pytest.mark.parametrize("use", [with_threads, *HOLDERS])
async def test_what_a_dropped_box_held_is_given_back(
    use: Use, tmp_path: Path, heard: list[warnings.WarningMessage]
) -> None:
    before = held_now(tmp_path)
    box = await use(tmp_path)
    assert held_now(tmp_path) - before

    del box

    await collected(lambda: held_now(tmp_path) <= before)


@pytest.mark.parametrize("use", HOLDERS)
async def test_whoever_made_it_is_named(
    use: Use, tmp_path: Path, heard: list[warnings.WarningMessage]
) -> None:
    await use(tmp_path)
    await collected(lambda: any(each.category is ResourceWarning for each in heard))

    [warning] = [each for each in heard if each.category is ResourceWarning]
    assert "A Toolbox was dropped without close()" in str(warning.message)
    assert warning.filename == __file__
    assert "= Toolbox(" in linecache.getline(__file__, warning.lineno)


@pytest.mark.parametrize("use", [with_threads, *HOLDERS])
async def test_nobody_is_warned_of_a_box_that_was_closed(
    use: Use, tmp_path: Path, heard: list[warnings.WarningMessage]
) -> None:
    box = await use(tmp_path)

    await box.close()
    del box
    gc.collect()

    assert [str(each.message) for each in heard if each.category is ResourceWarning] == []


async def test_nobody_is_warned_of_a_box_that_holds_nothing(
    tmp_path: Path, heard: list[warnings.WarningMessage]
) -> None:
    box = Toolbox(store=f"sqlite:///{tmp_path}/never.db")
    box.add(work)
    assert box.mcp.keys() == set()
    del box
    # Idle threads end by themselves.
    await with_threads(tmp_path)
    gc.collect()

    assert [str(each.message) for each in heard if each.category is ResourceWarning] == []


@pytest.mark.parametrize("make", [AgentlyToolManager, MCPRegistry])
async def test_the_box_that_a_dialect_made_for_itself_goes_silently(
    make: Callable[[], AgentlyToolManager | MCPRegistry],
    tmp_path: Path,
    heard: list[warnings.WarningMessage],
) -> None:
    before = held_now(tmp_path)
    dialect = make()
    await dialect.toolbox.add_mcp(SHOP)
    assert held_now(tmp_path) - before

    del dialect

    await collected(lambda: held_now(tmp_path) <= before)
    assert [str(each.message) for each in heard if each.category is ResourceWarning] == []


async def test_a_view_keeps_what_its_box_holds() -> None:
    box = Toolbox()
    await box.add_mcp(SHOP)
    view, closing = box.view(), box.close
    del box
    gc.collect()

    assert "price" in view
    assert (await view.call("price", {"item": "pear"})).ok
    await closing()


async def test_a_call_that_is_made_on_the_way_out_still_runs(
    heard: list[warnings.WarningMessage],
) -> None:
    async def connected() -> Awaitable[object]:
        box = Toolbox()
        await box.add_mcp(SHOP)
        return box.call("price", {"item": "pear"})

    call = await connected()
    gc.collect()
    outcome = await call

    assert getattr(outcome, "ok", False), outcome


async def test_the_ledger_of_a_dropped_box_can_still_be_read(
    tmp_path: Path, heard: list[warnings.WarningMessage]
) -> None:
    ledger = (await with_store(tmp_path)).ledger
    gc.collect()

    assert len(await ledger.list()) == 3


LAST = """
import asyncio, sys, threading
from wieldy import Toolbox

def work(): return threading.current_thread().name

async def main():
    box = Toolbox(store=sys.argv[1])
    box.add(work)
    await box.add_mcp(sys.argv[2])
    assert (await box.call("work")).ok
    return box

KEPT
print("done")
"""


@pytest.mark.parametrize("last", ["asyncio.run(main())", "box = asyncio.run(main())"])
def test_a_process_ends_while_a_box_is_open(last: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAST.replace("KEPT", last), f"sqlite:///{tmp_path}/w.db", SHOP],
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )

    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


ENDING = """
import atexit, glob, os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from wieldy import Toolbox
from wieldy.tools.code import add_code_tools

def main():
    box = Toolbox(permission_mode="bypass")
    add_code_tools(box, sandbox="unprotected")
    assert box.call_sync("run_python", {"code": "print(1)"}).text == "1\\n"
    return box

if sys.argv[2] == "late":
    held = [main()]
    [folder] = glob.glob(sys.argv[1] + "/wieldy-code-*")

    @atexit.register
    def drop():
        # Nothing takes work for a pool of threads any more.
        held.clear()
        while os.path.exists(folder):
            pass
else:
    main()
"""


@pytest.mark.parametrize("moment", ["early", "late"])
def test_a_script_that_drops_a_box_where_it_ends_says_nothing(tmp_path: Path, moment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path), moment],
        capture_output=True,
        text=True,
        timeout=SOON,
    )

    assert (done.returncode, done.stderr) == (0, "")
