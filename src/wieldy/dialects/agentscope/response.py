"""What a tool answers, whole or chunk by chunk."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from wieldy.core.block import Block, Text

from .blocks import Content, block_of, text_block


def _timestamp() -> str:
    now = datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{now}_{os.urandom(3).hex()}"


@dataclass
class ToolResponse:
    """The answer of a tool. A chunk of a stream repeats what came before it."""

    content: list[Content]
    metadata: dict[str, Any] | None = None
    stream: bool = False
    is_last: bool = True
    is_interrupted: bool = False
    id: str = field(default_factory=_timestamp)


def error_response(text: str) -> ToolResponse:
    """A response that says what went wrong."""
    return ToolResponse([text_block(text)])


class Chunk(Text):
    """A response on its way through the engine: what is new in it as text, and itself.

    `following` is how many blocks after this one are its pictures and sounds.
    """

    __slots__ = ("following", "response")

    def __init__(self, text: str, response: ToolResponse, following: int = 0) -> None:
        super().__init__(text)
        self.response = response
        self.following = following

    def map_text(self, change: Callable[[str], str]) -> Block:
        content: list[Any] = [
            {**item, "text": change(str(item.get("text", "")))} if item["type"] == "text" else item
            for item in self.response.content
        ]
        return Chunk(change(self.text), replace(self.response, content=content), self.following)


class Chunks:
    """Turns the responses of one call into blocks that show only what is new."""

    def __init__(self) -> None:
        self._shown = ""
        self._others = 0

    def blocks(self, response: ToolResponse) -> list[Block]:
        """The response as blocks."""
        given = [block_of(item) for item in response.content]
        text = "".join(block.text for block in given if isinstance(block, Text))
        others = [block for block in given if not isinstance(block, Text)]
        new = text.removeprefix(self._shown) if self._shown else text
        fresh = others[self._others :]
        self._shown, self._others = text, len(others)
        return [Chunk(new, response, len(fresh)), *fresh]
