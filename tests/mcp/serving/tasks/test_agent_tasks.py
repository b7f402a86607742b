"""The run of an agent as a task."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import wieldy.mcp
from tests.mcp.clients import soon
from tests.mcp.serving.tasks.task_client import TaskClient, task_client
from tests.mcp.serving.test_served_agents import REFUND, Desk
from wieldy import Call, Toolbox
from wieldy.core.call import nested_run_id
from wieldy.mcp import Tasks

BOTH = [REFUND, Call("refund", {"order": "B-2"})]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/desk.db"


@asynccontextmanager
async def served(desk: Desk, after: float = 60, **options: Any) -> AsyncIterator[TaskClient]:
    made = wieldy.mcp.server(desk.served.box, view=desk.served.view, tasks=Tasks(after=after))
    async with (
        desk.agent,
        desk.served.keep_runs().keeping(),
        task_client(made, **options) as client,
    ):
        yield client


async def test_all_that_a_run_waits_for_is_asked_and_answered_one_by_one(url: str) -> None:
    desk = Desk(BOTH, "Both are paid.", store=url)
    async with served(desk) as client:
        task_id = await client.start("desk", query="Pay back.")
        first, second = (await client.get(task_id))["inputRequests"].items()
        yes = {"action": "accept", "content": {"approve": True}}
        await client.update(task_id, {first[0]: yes})
        left = await client.get(task_id)
        await client.update(task_id, {second[0]: yes, first[0]: {"action": "decline"}})
        ended = await client.end_of(task_id)

    assert first[1]["params"]["message"].startswith("desk asks: May refund run?")
    assert (left["status"], left["inputRequests"]) == ("input_required", dict([second]))
    assert ended["result"]["content"][0]["text"] == "Both are paid."
    assert sorted(desk.ran) == ["refund A-17", "refund B-2"]


async def test_a_run_that_somebody_else_decides_on_goes_on(url: str) -> None:
    desk = Desk(REFUND, "Paid.", store=url)
    async with served(desk, elicitation_callback=None) as client:
        task_id = await client.start("desk", query="Pay back.")
        waiting = await client.get(task_id)
        async with Toolbox(store=url) as elsewhere:
            (parked,) = await elsewhere.pending()
            await elsewhere.approve(parked.id, by="ann")
        ended = await client.end_of(task_id)

    assert waiting["status"] == "working"
    assert (
        parked.id in waiting["statusMessage"]
        and "A person has to agree" in waiting["statusMessage"]
    )
    assert (ended["result"]["content"][0]["text"], desk.ran) == ("Paid.", ["refund A-17"])


async def test_a_run_that_waits_is_cancelled_with_all_that_it_waits_for(url: str) -> None:
    desk = Desk(BOTH, "Both are paid.", store=url)
    async with served(desk) as client:
        task_id = await client.start("desk", query="Pay back.")
        await client.cancel(task_id)
        ended = await client.end_of(task_id)
        run = await desk.agent.toolbox.store.runs.get(nested_run_id(task_id))
        pending = await desk.agent.toolbox.pending()

    assert (ended["status"], run and run.state, pending) == ("cancelled", "cancelled", [])
    assert desk.ran == []


async def test_a_run_under_way_is_cancelled_and_not_taken_up_again(url: str) -> None:
    begun = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    desk = Desk(Call("wait", {}), "Never.", store=url)
    desk.agent.toolbox.add(wait, tags=[desk.agent.tag], read_only=True)
    async with served(desk, after=0) as client:
        task_id = await client.start("desk", query="Wait.")
        await soon(begun)
        await client.cancel(task_id)
        ended = await client.end_of(task_id)
        run = await desk.agent.toolbox.store.runs.get(nested_run_id(task_id))

    assert (ended["status"], run and run.state) == ("cancelled", "cancelled")


async def test_a_run_under_way_goes_on_after_the_server_was_stopped(url: str) -> None:
    begun = asyncio.Event()

    async def wait() -> str:
        """Wait in the first process, and not in the second."""
        begun.set()
        await finish.wait()
        return "waited"

    finish = asyncio.Event()
    desk = Desk(Call("wait", {}), "Never.", store=url)
    desk.agent.toolbox.add(wait, tags=[desk.agent.tag], read_only=True)
    made = wieldy.mcp.server(desk.served.box, view=desk.served.view, tasks=Tasks(after=0))
    async with desk.agent, task_client(made) as client:
        task_id = await client.start("desk", query="Wait.")
        await soon(begun)
    finish.set()
    later = Desk("It is there.", store=url)
    later.agent.toolbox.add(wait, tags=[later.agent.tag], read_only=True)
    async with served(later) as client:
        ended = await client.end_of(task_id)

    assert (ended["status"], ended.get("statusMessage")) == ("completed", None)
    assert ended["result"]["content"][0]["text"] == "It is there."
