"""Read a model's stream within limits on the size of the answer and the time without events."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from wieldy.core.call import Call
from wieldy.models.model import Model, ModelEvent, ModelRequest, Reply
from wieldy.models.model_errors import ModelAnswerTooLarge, ModelError, ModelUnavailable
from wieldy.models.token_estimate import check_length
from wieldy.wire.stream_events import ArgumentsDelta, CallCompleted, TextDelta, ThinkingDelta

MAX_ANSWER = 4_000_000
MAX_SILENCE = 120.0
# The finish reason of an answer that was cut off because the run has no time left.
OUT_OF_TIME = "out_of_time"
_MAKE = 'A model makes calls such as Call("weather", {"city": "Oslo"}).'


async def watch_answer(
    model: Model,
    request: ModelRequest,
    seconds: float | None = None,
    note: Callable[[Reply], None] = lambda reply: None,
) -> AsyncGenerator[ModelEvent]:
    """The events of an answer; the last is its `Reply`, also where the model gave none.

    Nothing is sent if the request outgrows the model's context. A model that keeps such
    limits itself says so with `keeps_limits`: it knows what it waits for. After so many
    `seconds` the request is ended, and the reply is what was heard until then. The reply is
    noted before it is yielded.
    """
    guarded = not getattr(model, "keeps_limits", False)
    if guarded and model.context_window is not None:
        check_length(model.name, model.render(request), model.context_window)
    heard, events = _Heard(), aiter(model.stream(request))
    patience = _Patience(model, MAX_SILENCE if guarded else None, seconds)
    try:
        while (event := await patience.next_event(events)) is not None:
            check_event(model.name, event)
            heard.take(event)
            if guarded and heard.size > MAX_ANSWER:
                raise ModelAnswerTooLarge(model.name, MAX_ANSWER)
            if isinstance(event, Reply):
                note(event)
                yield event
                return
            yield event
    finally:
        patience.stop()
        # A model's iterator need not be a generator.
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
    reply = heard.reply(OUT_OF_TIME if patience.is_over else "")
    note(reply)
    yield reply


class _Patience:
    """The time to wait for an answer: from event to event, and in total.

    One timer serves all events: when it rings too early, it is set again.
    """

    def __init__(self, model: Model, silence: float | None, seconds: float | None) -> None:
        self.is_over = False
        self._loop = asyncio.get_running_loop()
        self._model = model
        self._silence = silence
        self._end = None if seconds is None else self._loop.time() + seconds
        # The moment until which the next event is awaited, and the task that awaits it.
        self._until = math.inf
        self._waiter: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rang = False

    async def next_event(self, events: AsyncIterator[ModelEvent]) -> ModelEvent | None:
        """The next event; None if there are no more events, or no time is left to wait."""
        now, end = self._loop.time(), self._end
        if end is not None and now >= end:
            # The timer can't interrupt a model that never awaits anything.
            self.is_over = True
            return None
        self._until = min(
            math.inf if self._silence is None else now + self._silence,
            math.inf if end is None else end,
        )
        if self._timer is None and self._until < math.inf:
            self._timer = self._loop.call_at(self._until, self._ring)
        self._waiter = waiter = asyncio.current_task()
        assert waiter is not None
        cancelling = waiter.cancelling()
        try:
            return await anext(events)
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if not self._rang or waiter.cancelling() > cancelling + 1:
                # Somebody else has cancelled the task.
                raise
        finally:
            self._waiter = None
            if self._rang:
                waiter.uncancel()
        self._give_up()
        return None

    def stop(self) -> None:
        """Wait for nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        if self._waiter is None:
            # The reader of the events takes its time. The next wait sets the timer.
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._ring)
        else:
            self._rang = True
            self._waiter.cancel()

    def _give_up(self) -> None:
        """Say that the time is over, or raise if only the silence was too long."""
        if self._until == self._end:
            self.is_over = True
            return
        silence = f"{self._silence:g} seconds. Ask again, or use another model."
        reason = f"it has said nothing for {silence}"
        raise ModelUnavailable(self._model.name, reason, began=True)


def check_event(model: str, event: ModelEvent) -> None:
    """Raise if a model's event has a call without a tool's name; models are other people's code."""
    if isinstance(event, CallCompleted):
        _check_call(model, event.call)
    elif isinstance(event, Reply):
        for call in event.calls:
            _check_call(model, call)


def _check_call(model: str, call: Any) -> None:
    if not isinstance(call, Call):
        raise ModelError(model, f"it gave {call!r:.200} as a call, which is no `Call`. {_MAKE}")
    if not isinstance(call.tool, str):
        raise ModelError(model, f"it gave a call whose tool is {call.tool!r:.200}. {_MAKE}")


class _Heard:
    """The part of an answer that has arrived so far."""

    def __init__(self) -> None:
        self.size = 0
        self._events: list[ModelEvent] = []

    def take(self, event: ModelEvent) -> None:
        # An event without text counts too, because such events could arrive forever.
        self.size += 1
        if isinstance(event, TextDelta | ThinkingDelta):
            self.size += _byte_count(event.text)
            self._events.append(event)
        elif isinstance(event, ArgumentsDelta):
            self.size += _byte_count(event.delta)
        elif isinstance(event, CallCompleted):
            self._events.append(event)

    def reply(self, reason: str = "") -> Reply:
        """The reply that the events add up to, with the reason why no more arrived."""
        text = "".join(each.text for each in self._events if isinstance(each, TextDelta))
        thinking = "".join(each.text for each in self._events if isinstance(each, ThinkingDelta))
        calls = [each.call for each in self._events if isinstance(each, CallCompleted)]
        return Reply("", None, text, calls, thinking=thinking, finish_reason=reason)


def _byte_count(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
