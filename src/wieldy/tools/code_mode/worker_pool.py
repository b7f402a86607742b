"""The processes in which programs run; they are started with the first program."""

import threading

from pydantic_monty import Monty

# A program that calls a tool that runs a program holds a worker for each.
_MOST = 32
_PATIENCE = 60.0


class WorkerPool:
    """Holds the sandbox's processes for a toolbox, until the toolbox is closed."""

    # The processes end with this one, so there is nothing to warn of.
    kind = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Monty | None = None

    @property
    def held(self) -> bool:
        """Whether there are processes."""
        return self._pool is not None

    def open(self) -> Monty:
        """The processes, started if they are not yet."""
        with self._lock:
            if self._pool is None:
                pool = Monty(max_processes=_MOST, checkout_timeout=_PATIENCE)
                self._pool = pool.__enter__()
            return self._pool

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.__exit__(None, None, None)
