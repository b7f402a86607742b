"""Hold the part of a streamed text that is still needed, with the reading position."""

import re

from .code_fences import MARKS, half_fence, indent_after, starts_line

_RUNS = ("```", "~~~")
_RUN = re.compile(r"`+|~+")


class TextWindow:
    """Text with a reading position. Each search visits each character once."""

    __slots__ = ("_clear", "_tag", "_tag_found", "at", "indent", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.indent: int | None = 0  # the indent before the text; None: other text
        self.renew()

    def add(self, chunk: str) -> None:
        """Append text."""
        self.text += chunk
        self.renew()

    def renew(self) -> None:
        """Forget the results of earlier searches."""
        self._clear = [0, 0]  # positions before which there is no run
        self._tag: re.Match[str] | None = None
        self._tag_found = False

    def take(self, end: int) -> str:
        """The text up to a place, which is then read."""
        taken = self.text[self.at : end]
        self.at = end
        return taken

    def drop(self) -> None:
        """Drop the text that has been read."""
        self.indent = indent_after(self.text[: self.at], self.indent)
        self.text = self.text[self.at :]
        self.at = 0

    def starts_line(self, at: int) -> bool:
        """Whether the line has only an indent before the position."""
        return starts_line(self.text, at, self.indent)

    def half_fence(self) -> int:
        """The start of one or two fence marks at the end of the text; else the end."""
        return max(self.at, half_fence(self.text, self.indent))

    def next_tag(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The next match of the one pattern that is searched in this window."""
        if not self._tag_found or (self._tag is not None and self._tag.start() < self.at):
            self._tag = pattern.search(self.text, self.at)
            self._tag_found = True
        return self._tag

    def next_marks(self, limit: int) -> re.Match[str] | None:
        """The next run of fence marks that starts a line before a place."""
        position = self.at
        while (start := self._next_run(position, limit)) < limit:
            marks = MARKS.match(self.text, start)
            if marks is not None and self.starts_line(start):
                return marks
            run = _RUN.match(self.text, start)
            position = start + 1 if run is None else run.end()
        return None

    def _next_run(self, position: int, limit: int) -> int:
        """The position of the next three marks; the limit if there are none before it."""
        nearest = limit
        for i, run in enumerate(_RUNS):
            start = max(position, self._clear[i])
            if start < limit:
                found = self.text.find(run, start, limit)
                self._clear[i] = limit if found < 0 else found
                nearest = min(nearest, self._clear[i])
        return nearest
