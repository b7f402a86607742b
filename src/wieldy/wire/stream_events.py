"""What happens in a model's streamed answer, as events that every provider's reader gives."""

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
    """Shows its own fields."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"


class TextDelta(_Shown):
    """More of the visible text."""

    __slots__ = ("text",)
    type: Literal["text"] = "text"

    def __init__(self, text: str) -> None:
        self.text = text


class ThinkingDelta(_Shown):
    """More of what the model thinks before it answers, as far as the provider shows it."""

    __slots__ = ("text",)
    type: Literal["thinking"] = "thinking"

    def __init__(self, text: str) -> None:
        self.text = text


class CallStarted(_Shown):
    """The model began a call; `index` counts the calls of this stream.

    `name` is the tool's own name, or the name as it was sent where there is no such tool.
    """

    __slots__ = ("index", "name")
    type: Literal["call_started"] = "call_started"

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name


class ArgumentsDelta:
    """More of a call's arguments. `text` is all of them so far, joined when it is read."""

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
    """A call is whole and can run."""

    __slots__ = ("call", "index")
    type: Literal["call_completed"] = "call_completed"

    def __init__(self, index: int, call: Call) -> None:
        self.index = index
        self.call = call


class Usage(_Shown):
    """The tokens that the request has taken so far, counted by the provider.

    `input_tokens` includes those read from the provider's cache (`cached_tokens`),
    `output_tokens` includes thinking (`thinking_tokens`). A figure that the provider
    did not give is None. `raw` is the provider's own object, as a dict.
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
    """The model is done; `reason` is the provider's own word for why."""

    __slots__ = ("reason",)
    type: Literal["finished"] = "finished"

    def __init__(self, reason: str) -> None:
        self.reason = reason


Event: TypeAlias = (
    TextDelta | ThinkingDelta | CallStarted | ArgumentsDelta | CallCompleted | Usage | Finished
)
