"""Points in time and lengths of time, as people type them."""

import re
import time
from datetime import datetime

from wieldy.core.errors import WieldyError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_LENGTH = re.compile(rf"(?:{_PIECE.pattern})+", re.ASCII)


class MomentError(WieldyError):
    """The text is not a point in time."""


def read_moment(text: str | None, option: str) -> float | None:
    """The time in seconds since the epoch; `2h` means two hours ago."""
    return _read_time(text, option, "an age", -1)


def read_deadline(text: str | None, option: str) -> float | None:
    """The time in seconds since the epoch; `2h` means in two hours."""
    return _read_time(text, option, "a length of time", 1)


def _read_time(text: str | None, option: str, wanted: str, direction: int) -> float | None:
    if text is None:
        return None
    plain = text.strip()
    try:
        if _LENGTH.fullmatch(plain):
            pieces = _PIECE.findall(plain)
            length = sum(float(size) * _SECONDS[unit] for size, unit in pieces)
            return time.time() + direction * length
        # A time without a zone is local time.
        return datetime.fromisoformat(plain).timestamp()
    except (ValueError, OverflowError, OSError):
        raise MomentError(
            f"{option} takes {wanted}, such as 90s, 30m, 2h or 1d12h, "
            f"or a date such as 2026-11-01 or 2026-11-01T10:00, not {text!r}."
        ) from None
