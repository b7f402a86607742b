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

# A closing line in the middle of a block, with the line break before it.
FENCE_IN_BLOCK = rf"\n{_BLANK}(?P<fence>`{{3,64}}|~{{3,64}}){_BLANK}(?=\r?(?:\n|\Z))"


def starts_line(window: str, at: int, blank_before: bool) -> bool:
    """Whether only an indent stands before `at` on its line.

    `blank_before` tells the same of the place where the window begins.
    """
    before = window[max(0, at - _INDENT - 1) : at]
    line = before.rfind("\n")
    if line < 0 and (at > _INDENT or not blank_before):
        return False
    return not before[line + 1 :].strip(" \t")


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
    if line is None or not closes(line["marks"], marks):
        return None
    return line.end() if final or window[line.end() - 1] == "\n" else None


def may_close_fence(window: str, at: int) -> bool:
    """Whether the unfinished line at `at` may become the closing line of a fence."""
    return _HALF_CLOSING.match(window, at) is not None


def closes(found: str, marks: str) -> bool:
    """Whether a run of marks closes a fence that was opened with `marks`."""
    return found[0] == marks[0] and len(found) >= len(marks)


def half_fence(window: str, blank_before: bool) -> int:
    """Where one or two marks start a line that the end of the window has cut; else the end."""
    line = window.rfind("\n", max(0, len(window) - 2 * _INDENT)) + 1
    if line == 0 and (len(window) > 2 * _INDENT or not blank_before):
        return len(window)
    half = _HALF_LINE.match(window, line)
    return len(window) if half is None else half.start("marks")


def blank_after(text: str, blank_before: bool) -> bool:
    """Whether the last line of the text is an indent only, given the line it starts on."""
    line = text.rfind("\n")
    if line < 0 and not blank_before:
        return False
    return not text[line + 1 :].strip(" \t")
