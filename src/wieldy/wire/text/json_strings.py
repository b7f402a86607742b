"""Track JSON strings in streaming text, because markup inside a string is text."""

import re

# Models also write strings with single quotes. The apostrophe in a word starts no string.
ANY_QUOTE = r"""(?P<apostrophe>\w\w')|(?P<quote>["'])"""
BEFORE_APOSTROPHE = 2

# The inside of a string up to its quote, or to a tag of calls.
_INSIDE = {
    quote: re.compile(
        rf"[^{quote}\\<]*+(?:(?:\\(?:(?=<)|[\s\S])|<(?!/?tool_call))[^{quote}\\<]*+)*",
        re.IGNORECASE,
    )
    for quote in ('"', "'")
}
_TAGS = ("<tool_call", "</tool_call")
_AFTER = re.compile(r"\s*+(?P<next>[\s\S]|\Z)")
# This much space after a string is kept, because a fence may start in it.
_KEPT = 32


class JsonStrings:
    """The strings of one block, of which one may be open.

    A string ends only at its quote. If a string is never closed, the quote that opens the next
    one seems to end it; from then on opening and closing quotes can't be distinguished (`lost`).
    """

    __slots__ = ("_quote", "_quoting", "lost")

    def __init__(self) -> None:
        self._quote: str | None = None
        self._quoting = False  # whether the last string contains a call tag
        self.lost = False

    @property
    def unfinished(self) -> bool:
        """Whether a string is open, or opening and closing quotes can't be distinguished."""
        return self.lost or self._quote is not None

    def enter(self, quote: str) -> None:
        """Enter a string that this quote opens."""
        self._quote = quote

    def leave(self, window: str, position: int, final: bool) -> tuple[int, bool]:
        """Leave the open string: the position to continue at, and whether the string ended."""
        if self.lost:
            return len(window), False
        if self._quote is not None:
            position = self._go_to_end(window, position, self._quote)
        if self._quote is None and self._quoting:
            after = _AFTER.match(window, position)
            following = "" if after is None else after["next"]
            if not following and not final:
                return max(position, len(window) - _KEPT), False
            self._quoting, self.lost = False, following not in ",:]}"
        return position, not self.unfinished

    def _go_to_end(self, window: str, start: int, quote: str) -> int:
        while True:
            inside = _INSIDE[quote].match(window, start)
            end = start if inside is None else inside.end()
            if not window.startswith("<", end):
                break
            self._quoting = True
            start = end + 1
        if not window.startswith(quote, end):
            return _half_tag(window, start, end)
        self._quote = None
        return end + 1


def _half_tag(window: str, start: int, end: int) -> int:
    """The start of a call tag that the end of the window may cut off; else `end`."""
    at = window.rfind("<", max(start, len(window) - len(_TAGS[1])))
    half = window[at:].lower()
    return at if at >= 0 and any(tag.startswith(half) for tag in _TAGS) else end
