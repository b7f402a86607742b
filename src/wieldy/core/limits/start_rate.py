"""Limit how many calls start per time."""

import asyncio
import threading
import time
from bisect import insort
from collections import deque
from contextlib import suppress

from wieldy.core.active_call import ActiveCall, Handler, Middleware, Veto
from wieldy.core.call import Outcome


def limit_rate(count: int, seconds: float, forbids: Veto) -> Middleware:
    """A middleware that lets `count` calls start in any span of `seconds`; others wait.

    `forbids` returns the reason if a rule made meanwhile forbids a call that has waited.
    """
    starts: deque[float] = deque()
    lock = threading.Lock()

    def reserve(now: float) -> float:
        """Reserve the next start, and return its time."""
        with lock:
            while starts and starts[0] <= now - seconds:
                starts.popleft()
            start = now if len(starts) < count else max(now, starts[-count] + seconds)
            insort(starts, start)
        return start

    def cancel(start: float) -> None:
        with lock, suppress(ValueError):
            starts.remove(start)

    async def start_in_turn(active: ActiveCall, proceed: Handler) -> Outcome:
        now = time.monotonic()
        start = reserve(now)
        if start > now:
            try:
                await asyncio.sleep(start - now)
            except asyncio.CancelledError:
                # A call that gives up waiting must not make the next one wait longer.
                cancel(start)
                raise
            why_not = await forbids(active)
            if why_not is not None:
                cancel(start)
                return await why_not.outcome()
        return await proceed(active)

    return start_in_turn
