"""What every kind of block has in common: how it ends, and who may be called."""

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
    """Why a block is over."""

    CLOSED = "closed"  # its closing tag came, or that of what it stands in
    CUT = "cut"  # the next call, or the end of the fence, came instead
    ENDED = "ended"  # the text ended between two of its parts
    LOST = "lost"  # the text ended inside one of its parts


class BlockEnd(NamedTuple):
    """Where a block is over, and why."""

    at: int
    ending: BlockEnding


class CallBlock(Protocol):
    """One open block. It is shown the text as it comes and finds its own end."""

    position: int
    offset: int  # where in the whole block the window starts

    def defers(self, chunk: str) -> bool:
        """Whether the next text decides nothing, and may wait until more has come."""

    def find_end(self, window: str, final: bool) -> BlockEnd | None:
        """Search from `position` on; None if more text is needed."""

    def read_calls(self, raw: str, ending: BlockEnding, lookup: Lookup) -> list[Call]:
        """The calls in the whole block; none if it is not one after all."""


def undecided_from(window: str, start: int, fenced: bool) -> int:
    """From where on the window must be kept, because a tag or a fence may be cut by its end."""
    size = len(window)
    keep = window.rfind("<", max(start, size - TAG_LIMIT))
    if keep < 0 or ">" in window[keep:]:
        keep = size
    if fenced:
        line = window.rfind("\n", max(start, size - TAG_LIMIT))
        if line >= 0 and may_close_fence(window, line + 1 + _indent(window, line + 1)):
            keep = min(keep, line)
    return keep


def half_closing(raw: str) -> int:
    """Where a closing tag starts that the end of the text has cut; else the end."""
    half = _HALF_CLOSING.search(raw, max(0, len(raw) - 48))
    return len(raw) if half is None else half.start()


def waits_for_line_end(window: str, found: re.Match[str], final: bool) -> bool:
    """Whether a fence was found whose line the window may have cut."""
    return not final and len(window) - found.end() <= 1 and not window.endswith("\n")


def made_call(
    name: str, arguments: dict[str, object], tool: Tool | None, provider_id: str | None = None
) -> Call:
    """The call, under the tool's own name where the tool is known."""
    return Call(name if tool is None else tool.name, arguments, provider_id=provider_id)


def _indent(window: str, at: int) -> int:
    line = window[at : at + 16]
    return len(line) - len(line.lstrip(" \t"))
