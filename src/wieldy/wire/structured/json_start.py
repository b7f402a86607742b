r"""Find where the JSON starts in a model's text.

With a schema, reading starts at the first bracket of an expected kind that can
open such a container: what follows `{` is a quote, a bare key and a colon, a
comment or `}`; what follows `[` is an item of an expected kind. A string, a
number or a literal of an expected kind is the whole text, or the first thing in
a code fence that is marked `json` or not at all.

Without a schema, in this order:

1. The text starts with a container, and nothing but space is before it. `[1]`
   counts if its line ends there or a comma follows the first item.
2. A code fence. One marked `json` starts with whatever value it holds, one
   without a mark with a container, any other with an object whose first key is
   quoted. All else in fences is passed over.
3. A line starts with an object whose first key is quoted, with a list of such
   objects or of strings, or with a list whose items are on lines of their own.
4. Nothing of the above came until the text ended: the first `{"key":` inside a
   line, else the first line that starts with another list or object, else the
   first list of strings or of several numbers or literals inside a line.
5. The whole text is one string, number or literal.

Rules 1 to 3 decide while the text streams, whichever applies first. The text for rules 4 and 5
is held back. Therefore `[1]` and `{x}` in prose start nothing, and a later fence takes precedence
over a `{"a": 1}` inside a sentence.
"""

import re
from collections.abc import Callable
from enum import Enum

from .json_expected import Expected
from .json_scalar import UNKNOWN, read_word

_MAX_COUNT = 1000  # How far a decision looks ahead, in characters per piece; it bounds the work.
_SP = rf"[\s\ufeff]{{0,{_MAX_COUNT}}}+"
_LITERAL = r"(?:true|false|null|True|False|None|NaN|Infinity)(?=\W)"
_ITEM = rf"(?:[-+]?\.?[0-9][0-9.eE+\-]{{0,{5 * _MAX_COUNT}}}+|[-+]?{_LITERAL})"
_MORE = r"([0-9.eE+\-])"  # A number that is longer than the look-ahead is not a citation.
_CUT_ITEM = r"[-+.]?[A-Za-z]{0,8}+\Z"
_RUN = rf"\[[\s\[]{{0,{_MAX_COUNT}}}+"
_QUOTED_KEY = "|".join(
    rf"{q}(?:[^{q}\\\n]|\\[^\n]){{0,{_MAX_COUNT}}}(?:\\?\Z|{q}{_SP}(?:\Z|(:)))" for q in "\"'"
)
_KEYED = rf"\{{{_SP}(?:\Z|{_QUOTED_KEY})"
_OBJECT = (
    rf"\{{{_SP}(?:\Z|([\"'}}\s]|/[/*]|\#|[\w$.\-]{{1,200}}+{_SP}:)"
    rf"|/\Z|[\w$.\-]{{1,200}}+{_SP}\Z)"
)
_LIST = rf"{_RUN}(?:\Z|([\"'\]\[\s]|/[/*]|\#)|/\Z|{_CUT_ITEM}|{_OBJECT}|"

# Each pattern matches what may still become a start; a group matches once it is one.
_STRONG = re.compile(rf"(?:{_RUN})?(?:\Z|{_KEYED})")
_LOOSE = re.compile(rf"{_OBJECT}|{_LIST}({_ITEM}))")
_CAUTIOUS = re.compile(
    rf"{_OBJECT}|{_LIST}{_ITEM}(?:{_MORE}|{_SP}"
    rf"(?:\Z|([,\s])|\][ \t]{{0,{_MAX_COUNT}}}+(?:\Z|([\s\],])))))"
)
_LISTED = re.compile(rf"{_RUN}(?:\Z|([\"'])|{_CUT_ITEM}|(\]|{_ITEM}))")
_ITEMS = re.compile(rf"{_RUN}(?:\Z|([\"'])|{_CUT_ITEM}|{_ITEM}(?:{_MORE}|{_SP}(?:\Z|(,))))")
_SCALAR = re.compile(rf"([\"'/#]|{_ITEM})|{_CUT_ITEM}")
_FENCE = re.compile(r"`{3,9}+[ \t]{0,9}+([\w+#.\-]{0,40}+)(?:\Z|(.|\n))")
_TICKS = r"`{3,9}+|`{1,2}\Z"
_POINT = re.compile(rf"[{{\[]|{_TICKS}")
_LONE_PLAIN = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*', re.DOTALL)
_LONE_WORD = re.compile(r"[-+.\w]*")
_BRACKETS = re.compile(r"[\s\[]*")
_NOT_SPACE = re.compile(r"[^\s\ufeff]")
_JSON_MARKS = ("json", "json5", "jsonc", "jsonl")

_OBJECT_IN_A_LINE, _AT_A_LINE_START, _LIST_IN_A_LINE = range(3)


class _Verdict(Enum):
    YES = "yes"
    NO = "no"
    WAIT = "wait"


def _match_start(pattern: re.Pattern[str], text: str, pos: int) -> _Verdict:
    match = pattern.match(text, pos)
    if match is None:
        return _Verdict.NO
    return _Verdict.YES if match.lastindex else _Verdict.WAIT


class StartFinder:
    """Takes text until the JSON starts, and gives the text from there on."""

    def __init__(self, expected: Expected | None) -> None:
        self._expected = expected or Expected()
        brackets = re.escape(self._expected.brackets)
        opens = [f"[{brackets}]"] * bool(brackets) + [_TICKS] * self._expected.scalars
        self._opens = re.compile("|".join(opens) or r"\Z(?!\Z)")
        self._search = self._in_prose if expected is None else self._for_expected
        self._phase: Callable[[], _Verdict] = self._at_first
        self._text = ""
        self._pos = 0
        self._trimmed = 0
        self._closing = False
        self._blank = True
        self._mark = ""
        self._fenced = False
        self._lone: list[str] = []
        self._kept: list[str] = []
        self._held: dict[int, int] = {}

    def feed(self, text: str) -> str | None:
        """The text from the start of the JSON on, or None if it is still to come."""
        self._text += text
        while self._pos < len(self._text):
            verdict = self._phase()
            if verdict is _Verdict.YES:
                return self._text[self._pos :]
            if verdict is _Verdict.WAIT:
                break
        self._trim_text()
        return None

    def close(self) -> str | None:
        """The text from where the JSON starts, decided with what there is."""
        lone = "".join(self._lone)
        if self._phase in (self._in_lone_string, self._in_lone_word, self._after_lone):
            if self._phase == self._after_lone or not lone.startswith('"'):
                return lone if lone[0] == '"' or read_word(lone.strip()) is not UNKNOWN else None
            self._replay_held()
        self._closing = True
        found = self.feed("")
        if found is None and self._held:
            start = self._held[min(self._held)] - min(self._held.values())
            found = ("".join(self._kept) + self._text)[start:]
        return found or (lone if lone.startswith('"') else None)

    def _trim_text(self) -> None:
        """Forget what was passed, but for text from the first held start on."""
        if self._held:
            first = max(0, min(self._held.values()) - self._trimmed)
            self._kept.append(self._text[first : self._pos])
        self._trimmed += self._pos
        self._text = self._text[self._pos :]
        self._pos = 0

    def _pass_text(self, stop: int) -> None:
        """Go on at a position, and remember whether its line is blank so far."""
        passed = self._text[self._pos : stop]
        newline = passed.rfind("\n")
        self._blank = (self._blank or newline >= 0) and not passed[newline + 1 :].strip()
        self._pos = stop

    def _go_on(self, phase: Callable[[], _Verdict], stop: int | None = None) -> _Verdict:
        if stop is not None:
            self._pass_text(stop)
        self._phase = phase
        return _Verdict.NO

    def _judge_pattern(self, pattern: re.Pattern[str]) -> _Verdict:
        """What a pattern says here; at the end of the text, what may be a start is one."""
        verdict = _match_start(pattern, self._text, self._pos)
        return _Verdict.YES if verdict is _Verdict.WAIT and self._closing else verdict

    def _skip_space(self) -> str:
        """The next character that is not space, or nothing."""
        found = _NOT_SPACE.search(self._text, self._pos)
        self._pass_text(found.start() if found else len(self._text))
        return found[0] if found else ""

    def _at_first(self) -> _Verdict:
        """Before anything but space."""
        char = self._skip_space()
        if not char:
            return _Verdict.WAIT
        if char in "{[" and self._search == self._in_prose:
            verdict = self._judge_pattern(_CAUTIOUS)
            return self._go_on(self._search) if verdict is _Verdict.NO else verdict
        if char == '"' and self._expected.scalars:
            self._lone = ['"']
            return self._go_on(self._in_lone_string, self._pos + 1)
        if self._expected.scalars and _LONE_WORD.fullmatch(char):
            return self._go_on(self._in_lone_word)
        return self._go_on(self._search)

    def _in_lone_string(self) -> _Verdict:
        """In a string at the start of the text, which may be all there is."""
        stop = _end_of(_LONE_PLAIN, self._text, self._pos)
        self._lone.append(self._text[self._pos : stop])
        self._pos = stop
        if stop < len(self._text) and self._text[stop] == '"':
            self._lone.append('"')
            return self._go_on(self._after_lone, stop + 1)
        return _Verdict.WAIT

    def _in_lone_word(self) -> _Verdict:
        """In a word at the start of the text, which may be all there is."""
        stop = _end_of(_LONE_WORD, self._text, self._pos)
        self._lone.append(self._text[self._pos : stop])
        self._pos = stop
        return self._go_on(self._after_lone) if stop < len(self._text) else _Verdict.WAIT

    def _after_lone(self) -> _Verdict:
        """After what may be all there is."""
        rest = self._text[self._pos :]
        if rest.strip():
            self._replay_held()
            return _Verdict.NO
        self._lone.append(rest)
        self._pos = len(self._text)
        return _Verdict.WAIT

    def _replay_held(self) -> None:
        """Look again at text that was held, as prose."""
        self._text = "".join(self._lone) + self._text[self._pos :]
        self._pos = 0
        self._lone = []
        self._blank = True
        self._phase = self._search

    def _for_expected(self) -> _Verdict:
        """In any text, with a schema."""
        found = self._opens.search(self._text, self._pos)
        if found is None:
            self._pass_text(len(self._text))
            return _Verdict.WAIT
        self._pass_text(found.start())
        if found[0][0] == "`":
            return self._at_ticks(found)
        verdict = self._judge_pattern(_LOOSE)
        if verdict is _Verdict.YES:
            first = _NOT_SPACE.search(self._text, self._pos + 1)
            if first and not self._expected.fits(found[0], first[0]):
                verdict = _Verdict.NO
        if verdict is _Verdict.NO:
            self._pass_text(self._pos + 1)
        return verdict

    def _at_ticks(self, found: re.Match[str]) -> _Verdict:
        """At a code fence, where the schema has strings, numbers or literals."""
        if len(found[0]) < 3:
            return _Verdict.WAIT
        if self._fenced:
            self._fenced = False
            return self._go_on(self._search, found.end())
        return self._go_on(self._at_fence)

    def _in_prose(self) -> _Verdict:
        """In prose, without a schema."""
        found = _POINT.search(self._text, self._pos)
        if found is None:
            self._pass_text(len(self._text))
            return _Verdict.WAIT
        self._pass_text(found.start())
        if found[0] in "{[":
            return self._at_bracket(found[0])
        if len(found[0]) < 3:
            return _Verdict.WAIT
        return self._go_on(self._at_fence)

    def _at_bracket(self, bracket: str) -> _Verdict:
        """At a bracket in prose."""
        verdict = _match_start(_STRONG, self._text, self._pos)
        if verdict is _Verdict.WAIT and not self._closing:
            return verdict
        if not self._blank:
            verdict = self._inside_a_line(verdict)
        elif verdict is _Verdict.NO:
            verdict = self._at_other(bracket)
        else:
            verdict = _Verdict.YES
        if verdict is _Verdict.NO:
            after = self._pos + 1
            self._pass_text(_end_of(_BRACKETS, self._text, after) if bracket == "[" else after)
        return verdict

    def _inside_a_line(self, strong: _Verdict) -> _Verdict:
        """At a bracket that is not the first in its line."""
        if strong is _Verdict.YES:
            return self._hold_start(_OBJECT_IN_A_LINE)
        verdict = _match_start(_ITEMS, self._text, self._pos)
        if verdict is _Verdict.YES:
            return self._hold_start(_LIST_IN_A_LINE)
        return _Verdict.NO if self._closing else verdict

    def _at_other(self, bracket: str) -> _Verdict:
        """At a bracket that starts a line, but no object with a quoted key."""
        listed = _LISTED.match(self._text, self._pos)
        if listed and (listed[1] or (listed[2] and re.search(r"[\[\n]", listed[0][1:]))):
            return _Verdict.YES
        verdict = self._judge_pattern(_LOOSE if bracket == "{" else _CAUTIOUS)
        return self._hold_start(_AT_A_LINE_START) if verdict is _Verdict.YES else verdict

    def _hold_start(self, rank: int) -> _Verdict:
        """Remember a start in case nothing better comes."""
        self._held.setdefault(rank, self._trimmed + self._pos)
        return _Verdict.NO

    def _at_fence(self) -> _Verdict:
        match = _FENCE.match(self._text, self._pos)
        if match is None or (match[2] is None and not self._closing):
            return _Verdict.WAIT
        self._mark = match[1].lower()
        return self._go_on(self._in_fence, match.end(1))

    def _in_fence(self) -> _Verdict:
        """In a fence, before anything but space."""
        char = self._skip_space()
        if not char:
            return _Verdict.WAIT
        if self._search == self._for_expected:
            return self._in_expected_fence(char)
        if self._mark in _JSON_MARKS:
            pattern = _LOOSE if char in "{[" else _SCALAR
        else:
            pattern = _STRONG if self._mark else _LOOSE
        verdict = (
            self._judge_pattern(pattern) if char in "{[" or pattern is _SCALAR else _Verdict.NO
        )
        return self._go_on(self._in_code) if verdict is _Verdict.NO else verdict

    def _in_expected_fence(self, char: str) -> _Verdict:
        """In a fence, with a schema: a scalar of its kinds starts here, or anything may come."""
        plain = self._mark in _JSON_MARKS or not self._mark
        fits = plain and self._expected.fits_scalar(char)
        verdict = self._judge_pattern(_SCALAR) if fits else _Verdict.NO
        if verdict is not _Verdict.NO:
            return verdict
        self._fenced = True
        return self._go_on(self._search)

    def _in_code(self) -> _Verdict:
        """In a fence that holds no JSON."""
        stop = self._text.find("```", self._pos)
        if stop >= 0:
            return self._go_on(self._in_prose, stop + 3)
        rest = len(self._text) - len(self._text.rstrip("`"))
        self._pass_text(max(self._pos, len(self._text) - min(rest, 2)))
        return _Verdict.WAIT


def _end_of(pattern: re.Pattern[str], text: str, pos: int) -> int:
    match = pattern.match(text, pos)
    return match.end() if match else pos
