"""MCP's extension for tasks, as the protocol of 2026-07-28 has it: its names and its requests."""

from typing import Any, Literal

from mcp_types import ClientCapabilities, Request, RequestParams

TASKS = "io.modelcontextprotocol/tasks"
# The capability that a client lacks which does not know tasks, as an error names it.
NEEDS_TASKS: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
ENDED_TASK: tuple[TaskStatus, ...] = ("completed", "failed", "cancelled")


class TaskParams(RequestParams):
    """What `tasks/get` and `tasks/cancel` say."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """What `tasks/update` says."""

    input_responses: dict[str, Any]


class GetTaskRequest(Request[TaskParams, Literal["tasks/get"]]):
    """How does a task stand?"""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class UpdateTaskRequest(Request[UpdateTaskParams, Literal["tasks/update"]]):
    """Here is what a task asked for."""

    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateTaskParams
    name_param = "taskId"


class CancelTaskRequest(Request[TaskParams, Literal["tasks/cancel"]]):
    """A task is not wanted any more."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


def knows_tasks(client: ClientCapabilities | None) -> bool:
    """Whether a client has announced that it knows tasks."""
    return client is not None and TASKS in (client.extensions or {})
