"""Serve calls as tasks: give them out, tell how they stand, take answers, cancel them.

A task is a recorded call under its own id. It lives as long as the store keeps the call, and
every process that serves the store can tell of it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
)

from wieldy.core.call import Outcome
from wieldy.core.timestamps import iso_time
from wieldy.mcp.serving.approved_runner import Pickup
from wieldy.mcp.serving.call_results import PERSON_HERE, Answer, complete_result
from wieldy.mcp.serving.elicitation import Elicitation, is_modern
from wieldy.mcp.tasks_extension import (
    ENDED_TASK,
    NEEDS_TASKS,
    TaskParams,
    TaskStatus,
    UpdateTaskParams,
    knows_tasks,
)

from .background_calls import BackgroundCalls, TaskTeller
from .task_calls import TaskCalls
from .task_questions import OpenQuestion, TaskQuestions
from .task_settings import Tasks

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.store.ledger_entry import Entry
T = TypeVar("T")
Request = ServerRequestContext[Any, Any]
# Renders the end of a call for the current caller.
Render = Callable[[Outcome], Awaitable[Answer]]
# How often it is looked whether a call has got its row, while it queues.
_QUEUE_PAUSE = 0.2
if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.store.ledger_entry import Entry
_DAY_MS = 24 * 3600 * 1000
_SHORTEST_POLL, _MAX_POLL = 500, 10_000


class ServedTasks:
    """The tasks of a served box.

    Only clients that announce the extension get them, and only if the box has a store.
    """

    def __init__(
        self, box: Any, settings: Tasks | None, asking: Elicitation, pickup: Pickup, render: Render
    ) -> None:
        kept = getattr(box, "recorded", False) and hasattr(box, "desk")
        self.settings = settings if kept else None
        self.background = BackgroundCalls(pickup.traffic)
        self._box = box
        self.calls = TaskCalls(box, self.background, pickup)
        self._questions = TaskQuestions(box, asking, self.background)
        self._render = render

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Let tasks go on during the `async with` block."""
        return self.background.serving(self.calls.leave)

    def fits(self, ctx: Request) -> bool:
        """Whether the client of a request may get a task for its call."""
        if self.settings is None or not is_modern(ctx):
            return False
        return knows_tasks(ctx.session.client_capabilities)

    def check_tool(self, ctx: Request, tool: str) -> None:
        """Refuse a call that only clients with tasks may make."""
        if self.settings is not None and self.settings.requires(tool) and not self.fits(ctx):
            raise _missing_tasks(f"{tool} takes long, and is only for clients with tasks.")

    def asks_first(self, tool: str) -> bool:
        """Whether a tool's questions come before there is a task."""
        return self.settings is not None and self.settings.asks_first(tool)

    def check_request(self, ctx: Request) -> None:
        """Refuse a request about tasks of a client that did not announce that it knows them."""
        if not self.fits(ctx):
            raise _missing_tasks("This request is only for clients with tasks.")

    async def answer_in_time(
        self, task_id: str, work: Coroutine[Any, Any, T], teller: TaskTeller
    ) -> T | None:
        """Do the work of a call; None if that takes long, and goes on as a task.

        The client waits for the work as long as the call has no row, such as in a queue.
        """
        assert self.settings is not None
        running = self.background.start(task_id, work)
        try:
            done, _ = await asyncio.wait((running,), timeout=self.settings.after)
            while not done and not await self.calls.is_recorded(task_id):
                done, _ = await asyncio.wait((running,), timeout=_QUEUE_PAUSE)
        except BaseException:
            # Nobody waits for the call any more, and nobody knows its id.
            running.cancel()
            await asyncio.wait((running,))
            raise
        if done:
            return running.result()
        teller.leave()
        return None

    async def create(self, ctx: Request, task_id: str) -> Answer:
        """The answer to a call that has become a task."""
        told = await self.describe(ctx, await self.calls.find(task_id))
        for name in ("inputRequests", "result", "error"):
            told.pop(name, None)
        return {**told, "resultType": "task"}

    async def get(self, ctx: Request, params: TaskParams) -> Answer:
        """How a task stands, with its result if it has ended."""
        return await self.describe(ctx, await self._find(ctx, params))

    async def update(self, ctx: Request, params: UpdateTaskParams) -> Answer:
        """Take answers to what a task asks. Answers to what is not asked are ignored."""
        entry = await self._find(ctx, params)
        if entry.state == "pending":
            asked = await self._find_questions(ctx, entry)
            read = [(each, each.read_answers(params.input_responses)) for each in asked]
            for each, answers in read:
                if answers:
                    await self._questions.take(entry.call.id, each, answers)
        return complete_result({})

    async def cancel(self, ctx: Request, params: TaskParams) -> Answer:
        """Stop a task, as far as that is possible here."""
        await self.calls.cancel(await self._find(ctx, params))
        return complete_result({})

    async def _find(self, ctx: Request, params: TaskParams) -> "Entry":
        self.check_request(ctx)
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != (
            params.task_id
        ):
            raise MCPError(HEADER_MISMATCH, f"The header {MCP_NAME_HEADER} must be the taskId.")
        return await self.calls.find_current(params.task_id)

    async def describe(self, ctx: Request, entry: "Entry") -> Answer:
        """A task as `tasks/get` tells of it."""
        status, message = _task_status(entry), None
        more: Answer = {}
        if status == "working":
            message, asked = await self._describe_open(ctx, entry)
            if asked:
                status, more = "input_required", {"inputRequests": asked}
        elif status == "failed":
            if self.calls.runs_again(entry):
                status = "working"
            else:
                message, more = entry.text, {"error": _unknown_error(entry)}
        elif status == "cancelled":
            message = entry.text
        else:
            try:
                more = {"result": await self._render(entry.outcome())}
            except MCPError as error:
                if error.error.code == INVALID_REQUEST:
                    # That is about the caller's view, and not about the call.
                    raise
                status, more = "failed", {"error": _error_of(error)}
        facts = _describe_task(entry, status, message, self._box.store.retention.days)
        return complete_result({**facts, **more})

    async def _describe_open(self, ctx: Request, entry: "Entry") -> tuple[str | None, Answer]:
        """What there is to say of a call that has not ended, and what it asks."""
        if entry.state == "started":
            return self.background.last_message(entry.call.id), {}
        asked: Answer = {}
        if entry.state == "pending":
            for each in await self._find_questions(ctx, entry):
                asked |= each.requests
        return _waiting_message(entry, bool(asked)), asked

    async def _find_questions(self, ctx: Request, entry: "Entry") -> list[OpenQuestion]:
        waiting = await self.calls.find_undecided(entry)
        client = ctx.session.client_capabilities
        return await self._questions.find(entry.call.id, waiting, client)


def _missing_tasks(message: str) -> MCPError:
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, NEEDS_TASKS)


def _task_status(entry: "Entry") -> TaskStatus:
    """How a call stands, as far as its row alone can say that."""
    if not entry.ended:
        return "working"
    if entry.state == "interrupted" or entry.metadata.get("cancelled"):
        return "cancelled"
    return "failed" if entry.state == "unknown" else "completed"


def _describe_task(
    entry: "Entry", status: TaskStatus, message: str | None, days: float | None
) -> dict[str, Any]:
    """The facts about a task that every answer about it has.

    An open call is always kept; one that has ended is kept for so many days after that.
    """
    ended = entry.ended_at if status in ENDED_TASK else None
    changed = [at for at in (entry.proposed_at, entry.started_at, ended) if at is not None]
    kept_ms = None
    if ended is not None and days is not None:
        kept_ms = int(days * _DAY_MS + (ended - entry.proposed_at) * 1000)
    facts: dict[str, Any] = {
        "taskId": entry.call.id,
        "status": status,
        "createdAt": iso_time(entry.proposed_at),
        "lastUpdatedAt": iso_time(max(changed)),
        "ttlMs": kept_ms,
        "pollIntervalMs": _poll_interval(time.time() - max(changed)),
    }
    return facts if message is None else {**facts, "statusMessage": message}


def _poll_interval(age: float) -> int:
    """How long a client should wait, in milliseconds: a tenth of the time that nothing changed."""
    return min(max(int(age * 100), _SHORTEST_POLL), _MAX_POLL)


def _waiting_message(entry: "Entry", asked: bool) -> str:
    """What a call waits for."""
    if entry.state == "approved":
        return "It was approved, and is about to run."
    if "waits_for" in entry.metadata:
        below = ", ".join(entry.metadata["waits_for"])
        return f"It goes on when these calls have ended: {below}. {PERSON_HERE}."
    if "input" in entry.metadata:
        said = "It waits for answers."
        return said if asked else f"{said} A person has to give them."
    said = "It waits for approval."
    return said if asked else f"{said} {PERSON_HERE}."


def _unknown_error(entry: "Entry") -> dict[str, Any]:
    """The error of a call whose end nobody knows."""
    return {"code": INTERNAL_ERROR, "message": entry.text}


def _error_of(error: MCPError) -> dict[str, Any]:
    """An error of the protocol as the outcome of a task."""
    facts = {"code": error.error.code, "message": error.error.message}
    return facts if error.error.data is None else {**facts, "data": error.error.data}
