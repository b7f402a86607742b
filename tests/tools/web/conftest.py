"""A real HTTP server on loopback, which pages and search services are played by."""

from collections.abc import Iterator

import pytest

from tests.openapi.api import Api, serving


@pytest.fixture
def site() -> Iterator[Api]:
    """A site that answers as it is told."""
    with serving() as api:
        yield api
