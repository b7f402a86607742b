"""Calls that keep running in the background, identified by the ids of their tasks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace

from .message_blocks import text_block
from .response_chunks import Alter, altered, interrupted_response
from .tool_response import ToolResponse, text_response

_CANCELLED = "<system-info>The tool call has been cancelled by the user.</system-info>"
# How many seconds cancelling waits for a task to end, because a tool may delay its end.
_GRACE = 1


class BackgroundTasks:
    """The running tasks of one toolkit, and the results that nobody has fetched yet."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[ToolResponse]] = {}
        self._results: dict[str, ToolResponse] = {}
        self._stopped: set[str] = set()

    async def start(
        self,
        task_id: str,
        tool: str,
        run: Callable[[], AsyncIterator[ToolResponse]],
        alter: Alter | None,
    ) -> AsyncGenerator[ToolResponse, None]:
        """Run a call in the background, and give a response with the id of its task."""
        task = asyncio.create_task(_read_responses(run(), alter))
        self._running[task_id] = task
        task.add_done_callback(lambda done: self._end_task(task_id, done))
        yield text_response(
            f"<system-reminder>The tool '{tool}' is running in the background. "
            f"Task ID: {task_id}. Look at it with view_task('{task_id}'), wait for its end with "
            f"wait_task('{task_id}'), or stop it with cancel_task('{task_id}').</system-reminder>"
        )

    def view(self, task_id: str) -> ToolResponse:
        """The result, which can be fetched once, or a response that says it is not there yet."""
        if task_id in self._running:
            return text_response(f"Task {task_id} is still running.")
        return self._results.pop(task_id, None) or _unknown_task(task_id)

    async def wait(self, task_id: str, seconds: float) -> ToolResponse:
        """Wait at most some seconds for the result, which can be fetched once."""
        task = self._running.get(task_id)
        if task is not None:
            await asyncio.wait((task,), timeout=seconds)
            if not task.done():
                said = f"Task {task_id} is still running after waiting for {seconds} seconds."
                return text_response(said)
            self._end_task(task_id, task)
        return self.view(task_id)

    async def cancel(self, task_id: str) -> ToolResponse:
        """Stop a task."""
        task = self._running.get(task_id)
        if task is None:
            if task_id not in self._results:
                return _unknown_task(task_id)
            return text_response(f"Task {task_id} has already completed and cannot be cancelled.")
        self._stopped.add(task_id)
        task.cancel()
        await asyncio.wait((task,), timeout=_GRACE)
        return text_response(f"Task {task_id} has been cancelled.")

    def _end_task(self, task_id: str, task: "asyncio.Task[ToolResponse]") -> None:
        if self._running.pop(task_id, None) is None:
            return
        # A task that was cancelled before it began has no result, not even one that says so.
        result = interrupted_response(None) if task.cancelled() else task.result()
        if result.is_interrupted and task_id in self._stopped:
            result = replace(result, content=[text_block(_CANCELLED)])
        self._stopped.discard(task_id)
        self._results[task_id] = result


async def _read_responses(
    responses: AsyncIterator[ToolResponse], alter: Alter | None
) -> ToolResponse:
    """Collect all responses of a call into one."""
    try:
        chunks = [chunk async for chunk in responses]
        if len(chunks) == 1:
            return await altered(chunks[0], alter)
        content = [item for chunk in chunks for item in chunk.content]
        stopped = any(chunk.is_interrupted for chunk in chunks)
        return await altered(ToolResponse(content, is_interrupted=stopped), alter)
    except Exception as error:
        return text_response(f"Error during async execution: {error}")


def _unknown_task(task_id: str) -> ToolResponse:
    return text_response(f"InvalidTaskIdError: Cannot find async task with ID {task_id}.")
