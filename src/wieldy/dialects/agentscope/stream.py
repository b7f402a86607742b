"""A call's outcome as a stream of responses."""

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
)
from typing import Any

from wieldy.core.block import Block, Progress, Text, to_text
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.current import current_task
from wieldy.core.errors import CallError, ToolFailed

from .blocks import Content, content_of, text_block
from .mcp_function import raw_failure, whole_response
from .response import Chunk, ToolResponse, error_response

INTERRUPTED = "The tool call was interrupted by the user."
Items = AsyncIterator[Block | Progress | Outcome] | AsyncIterator[Block | Outcome]
Alter = Callable[[ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None]
Explain = Callable[[str, CallError], str]


class ResponseStream:
    """An async iterator of responses that may also be awaited, which gives itself."""

    def __init__(self, responses: AsyncGenerator[ToolResponse, None]) -> None:
        self._responses = responses

    def __await__(self) -> Generator[Any, None, "ResponseStream"]:
        yield from ()
        return self

    def __aiter__(self) -> "ResponseStream":
        return self

    def __anext__(self) -> Awaitable[ToolResponse]:
        return self._responses.__anext__()

    async def aclose(self) -> None:
        """Stop the call."""
        await self._responses.aclose()


class Once:
    """The same for a function that gives one response: it is called when that is asked for."""

    __slots__ = ("_alter", "_call", "_explain", "_rest", "_run", "_whole")

    def __init__(
        self,
        run: Callable[[Call], Awaitable[Outcome]],
        call: Call,
        explain: Explain,
        alter: Alter | None,
        whole: bool = False,
    ) -> None:
        self._run = run
        # Of an MCP server's tool, whose blocks are one response together.
        self._whole = whole
        self._call: Call | None = call
        self._explain = explain
        self._alter = alter
        self._rest: AsyncGenerator[ToolResponse, None] | None = None

    def __await__(self) -> Generator[Any, None, "Once"]:
        yield from ()
        return self

    def __aiter__(self) -> "Once":
        return self

    async def __anext__(self) -> ToolResponse:
        call = self._call
        if call is None:
            if self._rest is None:
                raise StopAsyncIteration
            return await self._rest.__anext__()
        self._call = None
        try:
            outcome = await self._run(call)
        except asyncio.CancelledError:
            current_task().uncancel()
            return await _altered(_Reading(self._explain, False).interrupted(), self._alter)
        value = outcome.value
        if type(value) is ToolResponse and self._alter is None and outcome._content is None:
            value.is_last = True
            return value
        if self._whole:
            made = whole_response(outcome) if outcome.ok else raw_failure(outcome)
            if made is not None:
                return await _altered(made, self._alter)
        self._rest = responses(_shown(outcome), self._explain, self._alter, False)
        return await self._rest.__anext__()

    async def aclose(self) -> None:
        """Ask for nothing more."""
        self._call = None


async def _shown(outcome: Outcome) -> AsyncIterator[Block | Outcome]:
    """What a call has shown, and how it ended."""
    if outcome.ok or (isinstance(outcome.error, ToolFailed) and outcome.error.streaming):
        for block in outcome.content:
            yield block
    yield outcome


async def responses(
    items: Items, explain: Explain, alter: Alter | None, streams: bool
) -> AsyncGenerator[ToolResponse, None]:
    """The responses of a call, altered one by one; `streams` says that there may be many.

    The task that reads them may be cancelled; AgentScope promises that this shows as
    a last response instead of an exception, so here the cancellation ends.
    """
    reading = _Reading(explain, streams)
    task = current_task()
    before = task.cancelling()
    given: ToolResponse | None = None
    try:
        async for item in items:
            for response in reading.take(item):
                given = await _altered(response, alter)
                yield given
    except asyncio.CancelledError:
        if task.cancelling() <= before:
            raise
        task.uncancel()
        given = await _altered(reading.interrupted(), alter)
        yield given
    # Which one is the last is known only now; whoever kept it can see it there.
    if given is not None:
        given.is_last = True


class _Reading:
    """What has been read of a call so far."""

    def __init__(self, explain: Explain, streams: bool) -> None:
        self._explain = explain
        self._streams = streams
        # A plain value that may be the only one: then it is the last, and should say so.
        self._held: list[ToolResponse] = []
        self._last: ToolResponse | None = None
        self._plain: list[Content] = []
        self._skip = 0

    def take(self, item: Block | Progress | Outcome) -> list[ToolResponse]:
        """The responses that this item makes."""
        if isinstance(item, Outcome):
            return self._end(item)
        if isinstance(item, Progress):
            return []
        if self._skip:
            self._skip -= 1
            return []
        if isinstance(item, Chunk):
            self._skip = item.following
            return self._give(item.response)
        self._add(item)
        given = self._give(self._accumulated())
        if self._streams:
            return given
        before, self._held = self._held, given
        return before

    def interrupted(self) -> ToolResponse:
        """The last response of a call that was stopped: what there was, and that it was."""
        said = text_block(INTERRUPTED)
        if self._last is None:
            return ToolResponse([said], is_interrupted=True)
        last = self._last
        content = [*last.content, said]
        return ToolResponse(content, last.metadata, last.stream, True, True, last.id)

    def _end(self, outcome: Outcome) -> list[ToolResponse]:
        if self._held and outcome.ok:
            self._held[0].is_last = True
            return self._held
        return [*self._held, *self._ended(outcome)]

    def _ended(self, outcome: Outcome) -> list[ToolResponse]:
        error = outcome.error
        if outcome.status is Status.INTERRUPTED:
            return [self.interrupted()]
        if isinstance(error, ToolFailed) and error.streaming:
            raise error if error.redacted else error.original
        if error is not None:
            return self._give(error_response(self._explain(outcome.call.tool, error)))
        if outcome.status is Status.PENDING:
            return self._give(error_response(f"Error: {outcome.text}"))
        if self._last is None:
            return self._give(ToolResponse([text_block(to_text(outcome.value))]))
        return []

    def _give(self, response: ToolResponse) -> list[ToolResponse]:
        self._last = response
        return [response]

    def _add(self, block: Block) -> None:
        if isinstance(block, Text) and self._plain and self._plain[-1]["type"] == "text":
            before = self._plain.pop()
            self._plain.append(text_block(str(before.get("text", "")) + block.text))
        else:
            self._plain.append(content_of(block))

    def _accumulated(self) -> ToolResponse:
        content = list(self._plain)
        if self._last is None:
            return ToolResponse(content, is_last=False)
        return ToolResponse(content, stream=True, is_last=False, id=self._last.id)


async def _altered(response: ToolResponse, alter: Alter | None) -> ToolResponse:
    if alter is None:
        return response
    changed = alter(response)
    if inspect.isawaitable(changed):
        changed = await changed
    return response if changed is None else changed
