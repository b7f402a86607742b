"""The protocol between an agent and a model: a request in, a stream of events out.

A conversation is a list of turns. The program's messages are plain (`Said`). A model's message
is sent back exactly as it was received (`Reply.raw`), because providers refuse a conversation
with missing signatures or reasoning items. The outcomes of its calls follow (`Answers`), and
each client writes them in its provider's format.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

from wieldy.core.call import Call, Outcome
from wieldy.core.choices import ProviderFormat
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.tool import Tool
from wieldy.wire.answer_content import in_order
from wieldy.wire.stream_events import Event, Usage

Role: TypeAlias = Literal["system", "developer", "user", "assistant"]
# Text, or a list of parts in the form of OpenAI's chat API: text, image_url, file.
Content: TypeAlias = str | Sequence[Mapping[str, Any]]


class Said:
    """A message that the program writes."""

    __slots__ = ("content", "role")

    def __init__(self, role: Role, content: Content) -> None:
        self.role = role
        self.content = content

    def __repr__(self) -> str:
        return f"Said({self.role!r}, {self.content!r})"


class Reply:
    """A model's answer: the message as the provider sent it, and its contents.

    `provider` names the form of `raw`, such as "openai" or "anthropic". The last item of
    every stream is the reply.
    """

    __slots__ = ("calls", "finish_reason", "provider", "raw", "text", "thinking", "usage")
    type: Literal["reply"] = "reply"

    def __init__(
        self,
        provider: str,
        raw: Any,
        text: str = "",
        calls: Iterable[Call] = (),
        *,
        thinking: str = "",
        usage: Usage | None = None,
        finish_reason: str = "",
    ) -> None:
        self.provider = provider
        self.raw = raw
        self.text = text
        self.calls = tuple(calls)
        self.thinking = thinking
        self.usage = usage
        self.finish_reason = finish_reason

    def __repr__(self) -> str:
        return f"Reply({self.provider!r}, {self.text!r}, {len(self.calls)} calls)"


class Answers:
    """The outcomes of a reply's calls in their order; a call without an outcome was interrupted.

    Each outcome is cut to `max_result` characters; 0 leaves them as they are.
    """

    __slots__ = ("calls", "outcomes")

    def __init__(
        self,
        outcomes: Iterable[Outcome],
        calls: Iterable[Call] = (),
        *,
        max_result: int = MAX_RESULT,
    ) -> None:
        self.calls = tuple(calls)
        self.outcomes = tuple(in_order(outcomes, self.calls, max_result))

    def __repr__(self) -> str:
        return f"Answers({list(self.outcomes)!r})"


Turn: TypeAlias = Said | Reply | Answers
ModelEvent: TypeAlias = Event | Reply
# Requests without options share it, because thousands of them may be kept at the same time.
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class ToolSource(Protocol):
    """The tools that a model may call: a toolbox, or a view of it."""

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or of this name as a provider sees it."""

    def schemas(
        self,
        provider: ProviderFormat = "openai",
        strict: bool = False,
        *,
        defer: Iterable[str] | str | None = None,
    ) -> list[dict[str, Any]]:
        """The descriptions of the tools in a provider's format."""


class ModelRequest:
    """One request: the turns so far, the tools that may be called, and the provider's options.

    `options` are passed on as they are (temperature, max_tokens, …), but for `defer_tools`: the
    names or patterns of tools that the provider loads itself. `output_schema` is
    what the answer should be, for providers that hold a model to a JSON Schema; a client
    that can't do that ignores it.
    """

    __slots__ = ("options", "output_schema", "tools", "turns")

    def __init__(
        self,
        turns: Iterable[Turn],
        tools: ToolSource | None = None,
        options: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.turns = tuple(turns)
        self.tools = tools
        self.options = dict(options) if options else NO_OPTIONS
        self.output_schema = output_schema


class Model(Protocol):
    """A model that answers requests."""

    @property
    def name(self) -> str:
        """The model's name, as `provider:model`."""

    @property
    def context_window(self) -> int | None:
        """How many tokens a request may have, or None if that is not known."""

    def render(self, request: ModelRequest) -> dict[str, Any]:
        """The body of the request, exactly as it would be sent."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send the request and yield the events of the answer; the last item is the `Reply`.

        Closing the iterator ends the request.
        """
