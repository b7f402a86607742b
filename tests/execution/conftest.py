"""What the tests of places share."""

from collections.abc import AsyncIterator

import pytest

from tests.execution.tree import tree_of
from tests.mcp.waiting import until
from wieldy import Toolbox


@pytest.fixture
async def box() -> AsyncIterator[Toolbox]:
    """A toolbox that leaves no process behind when it is closed."""
    import os  # noqa: PLC0415

    before = tree_of(os.getpid())
    async with Toolbox(processes=2) as box:
        yield box
    await until(lambda: tree_of(os.getpid()) <= before)
