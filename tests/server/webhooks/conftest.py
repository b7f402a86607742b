"""Webhooks on both kinds of database, and a receiver of theirs."""

from collections.abc import AsyncIterator

import pytest

from tests.server.webhooks.receiver import Receiver
from tests.store.conftest import server, url

__all__ = ["server", "url"]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A real HTTP server on this machine."""
    async with Receiver() as started:
        yield started
