"""Functions that read and write text files of the host, past every grant.

They are here because programs use them. Nothing registers them by itself, and the environment
variable `AGENTSCOPE_DANGEROUS_TEXT_IO` can forbid them: `deny`, `warn` (the default) or `allow`.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from .tool_response import ToolResponse, text_response

_log = logging.getLogger(__name__)
_POLICY = "AGENTSCOPE_DANGEROUS_TEXT_IO"
_POLICIES = ("deny", "warn", "allow")
# How many lines around a change are shown.
_AROUND = 5


class _Refused(Exception):
    """An operation that can't be done, in the words of the response."""


async def view_text_file(file_path: str, ranges: list[int] | None = None) -> ToolResponse:
    """View the content of a text file with line numbers.

    Args:
        file_path: The file on the host.
        ranges: The first and the last line, counted from 1; negative ones from the end.
    """
    return await _run_guarded("view_text_file", file_path, lambda path: _view_lines(path, ranges))


async def write_text_file(
    file_path: str, content: str, ranges: list[int] | None = None
) -> ToolResponse:
    """Create a text file, overwrite it, or replace some of its lines.

    Args:
        file_path: The file on the host.
        content: The text.
        ranges: The first and the last line that it replaces, counted from 1.
    """
    return await _run_guarded(
        "write_text_file", file_path, lambda path: _write_lines(path, content, ranges)
    )


async def insert_text_file(file_path: str, content: str, line_number: int) -> ToolResponse:
    """Insert text before a line of a text file.

    Args:
        file_path: The file on the host.
        content: The text.
        line_number: The line, counted from 1; one more than there are appends.
    """
    return await _run_guarded(
        "insert_text_file", file_path, lambda path: _insert_lines(path, content, line_number)
    )


async def _run_guarded(tool: str, given: str, work: Callable[[str], str]) -> ToolResponse:
    """Do it if the policy of this machine lets us; say in any case what the policy is."""
    path = _expand_home(given)
    policy = os.environ.get(_POLICY, "warn").strip().lower()
    if policy not in _POLICIES:
        # A word that nobody knows must not open what somebody meant to close.
        policy = "deny"
    facts: dict[str, Any] = {
        "dangerous_io": True,
        "policy": policy,
        "tool": tool,
        "path": path,
        "blocked": policy == "deny",
    }
    if policy == "deny":
        said = f"Error: {tool} is blocked, because {_POLICY} is set to deny."
    else:
        if policy == "warn":
            _log.warning("%s reaches a file of the host: %s", tool, path)
        try:
            said = await asyncio.to_thread(work, path)
        except _Refused as error:
            said = str(error)
        except (OSError, ValueError) as error:
            said = f"Error: {error}"
    response = text_response(said)
    response.metadata = facts
    return response


def _expand_home(path: str) -> str:
    return os.path.expanduser(path)


def _view_lines(path: str, ranges: Sequence[int] | None) -> str:
    lines = _read_lines(path)
    if ranges is None:
        return f"The content of {path}:\n{_fence_lines(lines, 1, len(lines))}"
    first, last = _find_range(path, ranges, len(lines))
    return f"The content of {path} in {list(ranges)} lines:\n{_fence_lines(lines, first, last)}"


def _write_lines(path: str, content: str, ranges: Sequence[int] | None) -> str:
    if not os.path.exists(path):
        _save_text(path, content)
        if ranges:
            return f"Create and write {path} successfully. The ranges {list(ranges)} are ignored."
        return f"Create and write {path} successfully."
    lines = _read_lines(path)
    if ranges is None:
        _save_text(path, content)
        return f"Overwrite {path} successfully."
    first, last = _find_range(path, ranges, len(lines))
    new = _whole_lines(content)
    changed = [*lines[: first - 1], *new, *lines[last:]]
    _save_lines(path, changed)
    end = min(len(changed), first - 1 + len(new) + _AROUND)
    shown = _fence_lines(changed, max(1, first - _AROUND), end)
    return f"Write {path} successfully. The new content snippet:\n{shown}"


def _insert_lines(path: str, content: str, line_number: int) -> str:
    lines = _read_lines(path)
    if not isinstance(line_number, int) or not 1 <= line_number <= len(lines) + 1:
        raise _Refused(
            f"InvalidArgumentsError: The given line_number ({line_number}) is not in the valid "
            f"range [1, {len(lines) + 1}]."
        )
    new = _whole_lines(content)
    changed = [*lines[: line_number - 1], *new, *lines[line_number - 1 :]]
    _save_lines(path, changed)
    first = max(1, line_number - _AROUND)
    last = min(len(changed), line_number + len(new) + _AROUND)
    return (
        f"Insert content into {path} at line {line_number} successfully. "
        f"The new content between lines {first}-{last} is:\n{_fence_lines(changed, first, last)}"
    )


def _read_lines(path: str) -> list[str]:
    """The lines of a file, without their ends."""
    if not os.path.exists(path):
        raise _Refused(f"Error: The file {path} does not exist.")
    if not os.path.isfile(path):
        raise _Refused(f"Error: The path {path} is not a file.")
    with open(path, encoding="utf-8", newline="") as file:
        return _whole_lines(file.read())


def _whole_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _find_range(path: str, ranges: Sequence[int], count: int) -> tuple[int, int]:
    numbers = list(ranges)
    if len(numbers) != 2 or not all(type(each) is int and each for each in numbers):
        raise _Refused(
            f"InvalidArgumentError: The range {numbers!r} is invalid. It is the first and the "
            "last line, as in [1, 10] or [-10, -1]."
        )
    first, last = (each if each > 0 else count + each + 1 for each in numbers)
    if first > last:
        raise _Refused(
            f"InvalidArgumentError: The range {numbers!r} is invalid: it ends before it begins."
        )
    if not 1 <= first <= count:
        raise _Refused(
            f"InvalidArgumentError: The range '{numbers!r}' is out of bounds for the file "
            f"'{path}', which has only {count} lines."
        )
    return first, min(last, count)


def _fence_lines(lines: Sequence[str], first: int, last: int) -> str:
    chosen = enumerate(lines[first - 1 : last], start=first)
    shown = "".join(f"{number}: {line}\n" for number, line in chosen)
    return f"```\n{shown}```"


def _save_lines(path: str, lines: Sequence[str]) -> None:
    _save_text(path, "".join(f"{line}\n" for line in lines))


def _save_text(path: str, content: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(content)
