"""Find the ends of CDATA sections in streaming text, whose content may contain the end mark."""

import re
from collections.abc import Iterable

CDATA = r"<!\[CDATA\["
CDATA_END = "]]>"

_TAG_END = r"</(?P<tag>[^\s<>/!?=&\]]{1,64})\s{0,16}>"
_MARK = re.compile(rf"\]\]>|{CDATA}|{_TAG_END}", re.IGNORECASE)
_DECISION = re.compile(rf"{CDATA}|{_TAG_END}", re.IGNORECASE)
_MAX_DECISION = 96


class OpenSection:
    """A section whose end has not been found yet.

    The section ends at the last end mark before the closing tag of its element or the next
    section, so that `a[b[0]]>1` is preserved. If neither follows, it ends at the first mark.
    """

    __slots__ = ("_marked", "_tag", "_tail", "start")

    def __init__(self, tag: str, start: int) -> None:
        self.start = start
        self._tag = tag
        self._marked = False
        self._tail = ""

    def find_end(self, window: str, position: int, final: bool) -> tuple[int, bool]:
        """The end mark of the section and True, else the position from which text is needed."""
        if not self._marked:
            first = window.find(CDATA_END, position)
            if first < 0:
                return max(position, len(window) - 2), False
            position, self._marked = first, True
        after = position + len(CDATA_END)
        last = position
        for mark in _MARK.finditer(window, after):
            if mark[0] == CDATA_END:
                last = mark.start()
            elif self._decides_end(mark):
                return last, True
        self._tail = window[max(after, len(window) - _MAX_DECISION) :]
        return position, final

    def defers(self, chunk: str) -> bool:
        """Whether this text can't decide where the section ends.

        A search starts at the first end mark, so without this it would repeat for each chunk.
        """
        if not self._marked:
            return False
        ahead = self._tail + chunk
        if any(self._decides_end(mark) for mark in _DECISION.finditer(ahead)):
            return False
        self._tail = ahead[-_MAX_DECISION:]
        return True

    def _decides_end(self, mark: re.Match[str]) -> bool:
        return mark["tag"] is None or mark["tag"].lower() == self._tag


class OpenElements:
    """The elements that are open at a position, outermost first."""

    __slots__ = ("_counts", "_names")

    def __init__(self, outermost: str) -> None:
        self._names = [outermost]
        self._counts = {outermost: 1}

    @property
    def innermost(self) -> str:
        """The innermost open element."""
        return self._names[-1] if self._names else ""

    def enter(self, name: str) -> None:
        """Enter an element."""
        self._names.append(name)
        self._counts[name] = self._counts.get(name, 0) + 1

    def leave(self, name: str) -> None:
        """Leave an element and the unclosed elements inside it."""
        while self._counts.get(name):
            last = self._names.pop()
            self._counts[last] -= 1
            if last == name:
                return


def mask_sections(raw: str, stretches: Iterable[tuple[int, int]]) -> str:
    """The text with the content of the ranges masked, so that it contains no markup."""
    pieces: list[str] = []
    position = 0
    for start, end in stretches:
        pieces += (raw[position:start], "x" * (end - start))
        position = end
    return "".join([*pieces, raw[position:]])
