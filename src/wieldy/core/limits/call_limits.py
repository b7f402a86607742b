"""Limits on the calls of a toolbox: of some tools, of each caller, of one caller."""

import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

from wieldy.core.active_call import ActiveCall, Handler
from wieldy.core.call import Outcome
from wieldy.core.errors import CallError
from wieldy.core.forking import renewed_in_child

from .call_counters import CallCounter
from .limits import parse_rate

EACH = "*"
# Runs a call within the limits that hold for it.
CallGate = Callable[[ActiveCall, Handler], Awaitable[Outcome]]
_Holding = tuple["_Limited", str | None]
# The places that the calls around the current one hold. A call that waits for calls of its own
# must not keep them out.
_held: ContextVar[tuple[_Holding, ...]] = ContextVar("wieldy_limits_held", default=())


class TooManyCalls(CallError):
    """A limit on calls was reached, and the call did not run.

    Attributes:
        tool: The tool's name.
        limit: The limit, as it would be written in a gateway's file.
        retry_after: After how many seconds it may be tried again.
    """

    def __init__(self, tool: str, limit: str, reason: str, retry_after: float) -> None:
        seconds = max(1, ceil(retry_after))
        super().__init__(
            f"The call of {tool} was not made: {reason} ({limit}). Try again in {seconds} s."
        )
        self.tool = tool
        self.limit = limit
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimit:
    """How often some calls may start, and how many of them may run at once.

    Attributes:
        tools: A name or a pattern such as "github_*". The calls of all tools that it matches
            count together.
        caller: None counts the calls of everybody together, "*" those of each caller by
            themselves, and a name those of one caller. What is said of a caller by name holds
            in place of what is said of each.
        rate: Starts per time: "10/s", "100/min", "5/h", or `(count, seconds)`.
        concurrent: How many may run at once.

    Raises:
        ValueError: A value can't be used, or nothing is limited.

    Example:
        `CallLimit(tools="github_*", caller="*", rate="60/min", concurrent=4)`
    """

    tools: str = EACH
    caller: str | None = None
    rate: str | tuple[int, float] | None = None
    concurrent: int | None = None

    def __post_init__(self) -> None:
        if not self.tools or self.caller == "":
            raise ValueError("A limit on calls needs the names of its tools and its caller.")
        if self.rate is None and self.concurrent is None:
            raise ValueError("A limit on calls needs a rate, such as '60/min', or concurrent.")
        if self.rate is not None:
            parse_rate(self.rate)
        whole = isinstance(self.concurrent, int | None) and not isinstance(self.concurrent, bool)
        if not whole or (self.concurrent is not None and self.concurrent < 1):
            raise ValueError(f"concurrent is a whole number from 1 up, not {self.concurrent!r}")

    @property
    def name(self) -> str:
        """The limit as it would be written in a gateway's file."""
        tools = f'.tools."{self.tools}"'
        if self.caller is None:
            return f"limits{tools}"
        whose = "caller" if self.caller == EACH else f"callers.{self.caller}"
        return f"limits.{whose}{'' if self.tools == EACH else tools}"


@dataclass(frozen=True, slots=True)
class LimitState:
    """A limit that holds for a call, and how much of it is used.

    Attributes:
        limit: The limit, as it would be written in a gateway's file.
        rate: How many calls may start in how many seconds; None for any number.
        started: How many have started in that time.
        concurrent: How many may run at once; None for any number.
        running: How many run.
        retry_after: After how many seconds a call may start; 0 if it may start now.
    """

    limit: str
    rate: tuple[int, float] | None
    started: int
    concurrent: int | None
    running: int
    retry_after: float

    def __str__(self) -> str:
        used = []
        if self.rate is not None:
            used.append(f"{self.started} of {self.rate[0]} calls in {self.rate[1]:g} s")
        if self.concurrent is not None:
            used.append(f"{self.running} of {self.concurrent} running")
        wait = f", free in {ceil(self.retry_after)} s" if self.retry_after else ""
        return f"{self.limit}: {', '.join(used)}{wait}"

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON data."""
        rate = None if self.rate is None else {"count": self.rate[0], "seconds": self.rate[1]}
        return {
            "limit": self.limit,
            "rate": rate,
            "started": self.started,
            "concurrent": self.concurrent,
            "running": self.running,
            "retry_after": self.retry_after,
        }


class _Limited:
    """A limit with its counters."""

    __slots__ = ("counter", "limit", "rate")

    def __init__(self, limit: CallLimit) -> None:
        self.limit = limit
        self.rate = None if limit.rate is None else parse_rate(limit.rate)
        self.renew()

    def renew(self) -> None:
        """Count from nothing."""
        count, seconds = self.rate or (None, 1.0)
        self.counter = CallCounter(count, seconds, self.limit.concurrent)

    def find_key(self, caller: str | None) -> str | None:
        """Under what the calls of a caller are counted."""
        return caller if self.limit.caller == EACH else None


class CallLimits:
    """The limits on the calls of one toolbox, in this process.

    A call that reaches a limit is refused at once, with the time after which it may be tried
    again. What tools, programs and agents call counts too. A call that a person has approved is
    never refused, because it counted when it came.

    Args:
        changed: Called when other limits hold.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._limited: tuple[_Limited, ...] = ()
        self._lock = threading.Lock()
        _all_limits.add(self)

    def add(
        self,
        tools: str = EACH,
        *,
        caller: str | None = None,
        rate: str | tuple[int, float] | None = None,
        concurrent: int | None = None,
    ) -> CallLimit:
        """Add a limit.

        Args:
            tools: A name or a pattern; the calls of all tools that it matches count together.
            caller: None for all callers together, "*" for each by themselves, or a name.
            rate: Starts per time, such as "60/min".
            concurrent: How many may run at once.

        Returns:
            The limit.

        Raises:
            ValueError: A value can't be used, or nothing is limited.

        Example:
            `box.call_limits.add("github_*", caller="*", rate="60/min")`
        """
        limit = CallLimit(tools=tools, caller=caller, rate=rate, concurrent=concurrent)
        self.replace([*self, limit])
        return limit

    def replace(self, limits: Iterable[CallLimit]) -> None:
        """Let these limits hold, and no others. Those that held before keep their counters.

        Args:
            limits: The limits.
        """
        known = {each.limit: each for each in self._limited}
        wanted = dict.fromkeys(limits)
        self._limited = tuple(known.get(limit) or _Limited(limit) for limit in wanted)
        self._changed()

    def __iter__(self) -> Iterator[CallLimit]:
        return iter([each.limit for each in self._limited])

    def __len__(self) -> int:
        return len(self._limited)

    def count_refused(self) -> dict[str, int]:
        """How many calls each limit has refused, by its name."""
        return {each.limit.name: each.counter.refused for each in self._limited}

    def find_states(self, tool: str, callers: Iterable[str | None]) -> tuple[LimitState, ...]:
        """The limits that hold for the calls of a tool, and how much of them is used."""
        now = time.monotonic()
        found = []
        with self._lock:
            for each, key in _choose_limits(self._find_limited(tool), callers):
                started, running = each.counter.usage(key, now)
                wait = each.counter.wait_for_start(key, now)
                limit = each.limit
                found.append(
                    LimitState(limit.name, each.rate, started, limit.concurrent, running, wait)
                )
        return tuple(found)

    def find_call_gate(self, tool: str) -> CallGate | None:
        """What lets the calls of a tool run within their limits; None if it has none."""
        limited = self._find_limited(tool)
        if not limited:
            return None

        async def run_limited(active: ActiveCall, enter: Handler) -> Outcome:
            taken = self._take(active, limited)
            before = _held.set((*_held.get(), *taken))
            try:
                # Arguments that don't fit count too: they are looked at inside.
                return await enter(active)
            finally:
                _held.reset(before)
                self._give_back(taken)

        return run_limited

    def _find_limited(self, tool: str) -> tuple[_Limited, ...]:
        return tuple(each for each in self._limited if fnmatchcase(tool, each.limit.tools))

    def _take(self, active: ActiveCall, limited: tuple[_Limited, ...]) -> list[_Holding]:
        """Count a call under every limit that holds for it, or under none and refuse it."""
        now, held = time.monotonic(), _held.get()
        meant = _choose_limits(limited, active.call.scope.callers())
        # A call that was decided on has counted when it came.
        decided = active.call.decision is not None
        with self._lock:
            if not decided:
                self._refuse_full(active, [each for each in meant if each not in held], now)
                self._refuse_fast(active, meant, now)
                for each, key in meant:
                    each.counter.note_start(key, now)
            taken = [
                (each, key)
                for each, key in meant
                if each.limit.concurrent is not None and (each, key) not in held
            ]
            for each, key in taken:
                each.counter.enter(key, now)
        return taken

    def _refuse_full(self, active: ActiveCall, meant: list[_Holding], now: float) -> None:
        for each, key in meant:
            if each.counter.is_full(key):
                each.counter.refused += 1
                most = each.limit.concurrent
                reason = f"{most} call{'s' * (most != 1)} may run at once"
                # Nobody knows when one of them ends.
                raise TooManyCalls(active.tool.name, each.limit.name, reason, 1.0)

    def _refuse_fast(self, active: ActiveCall, meant: list[_Holding], now: float) -> None:
        waits = [(each.counter.wait_for_start(key, now), each) for each, key in meant]
        wait, slowest = max(waits, key=lambda pair: pair[0], default=(0.0, None))
        if slowest is None or wait <= 0 or slowest.rate is None:
            return
        slowest.counter.refused += 1
        count, seconds = slowest.rate
        reason = f"{count} call{'s' * (count != 1)} may be made in {seconds:g} s"
        raise TooManyCalls(active.tool.name, slowest.limit.name, reason, wait)

    def _give_back(self, taken: list[_Holding]) -> None:
        if taken:
            now = time.monotonic()
            with self._lock:
                for each, key in taken:
                    each.counter.leave(key, now)

    def after_fork(self) -> None:
        """Start over in a forked child, where the parent's calls never end."""
        self._lock = threading.Lock()
        for each in self._limited:
            each.renew()


def _choose_limits(limited: Iterable[_Limited], callers: Iterable[str | None]) -> list[_Holding]:
    """The limits that hold for any of these callers, and under what each counts."""
    found = list(limited)
    meant = ((each, each.find_key(one)) for one in callers for each in _limits_of(found, one))
    return list(dict.fromkeys(meant))


def _limits_of(found: Sequence[_Limited], caller: str | None) -> list[_Limited]:
    """The limits of a caller: one by name holds in place of the one for each."""
    named = {each.limit.tools for each in found if each.limit.caller == caller is not None}
    return [
        each
        for each in found
        if each.limit.caller is None
        or each.limit.caller == caller
        or (each.limit.caller == EACH and each.limit.tools not in named)
    ]


_all_limits = renewed_in_child(CallLimits.after_fork)
