"""Run blocking functions on threads, and abandon those that don't return."""

import queue
import threading
from collections import deque
from typing import Any

from wieldy.core.active_call import ActiveCall, held_places
from wieldy.core.forking import renewed_in_child
from wieldy.core.sync import BlockingJob
from wieldy.core.work import Work

from .worker_errors import FunctionInterrupted

_IDLE_SECONDS = 10.0


class Threads:
    """Worker threads, as many as are asked for at once, up to `most`.

    A call that is cancelled or timed out while its function runs abandons the thread, which no
    longer counts; the engine is told when it ends. A call nested in one that holds a worker
    never waits for another worker, so nested calls can't wait for workers that they hold.
    """

    # Idle threads end by themselves after a while.
    kind = None

    def __init__(self, most: int = 40) -> None:
        self._most = most
        self._closed = False
        self.forget()
        _pools.add(self)

    def forget(self) -> None:
        """Start again in a forked child, which has none of the threads."""
        self._lock = threading.Lock()
        self._busy = 0
        self._idle: list[_Worker] = []
        self._waiting: deque[_Task] = deque()

    async def execute(self, work: Work, values: dict[str, Any], channel: ActiveCall) -> Any:
        """Perform the work on a worker."""
        task = _Task(self, work, values, channel)
        with self._lock:
            if task.counts and self._busy >= self._most:
                self._waiting.append(task)
            else:
                self._start(task)
        try:
            return await task.answer()
        finally:
            if task.left:
                self._abandon(task)

    @property
    def held(self) -> bool:
        """Whether there are idle workers."""
        return bool(self._idle)

    def close(self) -> None:
        """End the idle workers; busy ones end after their function."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.inbox.put(None)

    def finish(self, task: "_Task") -> bool:
        """Release the place of a finished task; False if its worker was abandoned."""
        with self._lock:
            if task.counts:
                self._free(task)
            return not task.left

    def next_task(self, worker: "_Worker") -> "_Task | None":
        """The next task of a worker; None ends the worker."""
        with self._lock:
            if self._waiting and self._busy < self._most:
                task = self._waiting.popleft()
                self._occupy(task)
                return task
            if self._closed:
                return None
            self._idle.append(worker)
        try:
            return worker.inbox.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                if worker in self._idle:
                    self._idle.remove(worker)
                    return None
            # A task was handed over at the last moment.
            return worker.inbox.get()

    def lend(self, task: "_Task") -> None:
        """Let another task run while the function of this one waits in a queue."""
        with self._lock:
            task.lent += 1
            if task.lent == 1:
                self._free(task)
                self._start_waiting()

    def take_back(self, task: "_Task") -> None:
        """Continue a task; for a while more than `most` may run."""
        with self._lock:
            task.lent -= 1
            if task.lent == 0 and task.held:
                self._occupy(task)

    def _abandon(self, task: "_Task") -> None:
        with self._lock:
            if task in self._waiting:
                self._waiting.remove(task)
            elif task.counts:
                self._free(task)
                self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self._busy < self._most:
            self._start(self._waiting.popleft())

    def _start(self, task: "_Task") -> None:
        if task.counts:
            self._occupy(task)
        if self._idle:
            self._idle.pop().inbox.put(task)
        else:
            _Worker(self, task).start()

    def _occupy(self, task: "_Task") -> None:
        if not task.occupies:
            task.occupies = True
            self._busy += 1

    def _free(self, task: "_Task") -> None:
        if task.occupies:
            task.occupies = False
            self._busy -= 1


class _Task(BlockingJob):
    """One function for a pool, whose place in the pool can be lent."""

    __slots__ = ("counts", "lent", "occupies", "pool")

    def __init__(
        self, pool: Threads, work: Work, values: dict[str, Any], active: ActiveCall
    ) -> None:
        super().__init__(work, values, active)
        self.pool = pool
        self.lent = 0
        self.occupies = False
        held = tuple(place for place in held_places.get() if place.held)
        self.counts = not any(isinstance(place, _Task) and place.pool is pool for place in held)
        if self.counts:
            self.context.run(held_places.set, (*held, self))

    async def answer(self) -> Any:
        try:
            return await super().answer()
        except KeyboardInterrupt as error:
            # Ctrl-C interrupts the main thread; what ended the function is the function's own.
            if not self.ended:
                raise
            raise FunctionInterrupted(self.active.tool.name) from error

    @property
    def held(self) -> bool:
        return not (self.ended or self.left)

    def lend(self) -> None:
        self.pool.lend(self)

    def take_back(self) -> None:
        self.pool.take_back(self)


class _Worker(threading.Thread):
    def __init__(self, pool: Threads, first: _Task) -> None:
        super().__init__(name="wieldy-worker", daemon=True)
        self.inbox: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._pool = pool
        self._first: _Task | None = first

    def run(self) -> None:
        task, self._first = self._first, None
        while task is not None:
            task.perform()
            if not self._pool.finish(task):
                return
            task = None  # The result is not kept while this thread is idle.
            task = self._pool.next_task(self)


# A forked child has the pools of its parent and none of their threads.
_pools = renewed_in_child(Threads.forget)
