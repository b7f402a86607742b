"""Run the calls of a served box that were approved in another process."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.shared.exceptions import MCPError

from wieldy.core.errors import WieldyError

from .traffic import Traffic

_PAUSE = 1.0
_log = logging.getLogger("wieldy.mcp")


class Pickup:
    """Finds calls that were approved by a process without their tool, such as `wieldy approve`."""

    def __init__(self, box: Any, traffic: Traffic) -> None:
        self._box = box
        self.traffic = traffic
        self._servings = 0
        self._looking: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._recovering: asyncio.Task[None] | None = None
        # Calls that were run again because somebody asked; they are not run once more.
        self._recovered: set[str] = set()

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Run the calls that are found while the server runs, over any number of transports."""
        self._servings += 1
        # A view can't take decisions.
        kept = getattr(self._box, "recorded", False) and hasattr(self._box, "recover")
        if kept and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_for_calls())
        try:
            yield
        finally:
            self._servings -= 1
            if not self._servings:
                await self.stop()

    async def stop(self) -> None:
        """End what runs and what looks for more."""
        tasks = list(self._running)
        if self._looking is not None:
            tasks.append(self._looking)
            self._looking = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _look_for_calls(self) -> None:
        failed = False
        while not self.traffic.closing:
            try:
                if await self._has_approved():
                    self._start_run()
                failed = False
            except WieldyError as error:
                if not failed:
                    _log.warning("Approved calls can't be looked for now: %s", error)
                failed = True
            await asyncio.sleep(_PAUSE)

    async def _has_approved(self) -> bool:
        approved = await self._box.ledger.list(state="approved", limit=None)
        return any(entry.free and self._box.get(entry.call.tool) for entry in approved)

    def _start_run(self, unknown: bool = False) -> asyncio.Task[None]:
        """Run the calls in tasks, so that a long one does not delay the search for others."""
        task = asyncio.get_running_loop().create_task(self._run_calls(unknown))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _run_calls(self, unknown: bool) -> None:
        try:
            with self.traffic.one():
                await self._box.recover(unknown=unknown)
        except (WieldyError, MCPError) as error:
            _log.warning("Approved calls can't be run now: %s", error)

    def recover_left(self) -> None:
        """Run the calls that a crash cut off, beside what is served."""
        self._recovering = self._start_run(unknown=True)

    def recover_again(self, call_id: str) -> bool:
        """Run the calls that a crash cut off, if that was not tried for this call before.

        Returns:
            Whether such calls are being run, and this one may be among them.
        """
        if call_id not in self._recovered:
            self._recovered.add(call_id)
            if self._recovering is None or self._recovering.done():
                self.recover_left()
        return self._recovering is not None and not self._recovering.done()
