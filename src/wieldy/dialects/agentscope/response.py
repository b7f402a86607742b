"""What a tool answers, whole or chunk by chunk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from os import urandom
from time import time
from typing import Any

from wieldy.core.block import Block, Showable, Text

from .blocks import Content, block_of, text_block


class _Clock:
    """The time as text. Within one second only its end changes."""

    # Both in one, so that no thread sees the one without the other.
    known = (-1, "")

    def stamp(self) -> str:
        """Now, to the millisecond, with something that makes it unlike any other."""
        now = time()
        second, shown = self.known
        if second != int(now):
            second = int(now)
            shown = datetime.fromtimestamp(second).strftime("%Y-%m-%d %H:%M:%S")
            self.known = (second, shown)
        return f"{shown}.{int((now - second) * 1000):03d}_{urandom(3).hex()}"


_timestamp = _Clock().stamp


@dataclass
class ToolResponse(Showable):
    """The answer of a tool. A chunk of a stream repeats what came before it."""

    content: list[Content]
    metadata: dict[str, Any] | None = None
    stream: bool = False
    is_last: bool = True
    is_interrupted: bool = False
    id: str = field(default_factory=_timestamp)

    def to_blocks(self, shown: Sequence[Block] = ()) -> tuple[Block, ...]:
        """The response as blocks, for callers who know nothing of responses."""
        return tuple(Chunks().blocks(self))


def error_response(text: str) -> ToolResponse:
    """A response that says what went wrong."""
    return ToolResponse([text_block(text)])


class Chunk(Text):
    """A response on its way through the engine: itself, and what is new in it as text.

    `following` is how many blocks after this one are its pictures and sounds.
    """

    __slots__ = ("_before", "following", "response")

    def __init__(self, response: ToolResponse, before: str = "", following: int = 0) -> None:
        self.response = response
        self.following = following
        self._before = before

    @property
    def text(self) -> str:  # type: ignore[override]
        """What the response says beyond the one before it."""
        return text_of(self.response).removeprefix(self._before)

    def map_text(self, change: Callable[[str], str]) -> Block:
        content: list[Any] = [
            {**item, "text": change(str(item.get("text", "")))} if item["type"] == "text" else item
            for item in self.response.content
        ]
        changed = replace(self.response, content=content)
        return Chunk(changed, change(self._before), self.following)


def text_of(response: ToolResponse) -> str:
    """The text of a response."""
    return "".join(str(item.get("text", "")) for item in response.content if _is_text(item))


def _is_text(item: Any) -> bool:
    return bool(item["type"] == "text")


class Chunks:
    """Turns the responses of one call into blocks that show only what is new."""

    def __init__(self) -> None:
        self._shown = ""
        self._others = 0

    def blocks(self, response: ToolResponse) -> list[Block]:
        """The response as blocks."""
        others = [block_of(item) for item in response.content if not _is_text(item)]
        fresh = others[self._others :]
        chunk = Chunk(response, self._shown, len(fresh))
        self._shown, self._others = text_of(response), len(others)
        return [chunk, *fresh]
