"""Let an exclusive tool run alone."""

import asyncio
import threading
from collections import deque

from .call import Outcome
from .run import Handler, Run


class Gate:
    """Many ordinary calls, or one exclusive call, never both.

    Calls nested inside others don't wait for those they are nested in: an
    ancestor that waits for its nested call is not running. New ordinary calls
    queue behind a waiting exclusive one, so that it gets its turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: set[Run] = set()
        self._alone: Run | None = None
        self._waiting: deque[tuple[Run, bool, asyncio.Future[None]]] = deque()

    async def share(self, run: Run, proceed: Handler) -> Outcome:
        """The middleware of an ordinary tool."""
        return await self._pass(run, proceed, alone=False)

    async def alone(self, run: Run, proceed: Handler) -> Outcome:
        """The middleware of an exclusive tool."""
        return await self._pass(run, proceed, alone=True)

    async def _pass(self, run: Run, proceed: Handler, alone: bool) -> Outcome:
        await self._enter(run, alone)
        try:
            return await proceed(run)
        finally:
            self._leave(run)

    async def _enter(self, run: Run, alone: bool) -> None:
        with self._lock:
            if self._admits(run, alone) and (_nested(run) or not self._waiting):
                self._admit(run, alone)
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((run, alone, future))
            # The ancestors of this one stand still now, which may let another in.
            self._open()
        try:
            await future
        except asyncio.CancelledError:
            with self._lock:
                still = [entry for entry in self._waiting if entry[2] is not future]
                handed_over = len(still) == len(self._waiting)
                self._waiting = deque(still)
            if handed_over:
                self._leave(run)
            else:
                with self._lock:
                    self._open()
            raise

    def _leave(self, run: Run) -> None:
        with self._lock:
            self._inside.discard(run)
            if self._alone is run:
                self._alone = _holder(run.parent, self._inside)
            self._open()

    def _admits(self, run: Run, alone: bool) -> bool:
        """Whether everything that runs now stands above this run, or may run beside it."""
        above = _above(run)
        if self._alone is not None and self._alone not in above:
            return False
        if not alone:
            return True
        standing = set(above)
        for waiter, _, _ in self._waiting:
            standing.update(_above(waiter))
        return all(other in standing for other in self._inside)

    def _admit(self, run: Run, alone: bool) -> None:
        self._inside.add(run)
        if alone:
            run.exclusive = True
            self._alone = run

    def _open(self) -> None:
        """Let in whoever may go now, in order."""
        for entry in list(self._waiting):
            run, alone, future = entry
            if not self._admits(run, alone):
                if alone:
                    return
                continue
            self._waiting.remove(entry)
            try:
                future.get_loop().call_soon_threadsafe(_wake, future)
            except RuntimeError:
                # Its loop was closed while it waited.
                continue
            self._admit(run, alone)


def _above(run: Run) -> list[Run]:
    found, parent = [], run.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found


def _holder(run: Run | None, inside: set[Run]) -> Run | None:
    """The nearest ancestor that holds the gate alone."""
    while run is not None:
        if run.exclusive and run in inside:
            return run
        run = run.parent
    return None


def _nested(run: Run) -> bool:
    return run.parent is not None


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
