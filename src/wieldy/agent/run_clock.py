"""The time that a run has left, and the end of its calls and requests when it is used up."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from wieldy.core.limits.spending import Spending

# The model is told when time is up, and has this many seconds for its last answer.
LAST_ANSWER = 30.0


class RunClock:
    """The clock of a run. Without a time budget it never rings."""

    def __init__(self, spending: Spending | None = None) -> None:
        self._spending = spending

    def request_seconds(self) -> float | None:
        """How many seconds a request may take now; None if there is no limit."""
        left = None if self._spending is None else self._spending.seconds_left()
        return LAST_ANSWER if left is not None and left <= 0 else left

    def asking(self) -> AbstractContextManager[None]:
        """Stop the clock while a person is asked."""
        return nullcontext() if self._spending is None else self._spending.asking()

    @property
    def will_ring(self) -> bool:
        """Whether the time of the run is limited, and not up yet."""
        left = None if self._spending is None else self._spending.seconds_left()
        return left is not None and left > 0

    @contextmanager
    def ringing(self, ring: Callable[[], None]) -> Iterator[None]:
        """Call a function when the time is up, unless the `with` block has ended by then."""
        left = None if self._spending is None else self._spending.seconds_left()
        if left is None or left <= 0:
            # If the time is already up, each call is told so before it begins.
            yield
            return
        timer = _Timer(self._spending, ring)
        timer.set(left)
        try:
            yield
        finally:
            timer.stop()


# The clock of all runs without a budget.
NO_CLOCK = RunClock()


class _Timer:
    """Rings when the time is up. Time in which a person is asked does not count."""

    def __init__(self, spending: Spending | None, ring: Callable[[], None]) -> None:
        self._spending = spending
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        self._handle = asyncio.get_running_loop().call_later(seconds, self._look_again)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _look_again(self) -> None:
        left = None if self._spending is None else self._spending.seconds_left()
        if left is not None and left > 0:
            self.set(left)
        else:
            self._ring()
