"""A call's outcome as a stream of responses."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self

from wieldy.core.block import Block, Progress, Text
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallError, ToolFailed
from wieldy.core.task import current_task

from .mcp_function import RawFailure, is_raw_result
from .message_blocks import text_block
from .tool_response import Accumulated, ToolResponse, text_response

INTERRUPTED = "<system-info>The tool call has been interrupted by the user.</system-info>"
Alter = Callable[[ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None]
Explain = Callable[[str, CallError], str]


class ResponseStream:
    """An async iterator of responses; awaiting it returns the iterator itself."""

    __slots__ = ("_responses",)

    def __init__(self, responses: AsyncGenerator[ToolResponse, None]) -> None:
        self._responses = responses

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[ToolResponse]:
        return self._responses.__anext__()

    async def aclose(self) -> None:
        """Stop the call."""
        await self._responses.aclose()


class OneResponse(ResponseStream):
    """A response stream for a function with one response, which is called when it is read.

    `remote` is for a tool of an MCP server, whose blocks form one response.
    """

    __slots__ = ("_alter", "_call", "_explain", "_remote", "_run")

    def __init__(
        self,
        run: Callable[[Call], Awaitable[Outcome]],
        call: Call,
        explain: Explain,
        alter: Alter | None,
        remote: bool = False,
    ) -> None:
        self._run = run
        self._call: Call | None = call
        self._explain = explain
        self._alter = alter
        self._remote = remote

    async def __anext__(self) -> ToolResponse:
        call = self._call
        if call is None:
            raise StopAsyncIteration
        self._call = None
        try:
            outcome = await self._run(call)
        except asyncio.CancelledError:
            current_task().uncancel()
            response: ToolResponse | None = interrupted_response(None)
        else:
            value = outcome.value
            if type(value) is ToolResponse and outcome._content is None and outcome.error is None:
                response = value
            else:
                response = _Reading(self._explain, self._remote).end(outcome)
        if response is None:
            raise StopAsyncIteration
        if self._alter is not None:
            response = await altered(response, self._alter)
        if isinstance(response, ToolResponse):
            response.is_last = True
        return response

    async def aclose(self) -> None:
        """Ask for nothing more."""
        self._call = None


async def stream_responses(
    items: AsyncIterator[Block | Progress | Outcome], explain: Explain, alter: Alter | None
) -> AsyncGenerator[ToolResponse, None]:
    """The responses of a call, altered one by one.

    If the reading task is cancelled, AgentScope promises a last response instead of an
    exception, so the cancellation is caught here.
    """
    reading = _Reading(explain)
    task = current_task()
    before = task.cancelling()
    given: ToolResponse | None = None
    try:
        async with aclosing(items) as opened:  # type: ignore[type-var]
            async for item in opened:
                response = reading.take(item)
                if response is not None:
                    given = await altered(response, alter)
                    given.is_last = given.is_last or isinstance(item, Outcome)
                    yield given
    except asyncio.CancelledError:
        if task.cancelling() <= before:
            raise
        task.uncancel()
        given = await altered(interrupted_response(reading.last), alter)
        yield given
    # Only now is it known which chunk of a generator is the last. Its keepers see the mark.
    if given is not None:
        given.is_last = True


async def altered(response: ToolResponse, alter: Alter | None) -> ToolResponse:
    """The response after postprocessing."""
    if alter is None:
        return response
    changed = alter(response)
    if inspect.isawaitable(changed):
        changed = await changed
    return response if changed is None else changed


def interrupted_response(last: ToolResponse | None) -> ToolResponse:
    """The last response of an interrupted call: its content so far, and a note."""
    said = text_block(INTERRUPTED)
    if last is None:
        return ToolResponse([said], stream=True, is_interrupted=True)
    return replace(last, content=[*last.content, said], is_last=True, is_interrupted=True)


class _Reading(Accumulated):
    """The part of a call's output that has been read so far."""

    def __init__(self, explain: Explain, remote: bool = False) -> None:
        super().__init__()
        self._explain = explain
        self._remote = remote
        self._read = 0

    def take(self, item: Block | Progress | Outcome) -> Any:
        """The response that this item makes, if it makes one."""
        if isinstance(item, Outcome):
            return self.end(item)
        if isinstance(item, Progress):
            return None
        self._read += 1
        return self.add(item)

    def end(self, outcome: Outcome) -> Any:
        """The last response of a call; None if everything has been returned before."""
        error = outcome.error
        if outcome.status is Status.INTERRUPTED:
            return interrupted_response(self.last)
        if outcome.status is Status.PENDING:
            return text_response(f"Error: {outcome.text}")
        if error is None:
            return self._returned_value(outcome)
        if isinstance(error, ToolFailed):
            if isinstance(error.original, asyncio.CancelledError):
                return interrupted_response(self.last)
            if isinstance(error.original, RawFailure):
                return error.original.result
            if error.streaming:
                raise error if error.redacted else error.original
        return text_response(self._explain(outcome.call.tool, error))

    def _returned_value(self, outcome: Outcome) -> Any:
        """The return value of a call, besides the output that it has streamed."""
        if self._remote and is_raw_result(outcome.value):
            return outcome.value
        rest = outcome.content[self._read :]
        if not rest and not self._remote:
            # A generator that has ended, or that gave nothing; only a function gives None.
            if self._read or outcome.value is not None:
                return None
            rest = (Text("null"),)
        return self.with_rest(rest, outcome.metadata.get("mcp"))
