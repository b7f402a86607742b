"""Giving a read-only tool's result again."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from wieldy import Context, DefinitionError, Secret, Text, Toolbox

SOON = 120.0


class Counted:
    """A box with a cached tool that counts how often it ran."""

    def __init__(self, seconds: float = 1000.0) -> None:
        self.runs = 0
        self.box = Toolbox()
        self.box.add(self.look, "look", cache=seconds, read_only=True)

    async def look(self, key: str = "k") -> dict[str, Any]:
        self.runs += 1
        return {"key": key, "run": self.runs}


async def test_the_same_arguments_give_the_kept_result() -> None:
    counted = Counted()

    first = await counted.box.call("look", {"key": "a"})
    second = await counted.box.call("look", '{"key": "a"}')

    assert first.value == second.value == {"key": "a", "run": 1}
    assert "cached" not in first.metadata
    assert second.metadata["cached"] is True
    assert second.call.id != first.call.id


async def test_other_arguments_run_again() -> None:
    box = Toolbox()
    runs: list[Any] = []

    @box.tool(cache=1000.0, read_only=True)
    async def look(key: Any) -> None:
        runs.append(key)

    values = ["1", 1, True, 1.0, None, [1], {"a": 1}, {"a": True}]
    for value in [*values, *values]:
        await box.call("look", {"key": value})

    assert runs == values
    assert [type(run) for run in runs] == [type(value) for value in values]


async def test_a_result_is_forgotten_after_its_time() -> None:
    counted = Counted(seconds=0.01)
    await counted.box.call("look")

    async def until_run_again() -> None:
        while counted.runs < 2:
            await counted.box.call("look")
            await asyncio.sleep(0.001)

    await asyncio.wait_for(until_run_again(), SOON)


async def test_a_kept_result_is_a_copy() -> None:
    counted = Counted()

    first = await counted.box.call("look")
    first.value["key"] = "changed by the caller"
    second = await counted.box.call("look")
    second.value["key"] = "changed again"
    third = await counted.box.call("look")

    assert third.value == {"key": "k", "run": 1}


async def test_what_can_not_be_copied_is_not_kept() -> None:
    box = Toolbox()
    runs: list[int] = []

    @box.tool(cache=1000.0, read_only=True)
    async def look() -> Any:
        runs.append(1)
        return threading.Lock()

    assert (await box.call("look")).ok
    assert (await box.call("look")).ok
    assert len(runs) == 2


async def test_errors_are_not_kept() -> None:
    box = Toolbox()
    runs: list[int] = []

    @box.tool(cache=1000.0, read_only=True)
    async def look() -> str:
        runs.append(1)
        if len(runs) == 1:
            raise OSError
        return "fine"

    assert not (await box.call("look")).ok
    assert (await box.call("look")).value == "fine"


async def test_a_tool_with_a_context_is_kept_per_agent_and_session() -> None:
    box = Toolbox()
    runs: list[Any] = []

    @box.tool(cache=1000.0, read_only=True)
    async def look(context: Context) -> Any:
        runs.append((context.scope.agent, context.scope.session))
        return len(runs)

    ann, ben = box.view(agent="ann"), box.view(agent="ben")
    values = [
        (await view.call("look", session=session)).value
        for view, session in [(ann, "1"), (ben, "1"), (ann, "2"), (ann, "1"), (ben, "1")]
    ]

    assert values == [1, 2, 3, 1, 2]


async def test_a_tool_without_a_context_is_kept_for_all() -> None:
    counted = Counted()

    await counted.box.view(agent="ann").call("look")
    await counted.box.view(agent="ben").call("look")

    assert counted.runs == 1


async def test_a_call_with_deps_is_neither_kept_nor_served() -> None:
    counted = Counted()

    for deps in ("x", None, "x", None):
        await counted.box.call("look", deps=deps)

    assert counted.runs == 3


async def test_what_was_streamed_is_not_kept() -> None:
    box = Toolbox()
    runs: list[int] = []

    @box.tool(cache=1000.0, read_only=True)
    async def look() -> AsyncIterator[str]:
        runs.append(1)
        for piece in ("a", "b") if len(runs) == 1 else ():
            yield piece

    assert (await box.call("look")).content == (Text("a"), Text("b"))
    for _ in range(2):
        assert (await box.call("look")).content == ()
    assert len(runs) == 3


async def test_a_kept_result_is_shown_in_a_stream() -> None:
    counted = Counted()
    await counted.box.call("look")

    *shown, _ = [item async for item in counted.box.stream("look")]

    assert shown == [Text('{"key":"k","run":1}')]
    assert counted.runs == 1


async def test_arguments_that_can_not_be_told_apart_are_not_mixed_up() -> None:
    class Table:
        def __init__(self, rows: int) -> None:
            self.rows = rows

        def __repr__(self) -> str:
            return "Table(…)"

    box = Toolbox()

    @box.tool(cache=1000.0, read_only=True, validation="describe")
    async def size(table: Any) -> int:
        rows: int = table.rows
        return rows

    @box.tool(cache=1000.0, read_only=True)
    async def login(token: Secret) -> str:
        return token.get_secret_value()[-1]

    assert (await box.call("size", {"table": Table(1)})).value == 1
    assert (await box.call("size", {"table": Table(2)})).value == 2
    assert (await box.call("login", {"token": Secret("secret-1")})).value == "1"
    assert (await box.call("login", {"token": Secret("secret-2")})).value == "2"
    assert (await box.call("login", {"token": "secret-3"})).value == "3"
    assert (await box.call("login", {"token": "secret-4"})).value == "4"


def test_only_a_read_only_tool_can_have_a_cache() -> None:
    async def change() -> None: ...

    with pytest.raises(DefinitionError, match="read-only"):
        Toolbox().add(change, cache=1.0)


async def test_the_memory_is_bounded_and_the_newest_are_kept() -> None:
    counted = Counted()
    for n in range(1000):
        await counted.box.call("look", {"key": str(n)})

    await counted.box.call("look", {"key": "999"})
    assert counted.runs == 1000
    await counted.box.call("look", {"key": "0"})
    assert counted.runs == 1001
