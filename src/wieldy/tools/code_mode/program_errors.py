"""Why a program ended without a value, with the line, in words that a model can act on."""

from collections.abc import Sequence
from typing import Any

from wieldy.core.errors import WieldyError
from wieldy.core.short_text import cut_text

_MAX_LINE = 200
_MAX_MESSAGE = 2_000
_FIRST_FRAMES = 2
_LAST_FRAMES = 4


class ProgramFailed(WieldyError, RuntimeError):
    """A program could not be run to its end.

    Attributes:
        line: The line of the program, counted from 1, if one is known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def explain_program_failure(error: Any, made: int) -> ProgramFailed:
    """The failure of a program, from the sandbox's error and the number of calls made before."""
    said = cut_text(
        error.display("type-msg") if hasattr(error, "display") else str(error), _MAX_MESSAGE
    )
    frames = error.traceback() if hasattr(error, "traceback") else []
    line = frames[-1].line if frames else None
    where = "" if line is None else f" in line {line}"
    lines = [f"The program failed{where}: {said}", *_quote_frames(frames), *count_made(made)]
    return ProgramFailed("\n".join(lines), line)


def count_made(made: int) -> list[str]:
    """A line that says how many calls were made, so that nobody makes them again unawares."""
    return [f"{made} call{'s' * (made != 1)} had been made before."] if made else []


def _quote_frames(frames: Sequence[Any]) -> list[str]:
    shown = [_quote(frame) for frame in frames]
    if len(shown) > _FIRST_FRAMES + _LAST_FRAMES:
        left_out = len(shown) - _FIRST_FRAMES - _LAST_FRAMES
        shown[_FIRST_FRAMES:-_LAST_FRAMES] = [f"  … {left_out} more …"]
    return shown


def _quote(frame: Any) -> str:
    inside = f", in {frame.function_name}" if frame.function_name else ""
    source = (frame.source_line or "").strip()
    return f"  line {frame.line}{inside}: {cut_text(source, _MAX_LINE)}"
