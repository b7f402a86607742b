"""Let so many calls through at once, let so many wait, and turn the rest away."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

from wieldy.core.run import current_run


class Turns:
    """A queue that blocking and awaiting callers stand in together, in the order they came."""

    def __init__(self, most: int | None, longest: int | None) -> None:
        if most is not None and most < 1:
            raise ValueError(f"max_concurrency must be 1 or more, not {most!r}")
        if longest is not None and (longest < 0 or most is None):
            raise ValueError("max_queue is 0 or more, and needs max_concurrency")
        self._free = most
        self._longest = longest
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    @property
    def free(self) -> bool:
        """Whether nobody ever has to wait."""
        return self._free is None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a turn; waiting for it blocks this thread."""
        turn = self._stand()
        if turn is None:
            yield
            return
        try:
            turn.result()
            yield
        finally:
            self._leave(turn)

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[None]:
        """Hold a turn; waiting for it blocks nobody."""
        turn = self._stand()
        if turn is None:
            yield
            return
        try:
            await asyncio.wrap_future(turn)
            yield
        finally:
            self._leave(turn)

    def _stand(self) -> "Future[None] | None":
        """A turn that is or will be ours; None where there is no queue to stand in."""
        around = current_run.get()
        if self._free is None or (around is not None and not around.stopped):
            # A call made inside a call would wait for itself.
            return None
        turn: Future[None] = Future()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                turn.set_result(None)
            elif self._longest is not None and len(self._waiting) >= self._longest:
                raise queue.Full(f"{self._longest} calls wait already")
            else:
                self._waiting.append(turn)
        return turn

    def _leave(self, turn: "Future[None]") -> None:
        """Hand the turn to the next in the queue, or leave the queue before it came."""
        assert self._free is not None
        if turn.cancel():
            with self._lock:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                return
        if turn.cancelled():
            return
        with self._lock:
            while self._waiting:
                following = self._waiting.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._free += 1
