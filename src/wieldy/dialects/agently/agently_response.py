"""A response with the names that Agently's users know."""

from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from typing import Any, Literal, Self

from wieldy.agent.response import Response
from wieldy.agent.response_stream import StreamType

AgentlyStreamType = StreamType | Literal["streaming_parse"]
_SPECIFIC = ("reasoning_delta", "delta", "reasoning_done", "done", "tool_calls")
_USAGE_NAMES = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}


class AgentlyResponse(Response):
    """A response with the names that Agently gives to some things."""

    @property
    def result(self) -> Self:
        """The response itself."""
        return self

    def get_async_generator(
        self,
        type: AgentlyStreamType | None = "delta",
        content: AgentlyStreamType | None = None,
        *,
        events: Iterable[str] | str | None = None,
        specific: Iterable[str] | str | None = None,
    ) -> AsyncGenerator[Any]:
        """The answer while it comes; `specific` is another name for `events`."""
        chosen = _stream_type(content or type)
        return super().get_async_generator(chosen, events=_chosen_events(chosen, events, specific))

    def get_generator(
        self,
        type: AgentlyStreamType | None = "delta",
        content: AgentlyStreamType | None = None,
        *,
        events: Iterable[str] | str | None = None,
        specific: Iterable[str] | str | None = None,
    ) -> Generator[Any]:
        """The answer while it comes; `specific` is another name for `events`."""
        chosen = _stream_type(content or type)
        return super().get_generator(chosen, events=_chosen_events(chosen, events, specific))


def _stream_type(type: AgentlyStreamType | None) -> StreamType:
    return "instant" if type == "streaming_parse" else type or "delta"


def _chosen_events(
    type: str, events: Iterable[str] | str | None, specific: Iterable[str] | str | None
) -> Iterable[str] | str | None:
    if type != "specific":
        return events
    return next((each for each in (events, specific) if each is not None), _SPECIFIC)


def complete_meta(event: str, data: Any, result: dict[str, Any], settings: Any) -> Iterator[Any]:
    """After "done", yield the model's whole reasoning, and name the token counts as OpenAI does."""
    meta = result["meta"]
    usage = meta["usage"]
    named = {_USAGE_NAMES.get(name, name): count for name, count in usage.items()}
    if named:
        named["total_tokens"] = sum(usage.get(name, 0) for name in _USAGE_NAMES)
    meta["usage"] = named
    yield "reasoning_done", meta["reasoning"]
