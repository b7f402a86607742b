"""Find code fences in a model's text, including ones that are not complete yet."""

import re

_INDENT = 16
_BLANK = rf"[ \t]{{0,{_INDENT}}}"

# A longer run is not a fence, which keeps the text that is held back small.
MARKS = re.compile(r"````{0,61}(?!`)|~~~~{0,61}(?!~)")
_OPENING = re.compile(r"(?:`{3,64}[^`\n]{0,200}|~{3,64}[^\n]{0,200})\n")
_HALF_OPENING = re.compile(r"(?:`{1,64}[^`\n]{0,200}|~{1,64}[^\n]{0,200})\Z")
_CLOSING = re.compile(rf"(?P<marks>`{{3,64}}|~{{3,64}}){_BLANK}\r?(?:\n|\Z)")
_HALF_CLOSING = re.compile(rf"(?:`{{0,64}}|~{{0,64}}){_BLANK}\r?\Z")
_HALF_LINE = re.compile(rf"{_BLANK}(?P<marks>[`~]{{1,2}})\Z")

# The inside of a tag. No line in it starts like a fence, so tags and fences can't overlap.
IN_TAG = rf"(?:[^<>\n]|\n(?!{_BLANK}(?:```|~~~)))"

# A closing line in the middle of a block, with the line break before it.
FENCE_IN_BLOCK = rf"\n{_BLANK}(?P<fence>`{{3,64}}|~{{3,64}}){_BLANK}(?=\r?(?:\n|\Z))"


def attribute_pattern(most: int) -> str:
    """A pattern for the text after the name in a tag: nothing, or space and up to `most` more."""
    return rf"(?:(?=\s){IN_TAG}{{1,{most + 1}}})?"


def starts_line(window: str, at: int, indent: int | None) -> bool:
    """Whether the line has only an indent before `at`.

    `indent` is the width of the indent before the window, or None if there is other text.
    """
    before = indent_after(window[max(0, at - _INDENT - 1) : at], indent if at <= _INDENT else None)
    return before is not None


def opening_end(window: str, at: int) -> int | None:
    """The end of the line of a fence that opens at `at`; None if no fence opens there."""
    line = _OPENING.match(window, at)
    return None if line is None else line.end()


def may_open_fence(window: str, at: int) -> bool:
    """Whether the unfinished line at `at` may become the opening line of a fence."""
    return _HALF_OPENING.match(window, at) is not None


def closing_end(window: str, at: int, marks: str, final: bool) -> int | None:
    """The end of the line at `at` that closes a fence with these marks; None if it does not."""
    line = _CLOSING.match(window, at)
    if line is None or not closes_fence(line["marks"], marks):
        return None
    return line.end() if final or window[line.end() - 1] == "\n" else None


def may_close_fence(window: str, at: int) -> bool:
    """Whether the unfinished line at `at` may become the closing line of a fence."""
    return _HALF_CLOSING.match(window, at) is not None


def closes_fence(found: str, marks: str) -> bool:
    """Whether a run of marks closes a fence that was opened with `marks`."""
    return found[0] == marks[0] and len(found) >= len(marks)


def half_fence(window: str, indent: int | None) -> int:
    """The start of a cut-off line that begins with one or two marks; else the end."""
    line = window.rfind("\n", max(0, len(window) - 2 * _INDENT)) + 1
    half = _HALF_LINE.match(window, line)
    if half is None or not starts_line(window, half.start("marks"), indent):
        return len(window)
    return half.start("marks")


def indent_after(text: str, indent: int | None) -> int | None:
    """The width of the last line if it is only an indent, given the indent before the text."""
    line = text.rfind("\n")
    before = 0 if line >= 0 else indent
    if before is None or text[line + 1 :].strip(" \t"):
        return None
    length = before + len(text) - line - 1
    return length if length <= _INDENT else None
