"""Whose a task is, over real HTTP, and what becomes of tasks when their server ends."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from mcp import MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from tests.mcp.served import served
from tests.mcp.serving.tasks.task_client import Json, task_client_at
from wieldy import Toolbox
from wieldy.mcp import Tasks
from wieldy.mcp.tasks_extension import TASKS

TOKENS = {"ann": "ann-0123456789abcdef", "bob": "bob-0123456789abcdef"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    box = Toolbox(store=f"sqlite:///{tmp_path_factory.mktemp('owners')}/tasks.db")

    @box.tool(permission="confirm")
    async def wipe(path: str) -> str:
        """Wipe it."""
        return f"wiped {path}"

    with served(box, tokens=TOKENS, tasks=Tasks(after=60)) as url:
        yield url


async def test_a_task_of_another_caller_does_not_exist(address: str) -> None:
    async with (
        task_client_at(address, TOKENS["ann"]) as ann,
        task_client_at(address, TOKENS["bob"]) as bob,
    ):
        task_id = await ann.start("wipe", path="a")
        (key,) = (await ann.get(task_id))["inputRequests"]
        yes = {key: {"action": "accept", "content": {"approve": True}}}
        with pytest.raises(MCPError) as unknown:
            await bob.get("task_" + "0" * 25)
        for trying in (bob.get(task_id), bob.cancel(task_id), bob.update(task_id, yes)):
            with pytest.raises(MCPError) as refused:
                await trying
            assert refused.value.error == unknown.value.error
        waiting = await ann.get(task_id)
        await ann.update(task_id, yes)

    assert unknown.value.code == INVALID_PARAMS
    assert waiting["status"] == "input_required"


@pytest.mark.parametrize("named", [None, "another", "task_" + "0" * 25])
async def test_the_name_in_the_header_must_be_the_task(named: str | None, address: str) -> None:
    async with task_client_at(address, TOKENS["ann"]) as ann:
        task_id = await ann.start("wipe", path="a")
        answer = await post(address, task_id, named)
        assert (await post(address, task_id, task_id))["result"]["taskId"] == task_id

    assert answer["error"]["code"] == HEADER_MISMATCH


async def post(address: str, task_id: str, named: str | None) -> Json:
    """Ask for a task with a header of one's own."""
    body, headers = request("tasks/get", {"taskId": task_id})
    if named is not None:
        headers["Mcp-Name"] = named
    async with httpx2.AsyncClient() as http:
        said: Json = (await http.post(address, json=body, headers=headers)).json()
    return said


def request(method: str, params: Json, known: bool = True) -> tuple[Json, dict[str, str]]:
    """A request of ann's as it travels: its body and its headers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"form": {}},
            "extensions": {TASKS: {}} if known else {},
        },
    }
    headers = {
        "Authorization": f"Bearer {TOKENS['ann']}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    params = {**params, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers


async def read_news(address: str, task_ids: Any, known: bool = True) -> AsyncGenerator[Json, None]:
    """What comes on a stream that names tasks."""
    notifications = {"toolsListChanged": True, "taskIds": task_ids}
    body, headers = request("subscriptions/listen", {"notifications": notifications}, known)
    async with (
        httpx2.AsyncClient(timeout=120) as http,
        http.stream("POST", address, json=body, headers=headers) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("{") or (line.startswith("data:") and "{" in line):
                yield json.loads(line.removeprefix("data:"))


async def test_the_changes_of_a_task_are_told_to_its_caller_alone(address: str) -> None:
    async with (
        task_client_at(address, TOKENS["ann"]) as ann,
        task_client_at(address, TOKENS["bob"]) as bob,
    ):
        own, other = await ann.start("wipe", path="a"), await bob.start("wipe", path="b")
        async with aclosing(read_news(address, [own, other, "nothing", own])) as news:
            accepted = await anext(news)
            first = await anext(news)
            polled = await ann.get(own)
            await ann.answer(own, approve=True)
            async for last in news:
                if last["params"]["status"] == "completed":
                    break

    agreed = accepted["params"]["notifications"]
    assert (agreed["taskIds"], agreed["toolsListChanged"]) == ([own], True)
    assert first["method"] == last["method"] == "notifications/tasks"
    told = {key: value for key, value in first["params"].items() if key != "_meta"}
    assert {**told, "pollIntervalMs": 0, "resultType": "complete"} == {
        **polled,
        "pollIntervalMs": 0,
    }
    assert first["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 1}
    assert last["params"]["result"]["content"][0]["text"] == "wiped a"


@pytest.mark.parametrize(
    ("task_ids", "known", "code"),
    [
        (["a"], False, MISSING_REQUIRED_CLIENT_CAPABILITY),
        ("a", True, INVALID_PARAMS),
        ([7], True, INVALID_PARAMS),
        (["a"] * 101, True, INVALID_PARAMS),
    ],
)
async def test_a_stream_of_nonsense_is_refused(
    task_ids: Any, known: bool, code: int, address: str
) -> None:
    async with aclosing(read_news(address, task_ids, known)) as news:
        assert (await anext(news))["error"]["code"] == code
