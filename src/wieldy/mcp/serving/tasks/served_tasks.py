"""Serve calls as tasks: give them out, tell how they stand, take answers, cancel them.

A task is a recorded call under its own id. It lives as long as the store keeps the call, and
every process that serves the store can tell of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST, MISSING_REQUIRED_CLIENT_CAPABILITY

from wieldy.core.call import Outcome
from wieldy.mcp.serving.approved_runner import Pickup
from wieldy.mcp.serving.call_results import Answer, complete_result
from wieldy.mcp.serving.elicitation import Elicitation, is_modern
from wieldy.mcp.tasks_extension import NEEDS_TASKS, TaskParams, UpdateTaskParams, knows_tasks

from .background_calls import BackgroundCalls, TaskTeller
from .task_calls import TaskCalls
from .task_questions import OpenQuestion, TaskQuestions
from .task_settings import Tasks
from .task_shape import describe_task, error_of, task_status, unknown_error, waiting_message

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.store.ledger_entry import Entry

T = TypeVar("T")
Request = ServerRequestContext[Any, Any]
# Renders the end of a call for the current caller.
Render = Callable[[Outcome], Awaitable[Answer]]
# How often it is looked whether a call has got its row, while it queues.
_QUEUE_PAUSE = 0.2


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
        status, message = task_status(entry), None
        more: Answer = {}
        if status == "working":
            message, asked = await self._describe_open(ctx, entry)
            if asked:
                status, more = "input_required", {"inputRequests": asked}
        elif status == "failed":
            if self.calls.runs_again(entry):
                status = "working"
            else:
                message, more = entry.text, {"error": unknown_error(entry)}
        elif status == "cancelled":
            message = entry.text
        else:
            try:
                more = {"result": await self._render(entry.outcome())}
            except MCPError as error:
                if error.error.code == INVALID_REQUEST:
                    # That is about the caller's view, and not about the call.
                    raise
                status, more = "failed", {"error": error_of(error)}
        facts = describe_task(entry, status, message, self._box.store.retention.days)
        return complete_result({**facts, **more})

    async def _describe_open(self, ctx: Request, entry: "Entry") -> tuple[str | None, Answer]:
        """What there is to say of a call that has not ended, and what it asks."""
        if entry.state == "started":
            return self.background.last_message(entry.call.id), {}
        asked: Answer = {}
        if entry.state == "pending":
            for each in await self._find_questions(ctx, entry):
                asked |= each.requests
        return waiting_message(entry, bool(asked)), asked

    async def _find_questions(self, ctx: Request, entry: "Entry") -> list[OpenQuestion]:
        waiting = await self.calls.find_undecided(entry)
        client = ctx.session.client_capabilities
        return await self._questions.find(entry.call.id, waiting, client)


def _missing_tasks(message: str) -> MCPError:
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, NEEDS_TASKS)
