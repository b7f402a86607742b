"""Start calls no faster than a rate."""

import asyncio
import threading
import time
from bisect import insort
from collections import deque
from contextlib import suppress

from .call import Outcome
from .run import Handler, Middleware, Run


def limit_rate(count: int, seconds: float) -> Middleware:
    """A middleware that lets `count` calls start in any span of `seconds`; others wait."""
    starts: deque[float] = deque()
    lock = threading.Lock()

    def reserve(now: float) -> float:
        """Book the next start, and give when that is."""
        with lock:
            while starts and starts[0] <= now - seconds:
                starts.popleft()
            start = now if len(starts) < count else max(now, starts[-count] + seconds)
            insort(starts, start)
        return start

    def cancel(start: float) -> None:
        with lock, suppress(ValueError):
            starts.remove(start)

    async def start_in_turn(run: Run, proceed: Handler) -> Outcome:
        now = time.monotonic()
        start = reserve(now)
        if start > now:
            try:
                await asyncio.sleep(start - now)
            except asyncio.CancelledError:
                # Who gives up waiting must not make the next one wait longer.
                cancel(start)
                raise
        return await proceed(run)

    return start_in_turn
