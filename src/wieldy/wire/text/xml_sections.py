"""CDATA sections in text that streams. The text of one may hold the mark that ends it."""

import re
from collections.abc import Iterable

CDATA = r"<!\[CDATA\["
CDATA_END = "]]>"

_TAG_END = r"</(?P<tag>[^\s<>/!?=&\]]{1,64})\s{0,16}>"
_MARK = re.compile(rf"\]\]>|{CDATA}|{_TAG_END}", re.IGNORECASE)
_DECISION = re.compile(rf"{CDATA}|{_TAG_END}", re.IGNORECASE)
_LONGEST_DECISION = 96


class OpenSection:
    """A section whose end is looked for.

    From its first end mark on, it goes to the last one before the closing tag of its
    element or the next section, so that `a[b[0]]>1` comes through. Where neither follows,
    the first mark is its end.
    """

    __slots__ = ("_marked", "_tag", "_tail", "start")

    def __init__(self, tag: str, start: int) -> None:
        self.start = start
        self._tag = tag
        self._marked = False
        self._tail = ""

    def find_end(self, window: str, position: int, final: bool) -> tuple[int, bool]:
        """The end mark of the section, and True; else from where on the window is needed."""
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
            elif self._decides(mark):
                return last, True
        self._tail = window[max(after, len(window) - _LONGEST_DECISION) :]
        return position, final

    def defers(self, chunk: str) -> bool:
        """Whether more text leaves it open where the section ends.

        All text since the first end mark is needed again, and would be gone over with every
        chunk of it.
        """
        if not self._marked:
            return False
        ahead = self._tail + chunk
        if any(self._decides(mark) for mark in _DECISION.finditer(ahead)):
            return False
        self._tail = ahead[-_LONGEST_DECISION:]
        return True

    def _decides(self, mark: re.Match[str]) -> bool:
        return mark["tag"] is None or mark["tag"].lower() == self._tag


class OpenElements:
    """The elements that are open at a place, the outermost first."""

    __slots__ = ("_counts", "_names")

    def __init__(self, outermost: str) -> None:
        self._names = [outermost]
        self._counts = {outermost: 1}

    @property
    def innermost(self) -> str:
        """The last one that is open."""
        return self._names[-1] if self._names else ""

    def enter(self, name: str) -> None:
        """Go into an element."""
        self._names.append(name)
        self._counts[name] = self._counts.get(name, 0) + 1

    def leave(self, name: str) -> None:
        """Go out of an element and of those in it that were not closed."""
        while self._counts.get(name):
            last = self._names.pop()
            self._counts[last] -= 1
            if last == name:
                return


def mask_sections(raw: str, stretches: Iterable[tuple[int, int]]) -> str:
    """Text of the same length in which nothing within the stretches looks like markup."""
    pieces: list[str] = []
    position = 0
    for start, end in stretches:
        pieces += (raw[position:start], "x" * (end - start))
        position = end
    return "".join([*pieces, raw[position:]])
