"""Long and waiting calls as tasks, for clients that know them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    InputRequiredResult,
)

import wieldy.mcp
from tests.mcp.clients import MODES, Mode, soon, text_of
from tests.mcp.serving.tasks.task_client import Json, TaskClient, task_client
from tests.mcp.waiting import until
from wieldy import CallUnknown, Context, InputNeeded, Status, Toolbox
from wieldy.mcp import Tasks
from wieldy.mcp.tasks_extension import TASKS


class Yard:
    """A box with tools that take long, wait or fail, and what they did."""

    def __init__(self, url: str) -> None:
        self.box = Toolbox(store=url)
        self.done: list[str] = []
        self.begun, self.finish = asyncio.Event(), asyncio.Event()
        for tool in (self.greet, self.build, self.breaks, self.lost, self.ask, self.ask_twice):
            self.box.add(tool)
        self.box.add(self.wipe, permission="confirm")

    def greet(self, name: str) -> str:
        """Say hello."""
        return f"Hello, {name}!"

    async def build(self, ctx: Context) -> dict[str, int]:
        """Take as long as the test wants."""
        await ctx.progress(1, 2, "laying bricks")
        self.begun.set()
        await self.finish.wait()
        self.done.append("build")
        return {"stories": 3}

    async def breaks(self) -> str:
        """Fail after a while."""
        await self.finish.wait()
        raise RuntimeError("the wall fell over")

    async def lost(self) -> str:
        """End nobody knows how."""
        await self.finish.wait()
        raise CallUnknown("lost", "the line went dead")

    async def wipe(self, path: str) -> str:
        """Wipe it."""
        self.done.append(f"wipe {path}")
        return f"wiped {path}"

    async def ask(self, ctx: Context) -> str:
        """Ask one question after the other, under the same name."""
        rounds = (ctx.state or 0) + (ctx.answers is not None)
        if rounds < 2:
            raise InputNeeded.form(f"Question {rounds + 1}?", state=rounds)
        return f"answered {ctx.answers['answer']['content']['say']}" if ctx.answers else ""

    async def ask_twice(self, ctx: Context) -> str:
        """Ask two questions at once."""
        if ctx.answers is None:
            form = InputNeeded.form("Which?").requests["answer"]
            raise InputNeeded({"left": form, "right": form})
        said = [ctx.answers[name]["content"]["say"] for name in ("left", "right")]
        return " ".join(said)

    def server(self, after: float = 0, **options: Any) -> Any:
        return wieldy.mcp.server(self.box, tasks=Tasks(after=after, **options))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/yard.db"


@asynccontextmanager
async def opened(url: str, after: float = 0, **options: Any) -> AsyncIterator[tuple[Yard, Any]]:
    yard = Yard(url)
    async with yard.box, task_client(yard.server(after), **options) as client:
        yield yard, client


async def test_a_long_call_is_a_task_with_the_result_that_a_waiting_client_gets(url: str) -> None:
    async with opened(url) as (yard, client):
        made = await client.call("build")
        await soon(yard.begun)
        working = await client.get(made["taskId"])
        yard.finish.set()
        await yard.box.outcome(made["taskId"])
        ended = await client.get(made["taskId"])
        async with Client(yard.server()) as plain:
            waited = await plain.call_tool("build", {})

    assert made.keys() - {"statusMessage"} == {
        *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"),
        *("pollIntervalMs", "_meta"),
    }
    assert (made["resultType"], made["status"], made["ttlMs"]) == ("task", "working", None)
    assert re.fullmatch("task_[0-9a-f]{25}", made["taskId"])
    assert datetime.fromisoformat(made["createdAt"]).tzinfo is not None
    assert (working["resultType"], working["status"]) == ("complete", "working")
    assert working["statusMessage"] == "1 of 2: laying bricks"
    assert (ended["status"], ended["taskId"]) == ("completed", made["taskId"])
    assert ended["result"]["structuredContent"] == {"stories": 3} == waited.structured_content
    assert CallToolResult.model_validate(ended["result"]).content == waited.content
    assert 0 < ended["ttlMs"] < 91 * 24 * 3600 * 1000
    assert "requestState" not in ended


async def test_a_call_that_ends_soon_is_answered_at_once(url: str) -> None:
    async with opened(url, after=60) as (_, client):
        result = await client.call("greet", name="Ann")
        legacy_hint = await client.call("greet", name="Bo")

    assert (result["resultType"], result["content"][0]["text"]) == ("complete", "Hello, Ann!")
    assert "taskId" not in result
    assert legacy_hint["content"][0]["text"] == "Hello, Bo!"


@pytest.mark.parametrize("mode", MODES)
async def test_clients_that_do_not_announce_tasks_see_none(mode: Mode, url: str) -> None:
    yard = Yard(url)
    yard.finish.set()
    async with yard.box, Client(yard.server(), mode=mode) as client:
        result = await client.call_tool("build", {})
        parked = await client.call_tool("wipe", {"path": "a"})
        with pytest.raises(MCPError) as refused:
            await TaskClient(client).get("task_" + "0" * 25)

    assert (text_of(result), result.is_error) == ('{"stories":3}', False)
    assert "waits for approval" in text_of(parked)
    assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    assert refused.value.error.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.parametrize("kept", [True, False])
async def test_the_extension_is_announced_where_there_is_a_store(kept: bool, url: str) -> None:
    box = Toolbox(store=url if kept else None)
    async with box, Client(wieldy.mcp.server(box)) as client:
        announced = client.server_capabilities.extensions or {}
    assert (TASKS in announced) is kept


async def test_a_tool_that_needs_tasks_is_refused_to_other_clients(url: str) -> None:
    yard = Yard(url)
    yard.finish.set()
    made = yard.server(required=["bui*"])
    async with yard.box:
        async with Client(made) as plain:
            with pytest.raises(MCPError) as refused:
                await plain.call_tool("build", {})
        async with task_client(made) as client:
            assert (await client.call("build"))["resultType"] in ("task", "complete")

    assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY


@pytest.mark.parametrize(("tool", "status"), [("breaks", "completed"), ("lost", "failed")])
async def test_a_tool_error_is_a_result_and_an_unknown_end_an_error(
    tool: str, status: str, url: str
) -> None:
    async with opened(url) as (yard, client):
        task_id = await client.start(tool)
        yard.finish.set()
        await yard.box.outcome(task_id)
        ended = await client.get(task_id)

    assert ended["status"] == status
    if status == "completed":
        assert ended["result"]["isError"] is True
        assert "the wall fell over" in ended["result"]["content"][0]["text"]
    else:
        assert "result" not in ended
        assert (ended["error"]["code"], "line went dead" in ended["error"]["message"]) == (
            -32603,
            True,
        )


async def test_a_parked_call_asks_for_approval_and_runs_once(url: str) -> None:
    async with opened(url, after=60) as (yard, client):
        task_id = await client.start("wipe", path="a")
        waiting = await client.get(task_id)
        (key,) = waiting["inputRequests"]
        ack = await client.answer(task_id, approve=True)
        late = await client.update(task_id, {key: {"action": "decline"}})
        await yard.box.outcome(task_id)
        ended = await client.get(task_id)

    assert waiting["status"] == "input_required"
    assert waiting["inputRequests"][key]["method"] == "elicitation/create"
    assert "May wipe run?" in waiting["inputRequests"][key]["params"]["message"]
    assert ack == late == {"resultType": "complete"}
    assert ended["result"]["content"][0]["text"] == "wiped a"
    assert yard.done == ["wipe a"]


@pytest.mark.parametrize(
    "answer", [{"action": "decline"}, {"action": "accept", "content": {"approve": False}}]
)
async def test_a_no_is_told_as_the_result(answer: Json, url: str) -> None:
    async with opened(url, after=60) as (yard, client):
        task_id = await client.start("wipe", path="a")
        asked = (await client.get(task_id))["inputRequests"]
        await client.update(task_id, dict.fromkeys(asked, answer))
        ended = await client.get(task_id)

    assert (ended["status"], ended["result"]["isError"], yard.done) == ("completed", True, [])


async def test_a_question_that_is_closed_stays_open_for_others(url: str) -> None:
    async with opened(url, after=60) as (yard, client):
        task_id = await client.start("wipe", path="a")
        asked = (await client.get(task_id))["inputRequests"]
        await client.update(task_id, {key: {"action": "cancel"} for key in asked})
        assert (await client.get(task_id))["inputRequests"] == asked
        await yard.box.approve(task_id, by="ann")
        assert (await client.get(task_id))["status"] == "completed"


async def test_somebody_elsewhere_settles_a_task(url: str) -> None:
    async with opened(url, after=60, elicitation_callback=None) as (yard, client):
        task_id = await client.start("wipe", path="a")
        waiting = await client.get(task_id)
        async with Toolbox(store=url) as elsewhere:
            await elsewhere.approve(task_id, by="ann")
        async with asyncio.timeout(120):
            # The server finds the decision, and runs the call.
            await yard.box.wait(task_id)
        ended = await client.get(task_id)

    # A client that can't be asked is told who can decide.
    assert (waiting["status"], "inputRequests" in waiting) == ("working", False)
    assert "A person has to agree" in waiting["statusMessage"]
    assert ended["result"]["content"][0]["text"] == "wiped a"
    assert yard.done == ["wipe a"]


async def test_each_question_of_a_tool_has_a_key_of_its_own(url: str) -> None:
    async with opened(url, after=60) as (yard, client):
        task_id = await client.start("ask")
        first = (await client.get(task_id))["inputRequests"]
        await client.answer(task_id, say="one")
        await yard.box.outcome(task_id)
        second = await client.get(task_id)
        # The answer to the first question, sent again, is not the answer to the second.
        await client.update(task_id, {key: {"action": "accept"} for key in first})
        assert (await client.get(task_id))["inputRequests"] == second["inputRequests"]
        await client.answer(task_id, say="two")
        await yard.box.outcome(task_id)
        ended = await client.get(task_id)

    assert first.keys().isdisjoint(second["inputRequests"])
    assert ended["result"]["content"][0]["text"] == "answered two"


async def test_questions_can_be_answered_one_by_one_also_after_a_restart(url: str) -> None:
    async with opened(url, after=60) as (_, client):
        task_id = await client.start("ask_twice")
        left, right = (await client.get(task_id))["inputRequests"]
        said = {"action": "accept", "content": {"say": "L"}}
        assert await client.update(task_id, {left: said, "other": 7}) == {"resultType": "complete"}
        assert (await client.get(task_id))["inputRequests"].keys() == {right}
    async with opened(url, after=60) as (yard, client):
        assert (await client.get(task_id))["inputRequests"].keys() == {right}
        await client.answer(task_id, say="R")
        await yard.box.outcome(task_id)
        ended = await client.get(task_id)

    assert ended["result"]["content"][0]["text"] == "L R"


async def test_a_tool_may_ask_before_there_is_a_task(url: str) -> None:
    yard = Yard(url)
    made = yard.server(after=60, ask_first=["ask_*"])
    async with yard.box, task_client(made) as client:
        session = client.client.session
        asked = await session.call_tool("ask_twice", {}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        answers = {key: {"action": "accept", "content": {"say": key}} for key in ("left", "right")}
        state = {"requestState": asked.request_state, "inputResponses": answers}
        params = {"name": "ask_twice", "arguments": {}, **state}
        result = await client.ask("tools/call", params)

    assert result["content"][0]["text"] == "left right"


async def test_a_running_task_is_cancelled_and_cancelling_again_changes_nothing(url: str) -> None:
    async with opened(url) as (yard, client):
        task_id = await client.start("build")
        await soon(yard.begun)
        acks = [await client.cancel(task_id)]
        outcome = await yard.box.outcome(task_id)
        acks += [await client.cancel(task_id), await client.update(task_id, {"x": {}})]
        ended = await client.get(task_id)

    assert acks == [{"resultType": "complete"}] * 3
    assert (ended["status"], outcome.status) == ("cancelled", Status.INTERRUPTED)
    assert ended.keys().isdisjoint(("result", "error", "inputRequests"))
    assert yard.done == []


async def test_a_parked_task_is_cancelled_and_never_runs(url: str) -> None:
    async with opened(url, after=60) as (yard, client):
        task_id = await client.start("wipe", path="a")
        await client.cancel(task_id)
        await client.cancel(task_id)
        ended = await client.get(task_id)
        pending = await yard.box.pending()
        with pytest.raises(Exception, match="denied"):
            await yard.box.approve(task_id)

    assert (ended["status"], pending, yard.done) == ("cancelled", [], [])


async def test_cancelling_what_has_ended_leaves_its_result(url: str) -> None:
    async with opened(url, after=60) as (yard, client):
        task_id = await client.start("wipe", path="a")
        await client.answer(task_id, approve=True)
        await yard.box.outcome(task_id)
        assert await client.cancel(task_id) == {"resultType": "complete"}
        assert (await client.get(task_id))["status"] == "completed"


@pytest.mark.parametrize(
    "task_id", ["", "nothing", "task_" + "0" * 25, "task_" + "0" * 26, "\x00", "å" * 10_000]
)
async def test_an_unknown_id_is_no_task(task_id: str, url: str) -> None:
    async with opened(url) as (_, client):
        for request in (client.get, client.cancel, lambda each: client.update(each, {})):
            with pytest.raises(MCPError, match="no such task") as error:
                await request(task_id)
            assert error.value.code == INVALID_PARAMS


async def test_a_call_of_the_program_is_no_task_of_a_client(url: str) -> None:
    async with opened(url) as (yard, client):
        outcome = await yard.box.call("greet", {"name": "Ann"})
        with pytest.raises(MCPError, match="no such task"):
            await client.get(outcome.call.id)


@pytest.mark.parametrize(
    "answers",
    [
        {"action": "perhaps"},
        {"action": "accept"},
        {"action": "accept", "content": {"approve": "yes"}},
        7,
        None,
        [],
    ],
)
async def test_an_answer_of_another_shape_is_refused_and_nothing_is_decided(
    answers: Any, url: str
) -> None:
    async with opened(url, after=60) as (yard, client):
        task_id = await client.start("wipe", path="a")
        (key,) = asked = (await client.get(task_id))["inputRequests"]
        with pytest.raises(MCPError, match=key) as error:
            await client.update(task_id, {key: answers})
        still = await client.get(task_id)

    assert error.value.code == INVALID_PARAMS
    assert (still["inputRequests"], yard.done) == (asked, [])


async def test_the_requests_themselves_are_checked(url: str) -> None:
    async with opened(url) as (_, client):
        for method, params in (
            ("tasks/get", {}),
            ("tasks/get", {"taskId": 7}),
            ("tasks/update", {"taskId": "task_" + "0" * 25}),
            ("tasks/update", {"taskId": "task_" + "0" * 25, "inputResponses": []}),
            ("tasks/cancel", {"taskId": None}),
        ):
            with pytest.raises(MCPError) as error:
                await client.ask(method, params)
            assert error.value.code == INVALID_PARAMS


async def test_a_client_that_leaves_before_it_has_a_task_takes_its_call_along(url: str) -> None:
    yard = Yard(url)
    async with yard.box:
        async with task_client(yard.server(after=60)) as client:
            calling = asyncio.create_task(client.call("build"))
            await soon(yard.begun)
            calling.cancel()
            await asyncio.wait((calling,))
        (entry,) = await yard.box.ledger.list()
    assert entry.status is Status.INTERRUPTED


async def test_tasks_that_nobody_polls_end_and_leave_nothing_in_memory(url: str) -> None:
    yard = Yard(url)
    made = yard.server()
    async with yard.box, task_client(made) as client:
        ids = [await client.start("build") for _ in range(5)]
        yard.finish.set()
        for task_id in ids:
            await yard.box.outcome(task_id)
        background = made.tasks.background
        await until(lambda: not any(map(background.is_busy, ids)))
        assert (background._running, background._said) == ({}, {})


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="after must be"):
        Tasks(after=-1)
    with pytest.raises(ValueError, match="in a list"):
        Tasks(required="build")
