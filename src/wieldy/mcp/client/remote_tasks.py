"""Follow a task of a server to its end, and answer what it asks on the way."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from wieldy.core.errors import InputNeeded, RemoteFailure, ServerUnavailable
from wieldy.core.task import time_limit
from wieldy.mcp.tasks_extension import (
    TASKS,
    CancelTaskRequest,
    GetTaskRequest,
    TaskParams,
    TaskStatus,
    UpdateTaskParams,
    UpdateTaskRequest,
)

from .raw_requests import first_error
from .request_extras import AnswerLost
from .server_requests import RequestAnswers

# Sends a request that may be sent twice, and returns the answer.
Ask = Callable[[Callable[[ClientSession], Awaitable[Any]]], Awaitable[Any]]
_SHORTEST_PAUSE, _USUAL_PAUSE, _MAX_PAUSE = 0.05, 1.0, 30.0
# How long a server may be out of reach before nobody knows what became of its task.
_MAX_OUTAGE = 60.0
_CANCEL_SECONDS = 1.0
_MAX_MESSAGE = 1000


class CreatedTask(types.Result):
    """A server's answer to a call that goes on as a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: float | None = None


class TaskState(types.Result):
    """How a task stands, as its server says."""

    status: TaskStatus
    status_message: str | None = None
    poll_interval_ms: float | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: types.InputRequests | None = None


class RemoteTask:
    """One task of a server.

    Args:
        ask: Sends requests to the server.
        task_id: The task.
        answered: The keys of the requests that were answered before.
    """

    def __init__(self, ask: Ask, task_id: str, answered: Iterable[str] = ()) -> None:
        self._ask = ask
        self._params = TaskParams(task_id=task_id)
        self._answered = set(answered)

    @classmethod
    def from_state(cls, ask: Ask, state: Any) -> "RemoteTask | None":
        """The task that a call waits for, if the state of the call is about one."""
        if not isinstance(state, dict) or "taskId" not in state:
            return None
        return cls(ask, str(state["taskId"]), state.get("answered", ()))

    async def answer(self, answers: types.InputResponses) -> None:
        """Give the server the answers that its task asked for."""
        sent = {key: _plain_shape(value) for key, value in answers.items()}
        params = UpdateTaskParams(task_id=self._params.task_id, input_responses=sent)
        request = UpdateTaskRequest(params=params)
        await self._ask(lambda session: session.send_request(request, types.EmptyResult))
        self._answered |= answers.keys()

    async def follow(self, tell: Callable[[str], Any]) -> types.CallToolResult:
        """Poll until the task has ended, tell what it says of itself, and return its result.

        If nobody waits for the task any more, its server is told so.

        Raises:
            InputNeeded: The task asks for something. Its state leads back to the task.
            RemoteFailure: The task failed, or its server cancelled it.
            AnswerLost: Nobody knows what became of the task.
        """
        said = None
        try:
            while True:
                task = await self._reach_state()
                if task.status == "completed":
                    return _read_result(task)
                if task.status in ("failed", "cancelled"):
                    raise _failure_of(task)
                if task.status_message and task.status_message != said:
                    said = task.status_message
                    tell(said[:_MAX_MESSAGE])
                self._raise_questions(task)
                await asyncio.sleep(_pause_of(task.poll_interval_ms))
        except asyncio.CancelledError:
            await self._cancel()
            raise

    def _raise_questions(self, task: TaskState) -> None:
        if task.status != "input_required":
            return
        # A server may repeat for a while what was answered.
        asked = task.input_requests or {}
        new = {key: _plain_shape(each) for key, each in asked.items() if key not in self._answered}
        if new:
            state = {"taskId": self._params.task_id, "answered": sorted(self._answered)}
            raise InputNeeded(new, state)

    async def _reach_state(self) -> TaskState:
        """How the task stands, also after a time in which its server can't be reached."""
        request = GetTaskRequest(params=self._params)
        deadline = time.monotonic() + _MAX_OUTAGE
        while True:
            try:
                found: TaskState = await self._ask(
                    lambda session: session.send_request(request, TaskState)
                )
                return found
            except RemoteFailure as error:
                if error.code == types.INVALID_PARAMS:
                    raise AnswerLost(f"its task is no longer there: {error}") from error
                if error.code is None:
                    # It will not say anything else that can be read.
                    raise AnswerLost(str(error)) from error
                reason: Exception = error
            except (ServerUnavailable, AnswerLost) as error:
                reason = error
            if time.monotonic() > deadline:
                raise AnswerLost(f"its task can't be reached: {reason}") from reason
            await asyncio.sleep(_USUAL_PAUSE)

    async def _cancel(self) -> None:
        request = CancelTaskRequest(params=self._params)
        # The caller has left, and does not wait for a server that does not answer.
        with suppress(Exception):
            async with time_limit(_CANCEL_SECONDS):
                await self._ask(lambda session: session.send_request(request, types.EmptyResult))


class TaskExtension(ClientExtension):
    """Announces that we know tasks, and follows those of calls that no toolbox makes."""

    identifier = TASKS

    def __init__(self, answers: RequestAnswers) -> None:
        self._answers = answers

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The shape of a task among the results of calls."""
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._follow)]

    async def _follow(self, task: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        followed = RemoteTask(lambda send: send(context.session), task.task_id)
        while True:
            try:
                return await followed.follow(lambda said: None)
            except InputNeeded as needed:
                asked = needed.requests.items()
                await followed.answer({key: await self._answer(each) for key, each in asked})

    async def _answer(self, request: dict[str, Any]) -> types.InputResponse:
        if request["method"] == "elicitation/create":
            form = types.ElicitRequest.model_validate(request).params
            elicited = await self._answers.elicit(None, form)
            if isinstance(elicited, types.ErrorData):
                return types.ElicitResult(action="decline")
            return elicited
        if request["method"] == "sampling/createMessage":
            wanted = types.CreateMessageRequest.model_validate(request).params
            sampled = await self._answers.sample(None, wanted)
            if isinstance(sampled, types.ErrorData):
                raise MCPError.from_error_data(sampled)
            return sampled
        return types.ListRootsResult(roots=[])


def _read_result(task: TaskState) -> types.CallToolResult:
    try:
        return types.CallToolResult.model_validate(task.result or {}, by_name=False)
    except ValidationError as error:
        raise RemoteFailure(f"its answer can't be read: {first_error(error)}") from error


def _failure_of(task: TaskState) -> RemoteFailure:
    if task.status == "cancelled":
        return RemoteFailure(
            f"its task was cancelled: {task.status_message or 'it does not say why'}"
        )
    error = task.error or {}
    code = error.get("code")
    said = error.get("message") or task.status_message or "it failed and did not say why"
    return RemoteFailure(str(said), code=code if isinstance(code, int) else None)


def _pause_of(poll_interval_ms: float | None) -> float:
    """How long to wait before the next look: what the server wants, within reason."""
    wanted = _USUAL_PAUSE if poll_interval_ms is None else poll_interval_ms / 1000
    # In this order, no number at all is the shortest pause.
    return min(max(_SHORTEST_PAUSE, wanted), _MAX_PAUSE)


def _plain_shape(answer: Any) -> Any:
    if isinstance(answer, BaseModel):
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return answer
