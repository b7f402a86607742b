"""Calls of a worker after it gave an answer that a thread had to read."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mcp import Client

from tests.mcp.served import served
from wieldy import Toolbox

SIZES = [70_000, 100_000_000]


def give(size: int) -> str:
    return "x" * size


def measure(text: str = "") -> int:
    return len(text)


def stream(size: int) -> Iterator[str]:
    """Nothing is returned but the list of what was yielded, which is not sent again."""
    yield "x" * size
    yield "y"


@pytest.fixture
async def lone_worker() -> AsyncIterator[Toolbox]:
    """A toolbox with one worker, so that each call meets the one before."""
    async with Toolbox(processes=1) as box:
        for function in (give, measure, stream):
            box.add(function, isolation="process", timeout=60, max_result=10**9)
        yield box


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["give", "stream"])
async def test_a_worker_serves_every_tool_after_a_large_answer(
    lone_worker: Toolbox, name: str, size: int
) -> None:
    pids = set()
    calls: list[tuple[str, dict[str, Any]]] = [
        (name, {"size": size}),
        (name, {"size": 7}),
        (name, {"size": size}),
        ("measure", {"text": "abc"}),
        ("measure", {"text": "abc" * size}),
    ]
    for tool, arguments in calls:
        outcome = await lone_worker.call(tool, arguments)
        assert outcome.status == "ok", outcome
        pids.add(outcome.metadata["pid"])

    assert len(pids) == 1, "no worker was given up"


@pytest.mark.parametrize("size", SIZES)
def test_a_blocking_caller_is_answered_after_a_large_answer(size: int) -> None:
    box = Toolbox(processes=1)
    for function in (give, measure):
        box.add(function, isolation="process", timeout=60, max_result=10**9)

    sizes = [box.call_sync("give", {"size": each}).value for each in (size, 7)]

    assert list(map(len, sizes)) == [size, 7]
    assert box.call_sync("measure", {"text": "abc"}).value == 3
    asyncio.run(box.close())


@pytest.mark.parametrize("size", SIZES)
async def test_a_client_is_answered_after_a_large_answer(lone_worker: Toolbox, size: int) -> None:
    with served(lone_worker) as url:
        async with Client(url) as client:
            for each in (size, 7, size):
                given = await client.call_tool("give", {"size": each})
                assert not given.is_error
            measured = await client.call_tool("measure", {"text": "abc"})

    assert measured.structured_content == {"result": 3}
