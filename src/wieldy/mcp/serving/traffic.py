"""Count the calls that run, and refuse new ones when the server ends."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from wieldy.core.task import time_limit


class Traffic:
    """Counts running calls, so that a server can end between them."""

    def __init__(self) -> None:
        self.running = 0
        self.closing = False
        self._idle: asyncio.Event | None = None

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a call while it runs; refuse it if the server is ending."""
        if self.closing:
            raise MCPError(INTERNAL_ERROR, "The server is shutting down. Call again later.")
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            if not self.running and self._idle is not None:
                self._idle.set()

    async def drain(self, seconds: float) -> bool:
        """Refuse new calls and wait for running ones; returns whether they all ended in time."""
        self.closing = True
        self._idle = asyncio.Event()
        if self.running:
            try:
                async with time_limit(seconds):
                    await self._idle.wait()
            except TimeoutError:
                return False
        return True
