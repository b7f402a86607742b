"""Code fences in a model's text: where one opens, where it closes, and what may become one."""

import re

_INDENT = 16
_BLANK = rf"[ \t]{{0,{_INDENT}}}"

# Longer runs are no fence: what is held back stays small.
MARKS = re.compile(r"````{0,61}(?!`)|~~~~{0,61}(?!~)")
_OPENING = re.compile(r"(?:`{3,64}[^`\n]{0,200}|~{3,64}[^\n]{0,200})\n")
_HALF_OPENING = re.compile(r"(?:`{1,64}[^`\n]{0,200}|~{1,64}[^\n]{0,200})\Z")
_CLOSING = re.compile(rf"(?P<marks>`{{3,64}}|~{{3,64}}){_BLANK}\r?(?:\n|\Z)")
_HALF_CLOSING = re.compile(rf"(?:`{{0,64}}|~{{0,64}}){_BLANK}\r?\Z")
_HALF_LINE = re.compile(rf"{_BLANK}(?P<marks>[`~]{{1,2}})\Z")

# What may stand in a tag: no line that starts like a fence, so that either can be told first.
IN_TAG = rf"(?:[^<>\n]|\n(?!{_BLANK}(?:```|~~~)))"

# A closing line in the middle of a block, with the line break before it.
FENCE_IN_BLOCK = rf"\n{_BLANK}(?P<fence>`{{3,64}}|~{{3,64}}){_BLANK}(?=\r?(?:\n|\Z))"


def attribute_pattern(most: int) -> str:
    """The pattern of what may follow the name in a tag: nothing, or space and so much more."""
    return rf"(?:(?=\s){IN_TAG}{{1,{most + 1}}})?"


def starts_line(window: str, at: int, indent: int | None) -> bool:
    """Whether only an indent stands before `at` on its line.

    `indent` is how much of one stands before the window; None if there is more than that.
    """
    before = indent_after(window[max(0, at - _INDENT - 1) : at], indent if at <= _INDENT else None)
    return before is not None


def opening_end(window: str, at: int) -> int | None:
    """Where the line of the fence that opens at `at` ends; None if it is no such line."""
    line = _OPENING.match(window, at)
    return None if line is None else line.end()


def may_open_fence(window: str, at: int) -> bool:
    """Whether the unfinished line at `at` may become the opening line of a fence."""
    return _HALF_OPENING.match(window, at) is not None


def closing_end(window: str, at: int, marks: str, final: bool) -> int | None:
    """Where the line that closes a fence of these marks ends; None if it is no such line."""
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
    """Where one or two marks start a line that the end of the window has cut; else the end."""
    line = window.rfind("\n", max(0, len(window) - 2 * _INDENT)) + 1
    half = _HALF_LINE.match(window, line)
    if half is None or not starts_line(window, half.start("marks"), indent):
        return len(window)
    return half.start("marks")


def indent_after(text: str, indent: int | None) -> int | None:
    """How long the last line is if it is an indent only, given the indent before the text."""
    line = text.rfind("\n")
    before = 0 if line >= 0 else indent
    if before is None or text[line + 1 :].strip(" \t"):
        return None
    length = before + len(text) - line - 1
    return length if length <= _INDENT else None
