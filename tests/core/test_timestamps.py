"""Moments are written in one spelling, and every form of `Retry-After` is read."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from wieldy.core.timestamps import iso_time, read_retry_after, write_moment

MOMENT = TypeAdapter(datetime)


@given(st.integers(0, 4_000_000_000_000_000).map(lambda micros: micros / 1_000_000))
def test_a_time_is_written_as_the_api_writes_it_and_reads_back(seconds: float) -> None:
    written = iso_time(seconds)
    moment = datetime.fromtimestamp(seconds, UTC)
    assert written == write_moment(moment) == MOMENT.dump_python(moment, mode="json")
    assert written.endswith("Z")
    assert datetime.fromisoformat(written) == moment


def test_no_time_stays_none() -> None:
    assert iso_time(None) is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120), (" 1.5 ", 1.5), ("0", 0), (3, 3), ("-1", None), ("inf", None), ("nan", None),
     ("", None), (None, None), ("soon", None), ("Wed, 99 Foo 2026", None),
     ("Thu, 01 Jan 1970 00:00:00 GMT", 0)],
)  # fmt: skip
def test_a_wait_is_read_in_seconds(header: object, seconds: float | None) -> None:
    assert read_retry_after(header) == seconds


@pytest.mark.parametrize("usegmt", [True, False])
def test_a_wait_may_be_a_date(usegmt: bool) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    wait = read_retry_after(format_datetime(later, usegmt=usegmt))
    assert wait is not None and 0 < wait <= 86_400
