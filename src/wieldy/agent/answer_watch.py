"""A model's stream within limits: how large an answer may be, and how long it may be silent."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from wieldy.core.model_errors import ModelAnswerTooLarge, ModelUnavailable
from wieldy.models.model import Model, ModelEvent, ModelRequest, Reply
from wieldy.models.token_estimate import check_length
from wieldy.wire.stream_events import ArgumentsDelta, CallCompleted, TextDelta, ThinkingDelta

MAX_ANSWER = 4_000_000
MAX_SILENCE = 120.0


async def watch_answer(model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
    """The events of an answer; the last is its `Reply`, also where the model gave none.

    Nothing is sent if the request outgrows the model's context. A model that keeps such
    limits itself says so with `keeps_limits`: it knows what it waits for.
    """
    guarded = not getattr(model, "keeps_limits", False)
    if guarded and model.context_window is not None:
        check_length(model.name, model.render(request), model.context_window)
    heard = _Heard()
    silence = MAX_SILENCE if guarded else None
    async with aclosing(_closable(model.stream(request))) as events:
        while (event := await _next_event(model, events, silence)) is not None:
            heard.take(event)
            if guarded and heard.size > MAX_ANSWER:
                raise ModelAnswerTooLarge(model.name, MAX_ANSWER)
            yield event
            if isinstance(event, Reply):
                return
    yield heard.reply()


async def _next_event(model: Model, events: Any, silence: float | None) -> ModelEvent | None:
    try:
        async with asyncio.timeout(silence) as patience:
            event: ModelEvent = await anext(events)
            return event
    except StopAsyncIteration:
        return None
    except TimeoutError:
        if not patience.expired():
            raise
        reason = f"it has said nothing for {silence:g} seconds. Ask again, or use another model."
        raise ModelUnavailable(model.name, reason, began=True) from None


class _Heard:
    """What has come so far."""

    def __init__(self) -> None:
        self.size = 0
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[Any] = []

    def take(self, event: ModelEvent) -> None:
        # An event without text counts as well: they could come for ever.
        self.size += 1
        if isinstance(event, TextDelta):
            self._texts.append(event.text)
            self.size += _byte_count(event.text)
        elif isinstance(event, ThinkingDelta):
            self._thoughts.append(event.text)
            self.size += _byte_count(event.text)
        elif isinstance(event, ArgumentsDelta):
            self.size += _byte_count(event.delta)
        elif isinstance(event, CallCompleted):
            self._calls.append(event.call)

    def reply(self) -> Reply:
        """What the events amount to."""
        text = "".join(self._texts)
        return Reply("", None, text, self._calls, thinking="".join(self._thoughts))


def _byte_count(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


async def _closable(stream: AsyncIterator[ModelEvent]) -> AsyncGenerator[ModelEvent]:
    """The same stream with an end that can be called, whatever kind of iterator it is."""
    try:
        async for event in stream:
            yield event
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
