"""The common interface of call blocks in text, and helpers for finding their ends."""

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from wieldy.core.call import Call
from wieldy.core.tool import Tool

from .call_dialects import TAG_LIMIT
from .code_fences import may_close_fence

Lookup = Callable[[str], Tool | None]

_HALF_CLOSING = re.compile(r"</[\w:-]{0,40}\Z")


class BlockEnding(Enum):
    """The reason why a block ended."""

    CLOSED = "closed"  # its closing tag, or that of its wrapper, came
    CUT = "cut"  # the next call or the end of the fence came first
    ENDED = "ended"  # the text ended between two of its parts
    LOST = "lost"  # the text ended inside one of its parts


class BlockEnd(NamedTuple):
    """The position where a block ended, and the reason."""

    at: int
    ending: BlockEnding


class CallBlock(Protocol):
    """One open block, which finds its own end in the text as it arrives."""

    position: int
    offset: int  # where in the whole block the window starts

    def defers(self, chunk: str) -> bool:
        """Whether this text can't end the block, so that reading it can wait for more."""

    def find_end(self, window: str, final: bool) -> BlockEnd | None:
        """The end of the block after `position`; None if more text is needed."""

    def read_calls(self, raw: str, ending: BlockEnding, lookup: Lookup) -> list[Call]:
        """The calls in the complete block; empty if it turns out not to be a call."""


def undecided_from(window: str, start: int, fenced: bool) -> int:
    """The position from which the window is kept, because its end may cut a tag or a fence."""
    size = len(window)
    keep = window.rfind("<", max(start, size - TAG_LIMIT))
    if keep < 0 or ">" in window[keep:]:
        keep = size
    if fenced:
        line = window.rfind("\n", max(start, size - TAG_LIMIT))
        if line >= 0 and may_close_fence(window, line + 1 + _indent_width(window, line + 1)):
            keep = min(keep, line)
    return keep


def half_closing(raw: str) -> int:
    """The start of a closing tag that the end of the text cuts off; else the end."""
    half = _HALF_CLOSING.search(raw, max(0, len(raw) - 48))
    return len(raw) if half is None else half.start()


def waits_for_line_end(window: str, found: re.Match[str], final: bool) -> bool:
    """Whether a fence was found whose line may continue after the window."""
    return not final and len(window) - found.end() <= 1 and not window.endswith("\n")


def made_call(
    name: str, arguments: dict[str, object], tool: Tool | None, provider_id: str | None = None
) -> Call:
    """The call, with the tool's own name if the tool is known."""
    return Call(name if tool is None else tool.name, arguments, provider_id=provider_id)


def _indent_width(window: str, at: int) -> int:
    line = window[at : at + 16]
    return len(line) - len(line.lstrip(" \t"))
