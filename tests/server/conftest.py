"""A test that waits for what never comes fails instead of standing still."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

_SECONDS = 60


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Bound each test in time."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test took longer than {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
