"""A client that knows MCP's tasks, and shows what it is sent as it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from mcp.client.extension import advertise
from mcp_types import Result
from pydantic import ConfigDict

from tests.mcp.clients import connected
from wieldy.mcp.client.raw_requests import ask_raw
from wieldy.mcp.tasks_extension import (
    ENDED_TASK,
    TASKS,
    CancelTaskRequest,
    GetTaskRequest,
    TaskParams,
    UpdateTaskParams,
    UpdateTaskRequest,
)

Json = dict[str, Any]


class AnyResult(Result):
    """Whatever a server answers."""

    model_config = ConfigDict(extra="allow")


class TaskClient:
    """The requests of the extension."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Json:
        """Call a tool."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request as it is."""
        return await ask_raw(self.client, method, params)

    async def start(self, tool: str, **arguments: Any) -> str:
        """Call a tool whose call becomes a task, and give the task's id."""
        made = await self.call(tool, **arguments)
        assert made["resultType"] == "task", made
        return str(made["taskId"])

    async def get(self, task_id: str) -> Json:
        """Ask for a task."""
        return await self._send(GetTaskRequest(params=TaskParams(task_id=task_id)))

    async def end_of(self, task_id: str) -> Json:
        """Poll a task until it has ended."""
        async with asyncio.timeout(120):
            while True:
                task = await self.get(task_id)
                if task["status"] in ENDED_TASK:
                    return task
                await asyncio.sleep(0.02)

    async def cancel(self, task_id: str) -> Json:
        """Cancel a task."""
        return await self._send(CancelTaskRequest(params=TaskParams(task_id=task_id)))

    async def update(self, task_id: str, answers: Json) -> Json:
        """Answer what a task asks."""
        params = UpdateTaskParams(task_id=task_id, input_responses=answers)
        return await self._send(UpdateTaskRequest(params=params))

    async def answer(self, task_id: str, **content: Any) -> Json:
        """Give the same answer to everything that a task asks now."""
        asked = (await self.get(task_id))["inputRequests"]
        return await self.update(
            task_id, {key: {"action": "accept", "content": content} for key in asked}
        )

    async def _send(self, request: Any) -> Json:
        result = await self.client.session.send_request(request, AnyResult)
        dumped = result.model_dump(by_alias=True, mode="json", exclude_unset=True)
        return {key: value for key, value in dumped.items() if key != "_meta"}


async def nobody_asks(context: Any, params: Any) -> Any:
    """A client that announces elicitation, and is asked only by its tasks."""
    raise AssertionError("nobody is asked directly")


@asynccontextmanager
async def task_client(server: Any, **options: Any) -> AsyncIterator[TaskClient]:
    """A client in this process that announces tasks, and elicitation unless that is None."""
    options.setdefault("elicitation_callback", nobody_asks)
    async with Client(server, extensions=[advertise(TASKS)], **options) as client:
        yield TaskClient(client)


@asynccontextmanager
async def task_client_at(url: str, token: str | None = None) -> AsyncIterator[TaskClient]:
    """The same over HTTP."""
    known = [advertise(TASKS)]
    async with connected(url, token, extensions=known, elicitation_callback=nobody_asks) as client:
        yield TaskClient(client)
