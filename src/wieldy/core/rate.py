"""Start calls no faster than a rate."""

import asyncio
import threading
import time
from collections import deque

from .call import Outcome
from .run import Handler, Middleware, Run


def limit_rate(count: int, seconds: float) -> Middleware:
    """A middleware that lets `count` calls start in any span of `seconds`; others wait."""
    starts: deque[float] = deque()
    lock = threading.Lock()

    def reserve() -> float:
        """Book the next start, and give how long it is until then."""
        now = time.monotonic()
        with lock:
            while starts and starts[0] <= now - seconds:
                starts.popleft()
            start = now if len(starts) < count else max(now, starts[-count] + seconds)
            starts.append(start)
        return start - now

    async def start_in_turn(run: Run, proceed: Handler) -> Outcome:
        pause = reserve()
        if pause > 0:
            await asyncio.sleep(pause)
        return await proceed(run)

    return start_in_turn
