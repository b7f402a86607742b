"""Whose a task is, over real HTTP, and what becomes of tasks when their server ends."""

from collections.abc import Iterator

import httpx2
import pytest
from mcp import MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS

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
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
    }
    headers = {
        "Authorization": f"Bearer {TOKENS['ann']}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tasks/get",
        **({} if named is None else {"Mcp-Name": named}),
    }
    params = {"taskId": task_id, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params}
    async with httpx2.AsyncClient() as http:
        response = await http.post(address, json=body, headers=headers)
    said: Json = response.json()
    return said
