"""Calls of servers that go on as tasks: followed to their end, asked, cancelled, lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, PaginatedRequestParams

import wieldy.mcp
from tests.mcp.clients import soon
from tests.mcp.serving.tasks.task_client import task_client
from wieldy import Context, InputNeeded, Progress, Status, Toolbox
from wieldy.mcp import Tasks
from wieldy.mcp.tasks_extension import TASKS, TaskParams, UpdateTaskParams

Json = dict[str, Any]


class Yard:
    """A server whose calls are tasks, and a toolbox that uses it."""

    def __init__(self, folder: Path) -> None:
        self.begun, self.finish = asyncio.Event(), asyncio.Event()
        self.inner = Toolbox(store=f"sqlite:///{folder}/inner.db")
        self.outer = Toolbox(store=f"sqlite:///{folder}/outer.db")
        for tool in (self.build, self.order, self.breaks):
            self.inner.add(tool)

    async def build(self, ctx: Context) -> Json:
        """Take as long as the test wants."""
        await ctx.progress(1, 2, "laying bricks")
        self.begun.set()
        await self.finish.wait()
        return {"stories": 3}

    async def order(self, ctx: Context) -> str:
        """Ask what is wanted, twice."""
        wanted = [*(ctx.state or []), *([ctx.answers] if ctx.answers else [])]
        if len(wanted) < 2:
            raise InputNeeded.form(f"Part {len(wanted) + 1}?", state=wanted)
        return " and ".join(each["answer"]["content"]["part"] for each in wanted)

    async def breaks(self) -> str:
        """Fail."""
        await self.finish.wait()
        raise RuntimeError("the wall fell over")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Toolbox]:
        async with self.inner, self.outer:
            await self.outer.add_mcp(wieldy.mcp.server(self.inner, tasks=Tasks(after=0)), name="in")
            yield self.outer


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


async def test_a_task_is_followed_to_its_end_with_what_it_says(yard: Yard) -> None:
    said: list[str] = []
    async with yard.opened() as box:
        async for item in box.stream("build"):
            if isinstance(item, Progress):
                said.append(str(item.message))
                yard.finish.set()
        (entry,) = await box.ledger.list()
        (behind,) = await yard.inner.ledger.list()

    assert said[0].endswith("laying bricks")
    assert (entry.status, entry.value) == (Status.OK, {"stories": 3})
    assert behind.call.id.startswith("task_")


async def test_an_error_of_the_tool_is_one_here(yard: Yard) -> None:
    yard.finish.set()
    async with yard.opened() as box:
        outcome = await box.call("breaks")
    assert (outcome.status, "the wall fell over" in outcome.text) == (Status.ERROR, True)


async def test_what_a_task_asks_is_asked_here_and_its_answer_goes_back(yard: Yard) -> None:
    async with yard.opened() as box:
        receipt = await box.call("order")
        texts = []
        for part in ("door", "window"):
            (parked,) = await box.pending()
            ((key, request),) = (parked.requests or {}).items()
            texts.append(request["params"]["message"])
            answer = {"action": "accept", "content": {"part": part}}
            outcome = await box.answer(receipt.call.id, {key: answer})

    assert texts == ["Part 1?", "Part 2?"]
    assert (receipt.status, outcome.value) == (Status.PENDING, "door and window")


async def test_a_call_that_is_stopped_here_is_cancelled_there(yard: Yard) -> None:
    async with yard.opened() as box:
        calling = asyncio.create_task(box.call("build"))
        await soon(yard.begun)
        (behind,) = await yard.inner.ledger.list()
        (entry,) = await box.ledger.list()
        assert await box.interrupt(entry.call.id)
        stopped = await calling
        ended = await yard.inner.outcome(behind.call.id)

    assert (stopped.status, ended.status) == (Status.INTERRUPTED, Status.INTERRUPTED)


async def test_a_task_that_is_cancelled_there_fails_here(yard: Yard) -> None:
    async with yard.opened() as box:
        calling = asyncio.create_task(box.call("build"))
        await soon(yard.begun)
        (behind,) = await yard.inner.ledger.list()
        await yard.inner.interrupt(behind.call.id)
        outcome = await calling
    assert (outcome.status, "task was cancelled" in outcome.text) == (Status.ERROR, True)


async def test_a_call_without_the_toolbox_gets_the_result_too(yard: Yard) -> None:
    yard.finish.set()
    async with yard.inner, yard.outer as box:
        made = wieldy.mcp.server(yard.inner, tasks=Tasks(after=0))
        answer = {"action": "accept", "content": {"part": "door"}}
        await box.add_mcp(made, name="in", on_elicit=lambda request: answer)
        server = box.mcp["in"]
        built = await server.call_tool("build")
        ordered = await server.call_tool("order")
    assert built.structured_content == {"stories": 3}
    assert getattr(ordered.content[0], "text", None) == "door and door"


async def test_tasks_pass_through_a_gateway(yard: Yard) -> None:
    async with (
        yard.opened() as box,
        task_client(wieldy.mcp.server(box, tasks=Tasks(after=60))) as client,
    ):
        task_id = await client.start("order")
        asked = (await client.get(task_id))["inputRequests"]
        await client.answer(task_id, part="door")
        await box.outcome(task_id)
        await client.answer(task_id, part="window")
        ended = await client.end_of(task_id)

    ((_, request),) = asked.items()
    assert "Part 1?" in request["params"]["message"]
    assert ended["result"]["content"][0]["text"] == "door and window"


class OddServer(Server[Any]):
    """A server whose only call is a task of which it says what a test wants."""

    def __init__(self, *states: Any) -> None:
        super().__init__("odd")
        self.extensions[TASKS] = {}
        self.states = list(states)
        self.asked: list[str] = []
        self.add_request_handler("tools/list", PaginatedRequestParams, self._list)
        self.add_request_handler("tools/call", CallToolRequestParams, self._call)
        self.add_request_handler("tasks/get", TaskParams, self._get)
        self.add_request_handler("tasks/update", UpdateTaskParams, self._take)
        self.add_request_handler("tasks/cancel", TaskParams, self._take)

    async def _list(self, ctx: Any, params: Any) -> Json:
        tools = [{"name": "work", "inputSchema": {"type": "object"}}]
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}

    async def _call(self, ctx: Any, params: Any) -> Json:
        return {**_task("working"), "resultType": "task"}

    async def _get(self, ctx: Any, params: Any) -> Json:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return dict(state)

    async def _take(self, ctx: Any, params: Any) -> Json:
        self.asked.append(type(params).__name__)
        return {}


def _task(status: str, **more: Any) -> Json:
    at = "2026-07-28T00:00:00Z"
    facts = {"taskId": "t1", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": None}
    return {**facts, "pollIntervalMs": 1, **more}


DONE = _task("completed", result={"content": [{"type": "text", "text": "done"}]})
FORM = InputNeeded.form("Which?").requests["answer"]


@pytest.mark.parametrize(
    ("states", "status", "text"),
    [
        ([_task("working", pollIntervalMs=-5), DONE], Status.OK, "done"),
        ([_task("working", pollIntervalMs=None), DONE], Status.OK, "done"),
        ([MCPError(-32603, "busy"), DONE], Status.OK, "done"),
        ([_task("failed", error={"code": -32000, "message": "no"})], Status.ERROR, "no"),
        ([_task("failed")], Status.ERROR, "did not say why"),
        ([_task("failed", error={"code": "x", "message": 7})], Status.ERROR, "7"),
        ([_task("cancelled", statusMessage="closed")], Status.ERROR, "closed"),
        ([_task("completed", result={"content": 7})], Status.ERROR, "content"),
        ([_task("completed")], Status.ERROR, "content"),
        ([_task("dancing")], Status.UNKNOWN, "can't be read"),
        ([_task("input_required", inputRequests={"a": {"method": "x"}})], Status.UNKNOWN, "read"),
        ([MCPError(INVALID_PARAMS, "never heard of it")], Status.UNKNOWN, "no longer there"),
    ],
)
async def test_whatever_a_server_says_of_its_task_becomes_an_outcome(
    states: list[Any], status: Status, text: str
) -> None:
    async with Toolbox() as box:
        await box.add_mcp(OddServer(*states), name="odd")
        outcome = await box.call("work")
    assert (outcome.status, text in outcome.text) == (status, True), outcome.text


async def test_what_a_task_says_of_itself_is_progress_here() -> None:
    half = _task("working", statusMessage="half")
    async with Toolbox() as box:
        await box.add_mcp(OddServer(half, half, DONE), name="odd")
        items = [item async for item in box.stream("work")]
    assert [item.message for item in items if isinstance(item, Progress)] == ["half"]


async def test_a_question_that_a_server_repeats_is_asked_once() -> None:
    waiting = _task("input_required", inputRequests={"size": FORM})
    odd = OddServer(waiting, waiting, waiting, DONE)
    async with Toolbox() as box:
        await box.add_mcp(odd, name="odd")
        receipt = await box.call("work")
        outcome = await box.answer(receipt.call.id, {"size": {"action": "decline"}})
    assert (receipt.status, outcome.value) == (Status.PENDING, "done")
    assert odd.asked == ["UpdateTaskParams"]
