"""What every test relies on."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

_SECONDS = 120


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts its background jobs deaf to control-C; tests of it must be heard."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def bounded() -> Iterator[None]:
    """Bound a test in time."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test took longer than {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
