"""What a tool answers, whole or chunk by chunk."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from os import urandom
from typing import Any

from wieldy.core.block import Block, RepeatingText, Showable, Text, to_blocks

from .message_blocks import Content, read_message_block, show_block, text_block


def _unique_timestamp() -> str:
    """The current time in milliseconds, with a suffix that makes it unique."""
    return f"{datetime.now().isoformat(' ', 'milliseconds')}_{urandom(3).hex()}"


@dataclass
class ToolResponse(Showable):
    """The answer of a tool. A chunk of a stream repeats what came before it."""

    content: list[Content]
    metadata: dict[str, Any] | None = None
    stream: bool = False
    is_last: bool = True
    is_interrupted: bool = False
    id: str = field(default_factory=_unique_timestamp)

    def to_blocks(self, shown: Sequence[Block] = ()) -> tuple[Block, ...]:
        """The new parts of the response as blocks, for callers that know nothing of responses."""
        before = next((block for block in reversed(shown) if isinstance(block, Chunk)), None)
        others = [read_message_block(item) for item in self.content if item.get("type") != "text"]
        new = others if before is None else others[before.others :]
        return (Chunk(self, before, len(others), len(new)), *new)


class Chunk(RepeatingText):
    """A response on its way through the engine: itself, and what is new in it as text.

    `others` is how many pictures and sounds it has, `following` how many of them are new
    and come as the blocks after this one.
    """

    __slots__ = ("_whole", "following", "others", "response")

    def __init__(
        self, response: ToolResponse, before: "Chunk | None", others: int, following: int
    ) -> None:
        # The tool may change a response after yielding it, before it has been read.
        content: list[Any] = [dict(item) for item in response.content]
        self.response = replace(response, content=content)
        self.others = others
        self.following = following
        whole = response_text(response)
        self._whole = (len(whole), hash(whole))
        length, known = (0, hash("")) if before is None else before._whole
        super().__init__(whole[length:] if hash(whole[:length]) == known else whole)

    def texts(self) -> list[str]:
        return [str(item.get("text", "")) for item in self.response.content if "text" in item]

    def with_texts(self, texts: Sequence[str], before: str, again: bool) -> "Chunk":
        changed = copy(self)
        changed.text = "".join(texts).removeprefix(before)
        changed.following = 0 if again else self.following
        fresh = iter(texts)
        content: list[Any] = [
            {**item, "text": next(fresh)} if "text" in item else item
            for item in self.response.content
        ]
        changed.response = replace(self.response, content=content)
        return changed

    def map_text(self, change: Callable[[str], str]) -> Block:
        changed = self.with_texts([change(text) for text in self.texts()], "", False)
        changed.text = change(self.text)
        return changed


class Accumulated:
    """The responses that blocks make one after the other, each with all that came before it."""

    def __init__(self) -> None:
        self.last: ToolResponse | None = None
        self._plain: list[Content] = []
        self._skip = 0

    def add(self, block: Block) -> ToolResponse | None:
        """The response that a block makes; None where the response before holds it already."""
        if self._skip:
            self._skip -= 1
            return None
        if isinstance(block, Chunk):
            self._skip = block.following
            self.last = block.response
            return self.last
        if isinstance(block, Text) and self._plain and self._plain[-1]["type"] == "text":
            before = self._plain.pop()
            self._plain.append(text_block(str(before.get("text", "")) + block.text))
        else:
            self._plain.append(show_block(block))
        made = ToolResponse(list(self._plain), stream=True, is_last=False)
        made.id = made.id if self.last is None else self.last.id
        self.last = made
        return made

    def with_rest(self, rest: Sequence[Block], metadata: Any = None) -> ToolResponse:
        """The last response, with the rest of the call's result."""
        chunk = next((block for block in reversed(rest) if isinstance(block, Chunk)), None)
        if chunk is not None:
            return chunk.response
        made = ToolResponse([*self._plain, *map(show_block, rest)], metadata)
        return made if self.last is None else replace(made, stream=True, id=self.last.id)


def to_response(value: Any) -> ToolResponse:
    """What a function returned as a response."""
    if isinstance(value, ToolResponse):
        return value
    return Accumulated().with_rest(to_blocks(value) or (Text("null"),))


def text_response(text: str) -> ToolResponse:
    """A response that says this."""
    return ToolResponse([text_block(text)])


def response_text(response: ToolResponse) -> str:
    """The text of a response."""
    return "".join(str(item.get("text", "")) for item in response.content if "text" in item)
