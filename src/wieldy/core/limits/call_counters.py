"""Count the calls of one limit: when they started, and how many run, for each caller."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from itertools import islice

# This many starts are kept one by one. Of more, those in the same part of the window are counted
# together, so that each caller takes little memory.
_EXACT = 16
_MAX_KEYS = 10_000


class _Starts:
    """Calls that started at about the same time."""

    __slots__ = ("first", "last", "number")

    def __init__(self, now: float) -> None:
        self.first = self.last = now
        self.number = 1


class _Bucket:
    """The calls of one caller."""

    __slots__ = ("running", "started", "starts")

    def __init__(self) -> None:
        self.running = 0
        self.starts: deque[_Starts] = deque()
        # How many calls started, in all.
        self.started = 0


class CallCounter:
    """The calls that one limit counts, by key. Its methods need the lock of whoever owns it.

    Starts that are counted together are remembered as long as the last of them, so that no window
    of time has more than `count`. If there are very many keys, those that were not used for the
    longest time are forgotten.

    Args:
        count: How many calls may start in a window; None for any number.
        seconds: The length of the window.
        concurrent: How many may run at once; None for any number.
    """

    __slots__ = ("_buckets", "_concurrent", "_count", "_grain", "_seconds", "refused")

    def __init__(self, count: int | None, seconds: float, concurrent: int | None) -> None:
        self._count = count
        self._seconds = seconds
        self._grain = seconds / _EXACT
        self._concurrent = concurrent
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()
        # How many calls were refused.
        self.refused = 0

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_for_start(self, key: Hashable, now: float) -> float:
        """How many seconds pass until a call may start; 0 if it may start now."""
        bucket = self._buckets.get(key)
        if bucket is None or self._count is None:
            return 0.0
        self._forget_old(bucket, now)
        left = bucket.started - self._count
        for starts in bucket.starts if left >= 0 else ():
            left -= starts.number
            if left < 0:
                return starts.last + self._seconds - now
        return 0.0

    def is_full(self, key: Hashable) -> bool:
        """Whether as many calls run as may."""
        bucket = self._buckets.get(key)
        return (
            self._concurrent is not None
            and bucket is not None
            and bucket.running >= self._concurrent
        )

    def note_start(self, key: Hashable, now: float) -> None:
        """Count a call that starts."""
        if self._count is None:
            return
        bucket = self._find(key, now)
        last = bucket.starts[-1] if len(bucket.starts) >= _EXACT else None
        if last is not None and now - last.first < self._grain:
            last.last, last.number = now, last.number + 1
        else:
            bucket.starts.append(_Starts(now))
        bucket.started += 1

    def enter(self, key: Hashable, now: float) -> None:
        """Count a call that runs."""
        self._find(key, now).running += 1

    def leave(self, key: Hashable, now: float) -> None:
        """Count that a call has ended."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.running = max(0, bucket.running - 1)
            self._drop_unused(key, bucket, now)

    def usage(self, key: Hashable, now: float) -> tuple[int, int]:
        """How many calls started in the last window, and how many run."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0, 0
        self._forget_old(bucket, now)
        return bucket.started, bucket.running

    def _find(self, key: Hashable, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[key] = _Bucket()
        else:
            self._buckets.move_to_end(key)
            self._forget_old(bucket, now)
        return bucket

    def _make_room(self, now: float) -> None:
        """Forget those who were not here for long: always a few that are over, one if need be."""
        for key in list(islice(self._buckets, 2)):
            self._drop_unused(key, self._buckets[key], now)
        if len(self._buckets) >= _MAX_KEYS:
            idle = (key for key, bucket in self._buckets.items() if not bucket.running)
            self._buckets.pop(next(idle, None), None)

    def _drop_unused(self, key: Hashable, bucket: _Bucket, now: float) -> None:
        self._forget_old(bucket, now)
        if not bucket.running and not bucket.started:
            del self._buckets[key]

    def _forget_old(self, bucket: _Bucket, now: float) -> None:
        while bucket.starts and bucket.starts[0].last + self._seconds <= now:
            bucket.started -= bucket.starts.popleft().number
