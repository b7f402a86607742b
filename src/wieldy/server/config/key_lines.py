"""Find the line of each key in a TOML document; the libraries that read TOML don't tell."""

import re
import tomllib
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
# Blanks, line ends and comments, which may stand anywhere between two entries or values.
_GAP = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'')
_LONG_TEXT = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}', re.DOTALL)
_SCALAR = re.compile(r"[^,\]}\r\n#]*")


def find_lines(text: str) -> Mapping[KeyPath, int]:
    """The line of each key and of each value in an array, by its path.

    The text must be TOML that `tomllib` accepts. Tables and arrays of tables have the line of
    their heading.
    """
    return _LineReader(text).read()


class _LineReader:
    """Walks through a document once. It reads only what it needs to find the keys."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        # How many tables each array of tables has so far.
        self._counts: dict[KeyPath, int] = {}
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._next_line = 0

    def read(self) -> Mapping[KeyPath, int]:
        """The lines of all keys."""
        table: KeyPath = ()
        self._skip(_GAP)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._read_heading()
            else:
                self._read_entry(table)
            self._skip(_GAP)
        return self._lines

    def _read_heading(self) -> KeyPath:
        is_array = self._text.startswith("[[", self._at)
        line = self._current_line()
        self._at += 2 if is_array else 1
        path = self._resolve(self._read_key())
        self._at += 2 if is_array else 1
        if is_array:
            number = self._counts.get(path, 0)
            self._counts[path] = number + 1
            path = (*path, number)
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)
        return path

    def _resolve(self, keys: KeyPath) -> KeyPath:
        """The path of a heading: a key that names an array of tables means its last table."""
        path: KeyPath = ()
        for key in keys[:-1]:
            path = (*path, key)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return (*path, keys[-1])

    def _read_entry(self, table: KeyPath) -> None:
        line = self._current_line()
        path = (*table, *self._read_key())
        for length in range(len(table) + 1, len(path) + 1):
            self._lines.setdefault(path[:length], line)
        self._at += 1  # the sign =
        self._skip(_BLANK)
        self._read_value(path)

    def _read_key(self) -> KeyPath:
        """A key with its dots, and the blanks around it."""
        names: list[str] = []
        while True:
            self._skip(_BLANK)
            names.append(self._read_name())
            self._skip(_BLANK)
            if self._text[self._at] != ".":
                return tuple(names)
            self._at += 1

    def _read_name(self) -> str:
        bare = _BARE_KEY.match(self._text, self._at)
        if bare is not None:
            self._at = bare.end()
            return bare[0]
        quoted = self._take(_QUOTED)
        name: str = tomllib.loads(f"name = {quoted}")["name"]
        return name

    def _read_value(self, path: KeyPath) -> None:
        first = self._text[self._at]
        if first == "[":
            self._read_array(path)
        elif first == "{":
            self._read_inline_table(path)
        elif first in "\"'":
            is_long = self._text.startswith(first * 3, self._at)
            self._take(_LONG_TEXT if is_long else _QUOTED)
        else:
            self._take(_SCALAR)

    def _read_array(self, path: KeyPath) -> None:
        self._at += 1
        number = 0
        self._skip(_GAP)
        while self._text[self._at] != "]":
            place = (*path, number)
            self._lines[place] = self._current_line()
            self._read_value(place)
            number += 1
            self._skip_comma()
        self._at += 1

    def _read_inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_GAP)
        while self._text[self._at] != "}":
            self._read_entry(path)
            self._skip_comma()
        self._at += 1

    def _skip_comma(self) -> None:
        self._skip(_GAP)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_GAP)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None or match.end() == self._at:
            raise ValueError(f"line {self._current_line()} can't be read")
        self._at = match.end()
        return match[0]

    def _current_line(self) -> int:
        """The line of the current place. The places only ever grow."""
        ends = self._line_ends
        while self._next_line < len(ends) and ends[self._next_line] < self._at:
            self._next_line += 1
        return self._next_line + 1
