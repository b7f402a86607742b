"""Write and read moments as programs exchange them."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import overload


@overload
def iso_time(seconds: float) -> str: ...
@overload
def iso_time(seconds: None) -> None: ...
@overload
def iso_time(seconds: float | None) -> str | None: ...
def iso_time(seconds: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC: `2026-11-19T03:42:58.125000Z`."""
    return None if seconds is None else write_moment(utc_moment(seconds))


def utc_moment(seconds: float) -> datetime:
    """Seconds since the epoch as a moment in UTC; the epoch itself if no calendar has it."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)


def write_moment(moment: datetime) -> str:
    """A moment as ISO 8601; UTC is written as `Z`."""
    return moment.isoformat().replace("+00:00", "Z")


def read_retry_after(header: object) -> float | None:
    """The seconds that a `Retry-After` header asks to wait for; None if it can't be read."""
    text = str(header or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        return _seconds_until(text)
    return seconds if 0 <= seconds < float("inf") else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (TypeError, ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
