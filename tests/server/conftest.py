"""What the tests of the server share."""

import pytest


@pytest.fixture(autouse=True)
def in_time(bounded: None) -> None:
    """A test that waits for what never comes fails instead of standing still."""
