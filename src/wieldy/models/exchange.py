"""One request and its answer, on the loop of the connections.

A failed request is tried again only while no part of the answer has arrived. After that, a
second answer could contradict the first, part of which the caller has already seen.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import uniform
from typing import TYPE_CHECKING, Any

from wieldy.core.secrets.secret import redact_text
from wieldy.core.task import time_limit
from wieldy.wire.cost import stable_json
from wieldy.wire.incoming_calls import Tools
from wieldy.wire.stream_events import (
    ArgumentsDelta,
    CallCompleted,
    CallStarted,
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    Usage,
)

from .api import Api
from .connections import Pool, connections
from .failure import explain_failure
from .model import Reply
from .model_errors import ModelAnswerTooLarge, ModelError, ModelRefused, ModelUnavailable
from .settings import ModelSettings

if TYPE_CHECKING:
    from .answer_guard import AnswerGuard

_FIRST_PAUSE = 0.5
_MAX_PAUSE = 30.0
_CALL_SIZE = 100
Push = Callable[[list[Event]], None]


class Exchange:
    """One request that is being answered. Its events are pushed, and `run` returns the reply."""

    def __init__(
        self,
        api: Api,
        model: str,
        settings: ModelSettings,
        body: dict[str, Any],
        tools: Tools,
        push: Push,
    ) -> None:
        self.api = api
        self.model = model
        self.name = f"{api.name}:{model}"
        self.settings = settings
        self.body = body
        self.tools = tools
        self.push = push
        # Whether any part of the answer has arrived.
        self.began = False

    async def run(self) -> Reply:
        """Wait for a free connection, send the request, and return the complete reply."""
        pools = connections().pool(self.api.sdk, self.settings, self.api.connect)
        async with pools as pool, pool.places:
            seconds = self.settings.timeout
            try:
                async with time_limit(seconds) as overall:
                    return await self._try_again(pool)
            except TimeoutError:
                if not overall.expired():
                    raise
                told = f"the answer was not whole after {seconds:g} s"
                raise ModelUnavailable(self.name, told, began=self.began) from None

    async def _try_again(self, pool: Pool) -> Reply:
        attempt = 0
        while True:
            trial = _Trial(self)
            try:
                return await trial.run(pool)
            except ModelUnavailable as error:
                pause = _next_pause(error, attempt)
                if attempt >= self.settings.retries or trial.silent or pause is None:
                    raise
            attempt += 1
            await asyncio.sleep(pause)


class _Trial:
    """One attempt at an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._reader = exchange.api.reader(exchange.tools)
        self._held: list[Event] = []
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._size = 0
        # The calls whose arguments arrived in pieces: each piece was counted when it arrived.
        self._streamed: set[int] = set()
        self._finish: str | None = None
        self._chunks: AsyncIterator[Any] | None = None
        self.silent = False

    async def run(self, pool: Pool) -> Reply:
        """Send the request and read the answer to its end."""
        # This import loads the HTTP library, which the pool has already loaded by now.
        from .answer_guard import AnswerGuard, current_guard, read_out  # noqa: PLC0415

        name, settings = self._exchange.name, self._exchange.settings
        guard = AnswerGuard(name, settings.max_answer)
        current_guard.set(guard)
        failure: ModelError | None = None
        try:
            async with time_limit(settings.silence) as quiet:
                await self._read_answer(pool, quiet)
        except Exception as error:
            self.silent = isinstance(error, TimeoutError) and quiet.expired()
            failure = self._explain_error(error, guard)
        finally:
            await guard.close()
            if self._chunks is not None:
                await read_out(self._chunks)
        if failure is not None:
            # The error is raised here and without its causes: the SDK's exception holds the
            # request and with it the key, and its traceback holds streams of this loop.
            failure.__context__ = failure.__cause__ = None
            raise failure.with_traceback(None)
        self._check_end(guard)
        return self._make_reply()

    async def _read_answer(self, pool: Pool, quiet: asyncio.Timeout) -> None:
        exchange = self._exchange
        seconds = exchange.settings.silence
        loop = asyncio.get_running_loop()
        answer = await exchange.api.send(pool.client, exchange.model, exchange.body)
        self._chunks = aiter(answer)
        async for chunk in self._chunks:
            exchange.api.check(chunk)
            events = self._reader.feed(chunk)
            if events:
                quiet.reschedule(loop.time() + seconds)
                self._take_events(events)
        self._take_events(self._reader.close())

    def _take_events(self, events: list[Event]) -> None:
        for event in events:
            self._note_event(event)
        self._held += events
        # Events about tokens are held back until the answer begins: the attempt may still fail
        # and be repeated.
        if self._exchange.began or self._finish is not None:
            self._exchange.push(self._held)
            self._held = []

    def _note_event(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._texts.append(event.text)
            self._count_text(event.text)
        elif isinstance(event, ThinkingDelta):
            self._thoughts.append(event.text)
            self._count_text(event.text)
        elif isinstance(event, ArgumentsDelta):
            self._streamed.add(event.index)
            self._count_text(event.delta)
        elif isinstance(event, CallStarted):
            # A call counts towards the size even if it has no arguments.
            self._count_text(event.name, _CALL_SIZE)
        elif isinstance(event, CallCompleted) and event.index not in self._streamed:
            self._count_text(stable_json(event.call.arguments))
        elif isinstance(event, Finished):
            self._finish = event.reason
        if not isinstance(event, Usage | Finished):
            self._exchange.began = True

    def _count_text(self, text: str, more: int = 0) -> None:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        self._size += size + more
        limit = self._exchange.settings.max_answer
        if self._size > limit:
            raise ModelAnswerTooLarge(self._exchange.name, limit)

    def _explain_error(self, error: Exception, guard: "AnswerGuard") -> ModelError:
        name, settings = self._exchange.name, self._exchange.settings
        if self.silent:
            what = "more of the answer" if self._exchange.began else "an answer"
            told = f"there was nothing of {what} for {settings.silence:g} s"
            return ModelUnavailable(name, told, began=self._exchange.began)
        if not self._exchange.began and guard.is_page:
            return self._refuse_page(guard)
        return explain_failure(
            error,
            name,
            secrets=settings.secrets,
            began=self._exchange.began,
            address=settings.base_url,
        )

    def _check_end(self, guard: "AnswerGuard") -> None:
        """Raise if the stream ended before the answer was complete."""
        name, began = self._exchange.name, self._exchange.began
        if self._finish is not None or (guard.said_done and began):
            return
        if began:
            raise ModelUnavailable(name, "the answer broke off before its end", began=True)
        if guard.is_page:
            raise self._refuse_page(guard)
        raise ModelUnavailable(name, "the answer was empty")

    def _refuse_page(self, guard: "AnswerGuard") -> ModelRefused:
        head = redact_text(guard.head.decode("utf-8", "replace"), self._exchange.settings.secrets)
        return ModelRefused(
            self._exchange.name,
            f"the answer is {guard.content_type} and not a stream of events. Check base_url. "
            f"It begins with {head[:300]!r}",
        )

    def _make_reply(self) -> Reply:
        reader = self._reader
        return Reply(
            self._exchange.api.name,
            reader.message,
            "".join(self._texts),
            reader.calls,
            thinking="".join(self._thoughts),
            usage=reader.usage,
            finish_reason=self._finish or "",
        )


def _next_pause(error: ModelUnavailable, attempt: int) -> float | None:
    """How many seconds to wait before the next attempt; None if there must not be one."""
    if error.began:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= _MAX_PAUSE else None
    return float(min(_FIRST_PAUSE * 2**attempt, _MAX_PAUSE) * uniform(0.5, 1.0))
