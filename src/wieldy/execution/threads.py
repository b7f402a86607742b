"""Run blocking functions on threads, and leave behind those that don't come back."""

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from wieldy.core.run import Run
from wieldy.core.sync import attempt, settle

_IDLE_SECONDS = 10.0


class _Job:
    """One function to run, and where its answer goes."""

    __slots__ = ("abandoned", "body", "context", "future", "loop", "nested", "run", "started")

    def __init__(self, run: Run, body: Callable[[Run], Any], nested: bool) -> None:
        self.run = run
        self.body = body
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()
        self.nested = nested
        self.started = False
        self.abandoned = False


class Threads:
    """Worker threads, as many as are asked for at once, up to `most`.

    A call that was cancelled or timed out while its function runs leaves the
    thread behind: it no longer counts, and the engine hears when it ends. A call
    made from inside a worker never waits for a place, so nested calls can't
    use up the workers they themselves hold.
    """

    def __init__(self, most: int = 40) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._busy = 0
        self._idle: list[_Worker] = []
        self._waiting: deque[_Job] = deque()
        self._closed = False

    async def execute(self, run: Run, body: Callable[[Run], Any]) -> Any:
        """Run `body(run)` on a worker."""
        job = _Job(run, body, nested=isinstance(threading.current_thread(), _Worker))
        self._submit(job)
        try:
            value, error = await job.future
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the idle workers; busy ones end after their function."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.inbox.put(None)

    def next_job(self, worker: "_Worker", done: _Job) -> _Job | None:
        """What a worker does next; None ends it."""
        with self._lock:
            if done.abandoned:
                return None
            if not done.nested:
                self._busy -= 1
            job = self._take_waiting()
            if job is not None:
                return job
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
            # A job was handed over in the last moment.
            return worker.inbox.get()

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if not job.nested and self._busy >= self._most:
                self._waiting.append(job)
                return
            self._start(job)

    def _start(self, job: _Job) -> None:
        if not job.nested:
            self._busy += 1
        job.started = True
        if self._idle:
            self._idle.pop().inbox.put(job)
        else:
            _Worker(self, job).start()

    def _take_waiting(self) -> _Job | None:
        if not self._waiting or self._busy >= self._most:
            return None
        job = self._waiting.popleft()
        self._busy += 1
        job.started = True
        return job

    def _abandon(self, job: _Job) -> None:
        job.run.stopped = True
        with self._lock:
            if not job.started:
                self._waiting.remove(job)
                return
            job.abandoned = True
            job.run.note("abandoned", True)
            if not job.nested:
                self._busy -= 1
                following = self._waiting.popleft() if self._waiting else None
                if following is not None:
                    self._start(following)


class _Worker(threading.Thread):
    def __init__(self, pool: Threads, first: _Job) -> None:
        super().__init__(name="wieldy-worker", daemon=True)
        self.inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._pool = pool
        self._first: _Job | None = first

    def run(self) -> None:
        job, self._first = self._first, None
        while job is not None:
            value, error = attempt(job.context, job.body, job.run)
            following = self._pool.next_job  # the job counts as done only after its answer is sent
            try:
                job.loop.call_soon_threadsafe(settle, job.future, (value, error))
            except RuntimeError:
                job.abandoned = True
            if job.abandoned:
                job.run.late(job.run, value, error)
            job = following(self, job)
