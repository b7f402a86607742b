"""The processes in which programs run; they are started with the first program."""

import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic_monty import Monty

from wieldy.core.forking import renewed_in_child

# A program that calls a tool that runs a program holds a worker for each.
_MAX_COUNT = 32
_PATIENCE = 60.0
_WATCH = str(Path(__file__).with_name("worker_watch.py"))
_CLOSING_SECONDS = 5.0


class WorkerPool:
    """Holds the sandbox's processes for a toolbox, until the toolbox is closed."""

    # The processes end with this one, so there is nothing to warn of.
    kind = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Monty | None = None
        self._watch: _WorkerWatch | None = None

    @property
    def held(self) -> bool:
        """Whether there are processes."""
        return self._pool is not None

    def open(self) -> Monty:
        """The processes, started if they are not yet."""
        with self._lock:
            if self._pool is None:
                self._watch = _WorkerWatch()
                pool = Monty(max_processes=_MAX_COUNT, checkout_timeout=_PATIENCE)
                self._pool = pool.__enter__()
            return self._pool

    @contextmanager
    def watched(self, pid: int | None) -> Iterator[None]:
        """Have a worker killed if this process ends while its program runs."""
        watch = None if pid is None else self._watch
        if watch is not None:
            watch.tell(f"+{pid}\n")
        try:
            yield
        finally:
            if watch is not None:
                watch.tell(f"-{pid}\n")

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
            watch, self._watch = self._watch, None
        if pool is not None:
            pool.__exit__(None, None, None)
        if watch is not None:
            watch.close()


class _WorkerWatch:
    """A process that ends busy workers when this one is gone, whatever the cause."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", _WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Nobody who ends this process with its group ends the watch before.
            start_new_session=True,
        )
        self.close = weakref.finalize(self, _end_watch, self._process)
        _running.add(self)

    def tell(self, line: str) -> None:
        """Tell it that a worker begins a program, or is done."""
        pipe = self._process.stdin
        assert pipe is not None
        # If somebody has killed the watch, programs run as before.
        with self._lock, suppress(OSError, ValueError):
            pipe.write(line.encode())
            pipe.flush()

    def forget(self) -> None:
        """Close this side's end in a forked child: the watch looks at the parent alone."""
        self.close.detach()
        # The watch is no child of this process, so there is nothing to wait for.
        self._process.returncode = 0
        if self._process.stdin is not None:
            self._process.stdin.close()


def _end_watch(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_CLOSING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# A forked child would keep the watch from noticing that the parent has ended.
_running = renewed_in_child(_WorkerWatch.forget)
