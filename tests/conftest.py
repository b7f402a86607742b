"""What every test relies on."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts its background jobs deaf to control-C; tests of it must be heard."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
