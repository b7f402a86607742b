"""One connection for all callers: on any loop, on none, and closed from anywhere."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from tests.mcp.conftest import SHOP, raw
from tests.mcp.waiting import until
from wieldy import InvalidSource, Limits, Outcome, Progress, Status, Text, Toolbox


async def test_callers_on_other_loops_and_on_none_share_the_session(
    box: Toolbox, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    await box.add_mcp(SHOP, env={"SHOP_STARTS": str(starts)})

    def on_a_loop_of_its_own(number: int) -> object:
        return asyncio.run(_add(box, number)).value

    def blocking(number: int) -> object:
        return box.call_sync("add", {"a": number}).value

    with ThreadPoolExecutor(8) as pool:
        loop = asyncio.get_running_loop()
        there = [loop.run_in_executor(pool, on_a_loop_of_its_own, n) for n in range(10)]
        none = [loop.run_in_executor(pool, blocking, n) for n in range(10)]
        here = [_add(box, n) for n in range(10)]
        values = await asyncio.gather(*there, *none)
        own = [outcome.value for outcome in await asyncio.gather(*here)]

    expected = [{"result": n + 2} for n in range(10)]
    assert values == expected * 2
    assert own == expected
    assert len(starts.read_text().split()) == 1


async def _add(box: Toolbox, number: int) -> Outcome:
    return await box.call("add", {"a": number})


def test_a_server_outlives_the_loop_that_added_it() -> None:
    box = Toolbox()
    asyncio.run(box.add_mcp(SHOP))

    assert asyncio.run(_add(box, 1)).value == {"result": 3}
    assert box.call_sync("add", {"a": 2}).value == {"result": 4}

    asyncio.run(box.close())


async def test_a_blocking_call_inside_a_coroutine_does_not_wait_for_itself(box: Toolbox) -> None:
    await box.add_mcp(SHOP)

    @box.tool
    async def nested() -> object:
        return box.call_sync("add", {"a": 1}).value

    assert (await box.call("nested")).value == {"result": 3}
    assert box.call_sync("nested").value == {"result": 3}


async def test_servers_are_closed_from_any_task_in_any_order() -> None:
    before = threading.enumerate()
    box = Toolbox()
    for name in ("a", "b", "c"):
        await asyncio.create_task(box.add_mcp(raw("plain"), name=name))

    await asyncio.create_task(box.remove_mcp("b"))
    await asyncio.to_thread(lambda: asyncio.run(box.remove_mcp("a")))
    await box.mcp["c"].close()
    await box.mcp["c"].close()

    assert list(box.mcp) == ["c"]
    assert (await box.call("c__echo")).status is Status.ERROR
    await box.close()
    await box.close()
    left = [t for t in threading.enumerate() if t not in before]
    assert not [t for t in left if t.name.startswith("wieldy-mcp")]


async def test_removing_takes_the_tools_out(box: Toolbox) -> None:
    await box.add_mcp(raw("plain"), name="first")
    await box.add_mcp(raw("plain"), name="second")

    await box.remove_mcp("first")

    assert box.names == ["second__echo", "second__ask", "second__more"]
    assert (await box.call("second__echo", {"a": 1})).ok
    with pytest.raises(KeyError, match="first"):
        await box.remove_mcp("first")


async def test_a_name_is_given_reported_or_numbered(box: Toolbox) -> None:
    for _ in range(2):
        await box.add_mcp(raw("plain"))
    await box.add_mcp(raw("plain"), name="mine")

    with pytest.raises(InvalidSource, match="of this name"):
        await box.add_mcp(raw("plain"), name="mine")
    assert list(box.mcp) == ["raw", "raw_2", "mine"]
    assert len(box) == 9


async def test_a_server_object_is_used_in_this_process(box: Toolbox) -> None:
    shop = MCPServer("inside")

    @shop.tool()
    def whoami() -> int:
        """Say in which process this is."""
        return os.getpid()

    await box.add_mcp(shop)

    assert (await box.call("whoami")).value == {"result": os.getpid()}
    assert box.call_sync("whoami").value == {"result": os.getpid()}


async def test_a_server_object_that_blocks_holds_up_no_other_server(box: Toolbox) -> None:
    slow, entered, leave = MCPServer("slow"), threading.Event(), threading.Event()

    @slow.tool()
    async def block() -> str:
        """Block the loop it runs on."""
        entered.set()
        leave.wait(120)
        return "done"

    await box.add_mcp(slow, limits=Limits(timeout=120))
    await box.add_mcp(raw("plain"))
    blocked = asyncio.create_task(box.call("block"))
    await until(entered.is_set)

    other = await box.call("echo", {"a": 1})
    leave.set()

    assert other.ok
    assert (await blocked).ok


async def test_a_server_object_may_call_the_toolbox_it_is_in(box: Toolbox) -> None:
    inner = MCPServer("inner")

    @inner.tool()
    def one() -> int:
        """One."""
        return 1

    @inner.tool()
    async def two() -> int:
        """Twice one."""
        return 2 * int((await box.call("one")).value["result"])

    await box.add_mcp(inner)

    assert (await box.call("two")).value == {"result": 2}


async def test_progress_reaches_the_reader_in_order(box: Toolbox) -> None:
    await box.add_mcp(SHOP)

    items = [item async for item in box.stream("count", {"to": 3})]

    assert [(i.done, i.total, i.message) for i in items if isinstance(i, Progress)] == [
        (1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3"),
    ]  # fmt: skip
    assert items[-2] == Text("3")
    assert isinstance(items[-1], Outcome)
    assert items[-1].value == {"result": 3}


async def test_calls_run_at_the_same_time(box: Toolbox, trace: Path) -> None:
    await box.add_mcp(SHOP, env={"SHOP_TRACE": str(trace)}, limits=Limits(timeout=120))

    waiting = [asyncio.create_task(box.call("wait", {"seconds": 30})) for _ in range(10)]
    await until(lambda: trace.read_text().split() == ["waiting"] * 10)

    assert (await box.call("add", {"a": 1})).ok
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
