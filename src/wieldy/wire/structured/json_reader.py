"""Read one JSON value as it streams, and accept common mistakes of models.

The reader is a state machine. A state is a function that reads text from a position and returns
the position where it stopped. Every state advances or passes control to one that does, so the
work is linear in the text, however it is cut into chunks.
"""

import re
from collections.abc import Callable
from typing import Any

from .json_document import NEVER, JsonDocument
from .json_event import Event, JsonPlace
from .json_scalar import ESCAPE_LENGTH, UNKNOWN, cut_escape, read_cut_word, read_escape, read_word

State = Callable[["JsonReader", str, int], int]

_SPACE = re.compile(r"[\s\ufeff]+")
_PLAIN = {quote: re.compile(rf"[^\\{quote}]*").match for quote in "\"'"}
_WORD = re.compile(r"[^\s,\]}\[{\"'`/#:]*")
_WORD_ENDS = frozenset(" \t\r\n,]}/#`")
_BARE = re.compile(r"[^,\]}\n]*")
_BARE_KEY = re.compile(r"[\w$.\-]*")
_STARTS_ITEM = re.compile(r"[\w\"'\[{$+.\-]")


class JsonReader(JsonDocument):
    """Reads one value from text that starts with it, and ignores what follows."""

    def __init__(self, outermost: JsonPlace, max_depth: int) -> None:
        super().__init__(outermost, max_depth)
        self._state: State = _at_value
        self._resume: State = _at_value
        self._held = ""
        self._quote = '"'

    def feed(self, text: str) -> list[Event]:
        """Read the next text, and add events for what is new."""
        events: list[Event] = []
        # Most text is the middle of a string, so this case is handled first.
        if (
            self._state is _in_string
            and self.told is not NEVER
            and self._quote not in text
            and "\\" not in text
            and text
        ):
            self.parts.append(text)
            self.told += 1
            events.append(Event(self.place, text, False, self.told))
            return events
        self.events = events
        pos, end = 0, len(text)
        while pos < end:
            pos = self._state(self, text, pos)
        if len(self.parts) > self.told:
            self.tell()
        return events

    def close(self) -> list[Event]:
        """End open values as incomplete; a number that is the whole document is complete."""
        events: list[Event] = []
        self.events = events
        if end := _END.get(self._state):
            end(self)
        while not self.ended:
            self.close_container(False)
        self._state = _ignore_rest
        return events


def _ignore_rest(reader: JsonReader, text: str, pos: int) -> int:
    """After the document: ignore the text."""
    return len(text)


def _at_value(reader: JsonReader, text: str, pos: int) -> int:
    """The state in which a value should start."""
    return _ON_VALUE.get(text[pos], _begin_word)(reader, text, pos)


def _at_key(reader: JsonReader, text: str, pos: int) -> int:
    """The state in which a key should start."""
    return _ON_KEY.get(text[pos], _begin_bare_key)(reader, text, pos)


def _at_colon(reader: JsonReader, text: str, pos: int) -> int:
    """Between a key and its value."""
    if text[pos] == ":":
        reader._state = _at_value
        return pos + 2 if text.startswith(" ", pos + 1) else pos + 1
    return _ON_COLON.get(text[pos], _drop_key)(reader, text, pos)


def _after_value(reader: JsonReader, text: str, pos: int) -> int:
    """The state after the end of a value."""
    char = text[pos]
    if char == ",":
        reader._state = _at_key if reader.in_object else _at_value
        return pos + 2 if text.startswith(" ", pos + 1) else pos + 1
    return _ON_AFTER.get(char, _begin_without_comma)(reader, text, pos)


def _in_string(reader: JsonReader, text: str, pos: int) -> int:
    """Inside a string: plain text up to the quote, a backslash, or the end of the text."""
    stop = _PLAIN[reader._quote](text, pos).end()  # type: ignore[union-attr]  # it can match nothing
    if stop > pos:
        reader.parts.append(text[pos:stop])
    if stop == len(text):
        return stop
    if text[stop] == "\\":
        reader._state = _in_escape
        return stop
    if reader.told is not NEVER:
        reader.close_string(True)
        reader._state = _ignore_rest if reader.here is reader.outermost else _after_value
    else:
        reader.key = reader.take_parts()
        reader._state = _at_colon
    return stop + 1


def _in_escape(reader: JsonReader, text: str, pos: int) -> int:
    """At a backslash in a string; an escape may be cut by the end of the text."""
    held = reader._held
    piece = held + text[pos : pos + ESCAPE_LENGTH]
    found = read_escape(piece)
    if found is None:
        reader._held = piece
        return len(text)
    if found[0]:
        reader.parts.append(found[0])
    # A surrogate that was held may turn out to be alone; then the escape after it remains.
    reader._held = held[found[1] :]
    if not reader._held:
        reader._state = _in_string
    return pos + max(0, found[1] - len(held))


def _in_word(reader: JsonReader, text: str, pos: int) -> int:
    """Inside a number, a literal, or the first word of text without quotes."""
    stop = _end_of(_WORD, text, pos)
    reader.parts.append(text[pos:stop])
    if stop == len(text):
        return stop
    if text[stop] in _WORD_ENDS or text[stop].isspace():
        word = "".join(reader.parts)
        value = read_word(word)
        if value is not UNKNOWN:
            reader.parts = []
            _add_scalar(reader, word, value)
            return stop
    reader._state = _in_bare_text
    return stop


def _in_bare_text(reader: JsonReader, text: str, pos: int) -> int:
    """Inside text without quotes, which ends at a comma, a closing bracket or the line's end."""
    stop = _end_of(_BARE, text, pos)
    reader.parts.append(text[pos:stop])
    if stop < len(text):
        word = reader.take_parts().strip()
        _add_scalar(reader, word, word)
    return stop


def _add_scalar(reader: JsonReader, text: str, value: Any) -> None:
    reader.add_scalar(text, value)
    reader._state = _ignore_rest if reader.ended else _after_value


def _bare_key(reader: JsonReader, text: str, pos: int) -> int:
    """Inside a key without quotes."""
    stop = _end_of(_BARE_KEY, text, pos)
    reader.parts.append(text[pos:stop])
    if stop < len(text):
        reader.key = reader.take_parts()
        reader._state = _at_colon
    return stop


def _after_slash(reader: JsonReader, text: str, pos: int) -> int:
    """After a slash outside strings: a comment, or nothing that matters."""
    reader._held = ""
    reader._state = {"/": _line_comment, "*": _block_comment}.get(text[pos], reader._resume)
    return pos + (text[pos] in "/*")


def _line_comment(reader: JsonReader, text: str, pos: int) -> int:
    stop = text.find("\n", pos)
    if stop < 0:
        return len(text)
    reader._state = reader._resume
    return stop + 1


def _block_comment(reader: JsonReader, text: str, pos: int) -> int:
    if reader._held and text[pos] == "/":
        stop = pos - 1
    else:
        stop = text.find("*/", pos)
        if stop < 0:
            reader._held = "*" if text.endswith("*") else ""
            return len(text)
    reader._held = ""
    reader._state = reader._resume
    return stop + 2


def _skip_space(reader: JsonReader, text: str, pos: int) -> int:
    return _end_of(_SPACE, text, pos)


def _skip_one(reader: JsonReader, text: str, pos: int) -> int:
    return pos + 1


def _begin_comment(reader: JsonReader, text: str, pos: int) -> int:
    reader._resume = reader._state
    reader._state = _after_slash if text[pos] == "/" else _line_comment
    return pos + 1


def _begin_string(reader: JsonReader, text: str, pos: int) -> int:
    reader.open_string()
    reader._quote = text[pos]
    reader._state = _in_string
    return pos + 1


def _begin_key(reader: JsonReader, text: str, pos: int) -> int:
    reader._quote = text[pos]
    reader._state = _in_string
    return pos + 1


def _begin_bare_key(reader: JsonReader, text: str, pos: int) -> int:
    if _end_of(_BARE_KEY, text, pos) == pos:
        return _skip_odd(reader, text, pos)
    reader._state = _bare_key
    return pos


def _begin_word(reader: JsonReader, text: str, pos: int) -> int:
    if text[pos].isspace():
        return _skip_space(reader, text, pos)
    reader._state = _in_word
    return pos


def _begin_container(reader: JsonReader, text: str, pos: int) -> int:
    is_object = text[pos] == "{"
    if not reader.open_container(is_object):
        reader._state = _ignore_rest
        return len(text)
    reader._state = _at_key if is_object else _at_value
    return pos + 1


def _begin_without_comma(reader: JsonReader, text: str, pos: int) -> int:
    if not _STARTS_ITEM.match(text, pos):
        return _skip_odd(reader, text, pos)
    reader._state = _at_key if reader.in_object else _at_value
    return pos


def _skip_odd(reader: JsonReader, text: str, pos: int) -> int:
    return max(pos + 1, _end_of(_SPACE, text, pos))


def _drop_key(reader: JsonReader, text: str, pos: int) -> int:
    """A key that has no value is left out."""
    if text[pos].isspace():
        return _skip_space(reader, text, pos)
    reader._state = _at_key
    return pos


def _skip_comma(reader: JsonReader, text: str, pos: int) -> int:
    reader._state = _at_key if reader.in_object else _at_value
    return pos + 1


def _close_bracket(reader: JsonReader, text: str, pos: int) -> int:
    """Close the nearest container of the bracket's kind, with what is open inside it."""
    is_object = text[pos] == "}"
    if reader.has_open(is_object):
        while reader.in_object != is_object:
            reader.close_container(True)
        reader.close_container(True)
        reader._state = _ignore_rest if reader.ended else _after_value
    return pos + 1


def _end_fence(reader: JsonReader, text: str, pos: int) -> int:
    """A code fence ends, and the document with it."""
    reader._state = _ignore_rest
    return len(text)


def _end_cut_string(reader: JsonReader) -> None:
    if reader.in_string:
        if rest := cut_escape(reader._held):
            reader.parts.append(rest)
        reader.close_string(False)


def _end_cut_word(reader: JsonReader) -> None:
    word = reader.take_parts()
    value = read_word(word)
    is_whole = reader.ended and value is not UNKNOWN
    if value is UNKNOWN:
        value = read_cut_word(word)
    if value is UNKNOWN and any(map(str.isalnum, word)):
        value = word
    if value is not UNKNOWN:
        reader.add_scalar(word, value, is_whole)


def _end_cut_text(reader: JsonReader) -> None:
    word = reader.take_parts().strip()
    reader.add_scalar(word, word, False)


def _end_of(pattern: re.Pattern[str], text: str, pos: int) -> int:
    match = pattern.match(text, pos)
    return match.end() if match else pos


_EVERYWHERE: dict[str, State] = {
    **dict.fromkeys(" \t\r\n\ufeff", _skip_space),
    **dict.fromkeys("/#", _begin_comment),
    **dict.fromkeys("]}", _close_bracket),
    "`": _end_fence,
}
_ON_VALUE: dict[str, State] = {
    **_EVERYWHERE,
    **dict.fromkeys("\"'", _begin_string),
    **dict.fromkeys("{[", _begin_container),
    ",": _skip_comma,
    ":": _skip_one,
}
_ON_KEY: dict[str, State] = {**_EVERYWHERE, **dict.fromkeys("\"'", _begin_key)}
_ON_COLON: dict[str, State] = {**_EVERYWHERE, **dict.fromkeys("]}", _drop_key)}
_ON_AFTER = _EVERYWHERE
_END: dict[State, Callable[[JsonReader], None]] = {
    _in_string: _end_cut_string,
    _in_escape: _end_cut_string,
    _in_word: _end_cut_word,
    _in_bare_text: _end_cut_text,
}
