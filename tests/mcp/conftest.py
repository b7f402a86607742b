"""What the tests of MCP servers share."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.forking.launch_files import launch_file
from wieldy import Toolbox

SERVERS = Path(__file__).parent / "servers"
FRESH_SHOP = str(SERVERS / "shop.py")
SHOP = launch_file(SERVERS / "shop.py")
ASKING = launch_file(SERVERS / "asking.py")


def raw(mode: str, *more: str) -> list[str]:
    """The command of the server that is written by hand."""
    return [sys.executable, str(SERVERS / "raw.py"), mode, *more]


@pytest.fixture
async def box() -> AsyncIterator[Toolbox]:
    async with Toolbox() as box:
        yield box


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A file in which servers leave traces."""
    path = tmp_path / "trace"
    path.touch()
    return path
