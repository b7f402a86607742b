"""Add up the calls of each minute, and write the sums to the store once a minute."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from wieldy.core.errors import WieldyError
from wieldy.store.rollups import MINUTE, RollupKey, Rollups, RollupSum

# While the store can't be written the sums stay in memory, up to this many.
_MAX_SUMS = 20_000
_log = logging.getLogger("wieldy")


class RollupWriter:
    """Holds the sums of the current minute, which are lost only if the process is killed."""

    def __init__(self, rollups: Rollups, clock: Callable[[], float] = time.time) -> None:
        self._rollups = rollups
        self._clock = clock
        self._sums: dict[RollupKey, RollupSum] = {}
        # Calls may end on any loop.
        self._lock = threading.Lock()

    def add(
        self, tool: str, caller: str | None, status: str, seconds: float | None, cost: float
    ) -> None:
        """Count one call in the current minute."""
        minute = int(self._clock() // MINUTE * MINUTE)
        key = RollupKey(minute, tool, caller, status)
        with self._lock:
            found = self._sums.get(key)
            if found is None:
                if len(self._sums) >= _MAX_SUMS:
                    # The oldest goes first, because dicts keep the order of insertion.
                    self._sums.pop(next(iter(self._sums)))
                found = self._sums[key] = RollupSum()
            found.add(seconds, cost)

    async def run(self) -> None:
        """Write a little after each full minute, until this is cancelled."""
        while True:
            # One second later, so that processes with clocks in step don't write before its end.
            await asyncio.sleep(MINUTE - self._clock() % MINUTE + 1)
            await self.flush()

    async def flush(self) -> None:
        """Write what there is; if the store can't be written it is kept for the next time."""
        with self._lock:
            sums, self._sums = self._sums, {}
        if not sums:
            return
        try:
            await self._rollups.add(sums)
        except (WieldyError, OSError):
            _log.warning("The figures of the last minute wait for the store", exc_info=True)
            self._keep(sums)

    def _keep(self, sums: dict[RollupKey, RollupSum]) -> None:
        with self._lock:
            newer, self._sums = self._sums, sums
            for key, each in newer.items():
                if key in sums:
                    sums[key].merge(each)
                else:
                    sums[key] = each
            for key in list(sums)[: max(0, len(sums) - _MAX_SUMS)]:
                del sums[key]
