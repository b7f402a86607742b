"""A model that says what a test wants, for the tests of programs that use one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

from wieldy.core.bounded_json import dump_json
from wieldy.core.call import Call
from wieldy.models.model import ModelEvent, ModelRequest, Reply
from wieldy.models.openai import NAME, argument_text, chat_body
from wieldy.models.request_body import NoTools, add_options, sent_options
from wieldy.models.token_estimate import check_length
from wieldy.wire.openai import StreamReader, provider_name
from wieldy.wire.stream_events import (
    ArgumentsDelta,
    CallCompleted,
    CallStarted,
    Finished,
    TextDelta,
    ThinkingDelta,
    Usage,
)

__all__ = ["Answer", "RecordedRequest", "ScriptedModel"]

_EVENTS = (ArgumentsDelta, CallCompleted, CallStarted, Finished, TextDelta, ThinkingDelta, Usage)
_NOTHING = object()
# An answer that a scripted model is given: see ScriptedModel.
Scripted: TypeAlias = Any
Script: TypeAlias = Iterable[Scripted] | Callable[[ModelRequest], Scripted | Awaitable[Scripted]]


class Answer:
    """One answer, with everything that can be said about it.

    Args:
        text: What the model says. A list is streamed piece by piece as it stands, and an
            `asyncio.Event` in it is waited for at that point.
        calls: The calls it makes.
        thinking: What it thinks before.
        usage: The tokens it reports, or only those that came in and those that went out.
        error: What is raised after the rest, as when a connection breaks.
        gate: What is waited for before anything comes.
        finish_reason: Why it ended; by default "stop", or "tool_calls" where it makes calls.

    Example:
        `Answer("Let me look.", [Call("weather", {"city": "Oslo"})], thinking="Hm.")`
    """

    __slots__ = ("calls", "error", "finish_reason", "gate", "pieces", "thinking", "usage")

    def __init__(
        self,
        text: str | Sequence[str | asyncio.Event] = "",
        calls: Iterable[Call] = (),
        *,
        thinking: str = "",
        usage: Usage | tuple[int, int] | None = None,
        error: BaseException | None = None,
        gate: asyncio.Event | None = None,
        finish_reason: str = "",
    ) -> None:
        self.pieces = text
        self.calls = tuple(calls)
        self.thinking = thinking
        self.usage = Usage(*usage, None, None, {}) if isinstance(usage, tuple) else usage
        self.error = error
        self.gate = gate
        self.finish_reason = finish_reason or ("tool_calls" if self.calls else "stop")


class RecordedRequest:
    """What a scripted model was asked, as it was at that moment."""

    __slots__ = ("body", "request")

    def __init__(self, request: ModelRequest, body: dict[str, Any]) -> None:
        self.request = request
        self.body = body

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, in the form of OpenAI's chat API."""
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def tool_names(self) -> list[str]:
        """The tools that were offered, as the model sees their names."""
        return [each["function"]["name"] for each in self.body.get("tools", ())]

    @property
    def text(self) -> str:
        """All that was said, message by message, to look for something in it."""
        return "\n\n".join(map(_message_text, self.messages))

    @property
    def last(self) -> str:
        """The text of the last message."""
        return _message_text(self.messages[-1]) if self.messages else ""

    def __repr__(self) -> str:
        return f"RecordedRequest({self.messages!r})"


class ScriptedModel:
    """A model that gives the answers it was told, streamed, and records what it is asked.

    An answer is text; a `Call`, or a list of them, with text before them if you like; an
    `Answer`; an exception, which is raised; a list of stream events, given as they are; or
    any other dict or list, which becomes JSON text. It may also be a function that is given
    the `ModelRequest` and gives one of these, awaited if need be.

    Args:
        answers: The answers, one for each request in their order, or one function for all.
        chunks: How many characters of text, thinking and arguments come at a time. None
            sends each of them in one piece.
        context_window: How many tokens (estimated) a request may have.
        name: The model's name.

    Raises:
        AssertionError: from `stream`, if more is asked than there are answers.

    Example:
        `model = ScriptedModel([Call("add", {"a": 1}), "It is 3."])`
    """

    def __init__(
        self,
        answers: Script = (),
        *,
        chunks: int | None = 5,
        context_window: int | None = None,
        name: str = "scripted:model",
    ) -> None:
        if chunks is not None and chunks < 1:
            raise ValueError("ScriptedModel: chunks is how many characters come at a time, or None")
        self.name = name
        self.context_window = context_window
        self.requests: list[RecordedRequest] = []
        self._function = answers if callable(answers) else None
        listed = [answers] if isinstance(answers, str) else answers
        self._answers: Iterator[Scripted] = iter(()) if callable(listed) else iter(listed)
        self._chunks = chunks
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def render(self, request: ModelRequest) -> dict[str, Any]:
        """The body of the request, as OpenAI's chat API would be sent it."""
        body = chat_body(self.name.partition(":")[2] or self.name, request)
        return add_options(body, sent_options(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Give the next answer's events, and the `Reply` last."""
        recorded = RecordedRequest(request, self.render(request))
        check_length(self.name, recorded.body, self.context_window)
        self._record_request(recorded)
        answer = await self._next_answer(recorded)
        if isinstance(answer, list) and answer and all(map(_is_event, answer)):
            for event in _whole_events(answer):
                yield event
            return
        async for event in self._stream_answer(_as_answer(answer), request):
            yield event

    async def asked(self, count: int = 1) -> RecordedRequest:
        """Wait until there have been so many requests, and give the last of them."""
        if len(self.requests) < count:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.append((count, loop, future))
            await future
        return self.requests[count - 1]

    def _record_request(self, recorded: RecordedRequest) -> None:
        self.requests.append(recorded)
        reached = [each for each in self._waiting if each[0] <= len(self.requests)]
        for each in reached:
            self._waiting.remove(each)
            # The waiting side may be on another loop than the asking side.
            each[1].call_soon_threadsafe(_settle_future, each[2])

    async def _next_answer(self, recorded: RecordedRequest) -> Scripted:
        answer: Any = self._function or next(self._answers, _NOTHING)
        if answer is _NOTHING:
            raise AssertionError(
                f"{self.name} was asked {len(self.requests)} times and has no answer left. "
                f"The last message was: {recorded.last[:500]}"
            )
        if callable(answer):
            answer = answer(recorded.request)
        return await answer if isawaitable(answer) else answer

    async def _stream_answer(
        self, answer: Answer, request: ModelRequest
    ) -> AsyncIterator[ModelEvent]:
        reader = StreamReader(request.tools or NoTools())
        text, thinking = [], answer.thinking
        if answer.gate is not None:
            await answer.gate.wait()
        for delta in self._chat_deltas(answer):
            if isinstance(delta, asyncio.Event):
                await delta.wait()
                continue
            text.append(delta.get("content", ""))
            for event in reader.feed({"choices": [{"index": 0, "delta": delta}]}):
                yield event
        if answer.error is not None:
            raise answer.error
        end = {"index": 0, "delta": {}, "finish_reason": answer.finish_reason}
        for event in reader.feed({"choices": [end]}):
            yield event
        if answer.usage is not None:
            yield answer.usage
        yield Reply(
            NAME,
            reader.message,
            "".join(text),
            reader.calls,
            thinking=thinking,
            usage=answer.usage,
            finish_reason=answer.finish_reason,
        )

    def _chat_deltas(self, answer: Answer) -> Iterator[dict[str, Any] | asyncio.Event]:
        """The answer as OpenAI's chat API would stream it."""
        for piece in self._cut_pieces(answer.thinking):
            yield {"reasoning_content": piece}
        given = answer.pieces
        for each in self._cut_pieces(given) if isinstance(given, str) else given:
            yield each if isinstance(each, asyncio.Event) else {"content": each}
        for index, call in enumerate(answer.calls):
            id = call.provider_id or f"call_{len(self.requests)}_{index + 1}"
            named = {"name": provider_name(call.tool), "arguments": ""}
            yield {"tool_calls": [{"index": index, "id": id, "function": named}]}
            for piece in self._cut_pieces(argument_text(call)):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _cut_pieces(self, text: str) -> Iterator[str]:
        size = self._chunks or len(text) or 1
        return (text[start : start + size] for start in range(0, len(text), size))


def _as_answer(given: Scripted) -> Answer:
    if isinstance(given, Answer):
        return given
    if isinstance(given, BaseException):
        return Answer(error=given)
    if isinstance(given, str):
        return Answer(given)
    if isinstance(given, Call):
        return Answer(calls=[given])
    if isinstance(given, list | tuple) and any(isinstance(each, Call) for each in given):
        return _text_and_calls(given)
    return Answer(dump_json(given, ensure_ascii=False))


def _text_and_calls(given: Sequence[Any]) -> Answer:
    if not all(isinstance(each, Call | str) for each in given):
        raise TypeError("ScriptedModel: an answer with calls has nothing else in it but text")
    texts = [each for each in given if isinstance(each, str)]
    return Answer("".join(texts), [each for each in given if isinstance(each, Call)])


def _is_event(given: object) -> bool:
    return isinstance(given, (*_EVENTS, Reply))


def _whole_events(events: list[ModelEvent]) -> list[ModelEvent]:
    """Events as they were given, with the reply that they amount to, unless one is among them."""
    if isinstance(events[-1], Reply):
        return events
    text = "".join(each.text for each in events if isinstance(each, TextDelta))
    calls = [each.call for each in events if isinstance(each, CallCompleted)]
    spoken = Reply(
        "scripted",
        None,
        text,
        calls,
        thinking="".join(each.text for each in events if isinstance(each, ThinkingDelta)),
        usage=next((each for each in events if isinstance(each, Usage)), None),
        finish_reason=next((each.reason for each in events if isinstance(each, Finished)), ""),
    )
    return [*events, spoken]


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _settle_future(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
