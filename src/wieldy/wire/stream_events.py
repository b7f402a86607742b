"""The events of a model's streamed answer, the same for every provider."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from wieldy.core.call import Call

__all__ = [
    "ArgumentsDelta",
    "CallCompleted",
    "CallStarted",
    "Event",
    "Finished",
    "TextDelta",
    "ThinkingDelta",
    "Usage",
]


class _Shown:
    """Gives an event a `repr` with its fields."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"


class TextDelta(_Shown):
    """A piece of the visible text."""

    __slots__ = ("text",)
    type: Literal["text"] = "text"

    def __init__(self, text: str) -> None:
        self.text = text


class ThinkingDelta(_Shown):
    """A piece of the model's thinking, if the provider shows it."""

    __slots__ = ("text",)
    type: Literal["thinking"] = "thinking"

    def __init__(self, text: str) -> None:
        self.text = text


class CallStarted(_Shown):
    """The model started a call; `index` counts the calls of this stream.

    `name` is the tool's own name, or the name as it was sent if there is no such tool.
    """

    __slots__ = ("index", "name")
    type: Literal["call_started"] = "call_started"

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name


class ArgumentsDelta:
    """A piece of a call's arguments. `text` joins all pieces so far when it is read."""

    __slots__ = ("_count", "_pieces", "delta", "index")
    type: Literal["arguments"] = "arguments"

    def __init__(self, index: int, delta: str, pieces: Sequence[str]) -> None:
        self.index = index
        self.delta = delta
        self._pieces = pieces
        self._count = len(pieces)

    @property
    def text(self) -> str:
        """The arguments up to this piece, this piece included."""
        return "".join(self._pieces[: self._count])

    def __repr__(self) -> str:
        return f"ArgumentsDelta(index={self.index}, delta={self.delta!r})"


class CallCompleted(_Shown):
    """A call is complete and can run."""

    __slots__ = ("call", "index")
    type: Literal["call_completed"] = "call_completed"

    def __init__(self, index: int, call: Call) -> None:
        self.index = index
        self.call = call


class Usage(_Shown):
    """The tokens that the request has used so far, counted by the provider.

    Attributes:
        input_tokens: tokens of the request, including those read from the provider's cache.
        output_tokens: tokens of the answer, including thinking.
        cached_tokens: input tokens that were read from the cache.
        thinking_tokens: output tokens of the thinking.
        raw: the provider's own object as a dict.

    A number that the provider did not send is None.
    """

    __slots__ = ("cached_tokens", "input_tokens", "output_tokens", "raw", "thinking_tokens")
    type: Literal["usage"] = "usage"

    def __init__(
        self,
        input_tokens: int | None,
        output_tokens: int | None,
        cached_tokens: int | None,
        thinking_tokens: int | None,
        raw: dict[str, Any],
    ) -> None:
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.cached_tokens = cached_tokens
        self.thinking_tokens = thinking_tokens
        self.raw = raw


class Finished(_Shown):
    """The model has finished; `reason` is the provider's own word for why."""

    __slots__ = ("reason",)
    type: Literal["finished"] = "finished"

    def __init__(self, reason: str) -> None:
        self.reason = reason


Event: TypeAlias = (
    TextDelta | ThinkingDelta | CallStarted | ArgumentsDelta | CallCompleted | Usage | Finished
)
