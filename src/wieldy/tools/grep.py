"""Find the lines of a text that match a regular expression from a model.

The expression runs in an engine whose time is linear in the text. Very long lines are searched
in overlapping parts, and the search stops after some seconds.
"""

import time
from collections.abc import Callable, Iterator

from pydantic_core import SchemaError, SchemaValidator, core_schema

_MAX_PATTERN = 1000
_MAX_SHOWN = 400
_PART = 50_000
_OVERLAP = 2_000
_SECONDS = 5.0
_Matches = Callable[[str], bool]


def grep_lines(text: str, pattern: str, ignore_case: bool, around: int, most: int) -> str:
    """The matching lines with their numbers and `around` lines beside each, `most` of them."""
    matches = _compile_pattern(pattern, ignore_case)
    lines = text.removesuffix("\n").split("\n")
    until = time.monotonic() + _SECONDS
    places: dict[int, int] = {}
    total = 0
    stopped = ""
    for number, line in enumerate(lines):
        place = _find_end(line, matches, until)
        if place is not None:
            total += 1
            if total <= most:
                places[number] = place
        elif time.monotonic() > until:
            stopped = f"; it took too long and stopped at line {number + 1:,}"
            break
    shown = "".join(_show_lines(lines, places, around))
    few = f", the first {most} shown" if total > most else ""
    return f"{shown}[{total:,} of {len(lines):,} lines match{few}{stopped}]"


def _compile_pattern(pattern: str, ignore_case: bool) -> _Matches:
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"the pattern is longer than {_MAX_PATTERN} characters")
    flagged = f"(?i){pattern}" if ignore_case else pattern
    schema = core_schema.str_schema(pattern=flagged, regex_engine="rust-regex")
    try:
        found: _Matches = SchemaValidator(schema).isinstance_python
    except SchemaError as error:
        reason = str(error).rpartition("error: ")[2].rpartition("SchemaError: ")[2].strip()
        raise ValueError(f"the pattern can't be used: {reason}") from None
    return found


def _find_end(line: str, matches: _Matches, until: float) -> int | None:
    """The end of the first match in a line, as far as it is known; None without a match."""
    line = _drop_surrogates(line)
    for start in range(0, max(1, len(line) - _OVERLAP), _PART - _OVERLAP):
        part = line[start : start + _PART]
        if matches(part):
            return start + _first_end(part, matches)
        if time.monotonic() > until:
            break
    return None


def _first_end(part: str, matches: _Matches) -> int:
    if len(part) <= _MAX_SHOWN:
        return 0
    low, high = 0, len(part)
    while low < high:
        middle = (low + high) // 2
        if matches(part[:middle]):
            high = middle
        else:
            low = middle + 1
    return high


def _show_lines(lines: list[str], places: dict[int, int], around: int) -> Iterator[str]:
    last = -1
    for number in sorted({n for at in places for n in range(at - around, at + around + 1)}):
        if not 0 <= number < len(lines):
            continue
        if around and 0 <= last < number - 1:
            yield "--\n"
        last = number
        sign = ":" if number in places else "-"
        yield f"{number + 1}{sign} {_cut_line(lines[number], places.get(number, 0))}\n"


def _cut_line(line: str, end: int) -> str:
    """The line, or the part around the match if the line is long."""
    line = line.removesuffix("\r")
    if len(line) <= _MAX_SHOWN:
        return line
    start = min(max(0, end - _MAX_SHOWN // 2), len(line) - _MAX_SHOWN)
    before, after = "…" if start else "", "…" if start + _MAX_SHOWN < len(line) else ""
    cut = line[start : start + _MAX_SHOWN]
    return f"{before}{cut}{after} [from character {start + 1:,} of {len(line):,} of the line]"


def _drop_surrogates(line: str) -> str:
    """The line without lone surrogates."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return line.encode("utf-8", "replace").decode()
    return line
