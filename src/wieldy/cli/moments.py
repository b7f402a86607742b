"""Moments as people write them: `2h` ago, or a date and a time."""

import re
import time
from datetime import datetime

from wieldy.core.errors import WieldyError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_LENGTH = re.compile(rf"(?:{_PIECE.pattern})+", re.ASCII)


class MomentError(WieldyError):
    """Text that names no moment."""


def read_moment(text: str | None, option: str) -> float | None:
    """Seconds since the epoch; a length of time is that long ago."""
    if text is None:
        return None
    plain = text.strip()
    try:
        if _LENGTH.fullmatch(plain):
            pieces = _PIECE.findall(plain)
            return time.time() - sum(float(size) * _SECONDS[unit] for size, unit in pieces)
        # A time without a zone is the local one.
        return datetime.fromisoformat(plain).timestamp()
    except (ValueError, OverflowError, OSError):
        raise MomentError(
            f"{option} takes a length of time, such as 90s, 30m, 2h or 1d12h, "
            f"or a date such as 2026-11-01 or 2026-11-01T10:00, not {text!r}."
        ) from None
