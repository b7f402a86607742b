"""What a run has used up of its budget, and of the budgets of the runs around it."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any

from wieldy.core.call import Call
from wieldy.core.canonical import digest_of

if TYPE_CHECKING:
    from .budget import Budget

_COUNTED = ("rounds", "calls", "tokens", "cost", "seconds")
# Everything that a run uses up counts for the runs around it, except time, which passes anyway.
_SHARED = _COUNTED[:-1]


class Spending:
    """What a run has used up so far; it counts for the run that it is part of as well.

    Args:
        budget: What may be used up.
        above: The spending of the run around this one.
        spent: What was used up before, as `to_dict` said.
        key: The id of this run, by which the one above tells its parts apart.
    """

    def __init__(
        self,
        budget: "Budget",
        above: "Spending | None" = None,
        spent: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> None:
        self._budget = budget
        self._above = above
        self._key = key
        before = dict(spent or {})
        # The amounts that runs below have used up, by their keys; they are part of `spent`.
        self._below: dict[str, dict[str, float]] = before.pop("below", {})
        self._spent = {**dict.fromkeys(_COUNTED, 0), **before}
        self._began = time.monotonic()
        self._last: tuple[str, int] = ("", 0)
        self._repeated = False
        # How many of its calls wait for a person, since when, and how long that has taken so far.
        self._asking = 0
        self._asked_at = 0.0
        self._asked_for = 0.0
        if above is not None:
            above.catch_up(key, self._spent)

    @property
    def repeats(self) -> int | None:
        """How many times the same call may be made in a row."""
        return self._budget.repeats

    @property
    def bounds_cost(self) -> bool:
        """Whether this run, or one around it, has a bound for cost."""
        return any(each._budget.cost is not None for each in self._all_above())

    def add(self, **amounts: float) -> None:
        """Count what was used up: rounds, tokens, cost."""
        for each in self._all_above():
            each._count_call(amounts)

    def catch_up(self, key: str, spent: Mapping[str, Any]) -> None:
        """Count what a run below this one has used up and this one has not heard of."""
        known = self._below.get(key, {})
        missed = {name: spent.get(name, 0) - known.get(name, 0) for name in _SHARED}
        amounts = {name: amount for name, amount in missed.items() if amount > 0}
        if amounts:
            self._note_below(key, amounts)
            self.add(**amounts)

    def take_call(self, call: Call) -> str | None:
        """Count a call that is about to be made, or say why it must not be."""
        # Threads of a tool may make calls at the same time, and share what is left.
        with _counting:
            reason = self.used_up()
            if reason is None:
                self.add(calls=1)
                reason = self._count_repeats(call)
            return reason

    def used_up(self) -> str | None:
        """Name the bound that is reached, in words; None if none is."""
        return next(filter(None, (each._own_used_up() for each in self._all_above())), None)

    def left(self) -> dict[str, float]:
        """The amounts that this run and those around it may still use up together."""
        left: dict[str, float] = {}
        for each in self._all_above():
            for name, most, spent in each._budget_bounds():
                left[name] = min(left.get(name, inf), max(0, most - spent))
        return left

    def seconds_left(self) -> float | None:
        """How long the run may still work; None if there is no bound."""
        bounds = [(each._budget.seconds, each._worked_seconds()) for each in self._all_above()]
        left = [most - worked for most, worked in bounds if most is not None]
        return min(left, default=None)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let no time pass while a person is asked."""
        for each in self._all_above():
            each._asked_at = each._asked_at if each._asking else time.monotonic()
            each._asking += 1
        try:
            yield
        finally:
            for each in self._all_above():
                each._asking -= 1
                if not each._asking:
                    each._asked_for += time.monotonic() - each._asked_at

    def to_dict(self) -> dict[str, Any]:
        """The amounts that were used up, as JSON from which a run continues."""
        below = {"below": self._below} if self._below else {}
        return {**self._spent, "seconds": self._worked_seconds(), **below}

    def _all_above(self) -> Iterator["Spending"]:
        each: Spending | None = self
        while each is not None:
            yield each
            each = each._above

    def _count_call(self, amounts: Mapping[str, float]) -> None:
        for name, amount in amounts.items():
            self._spent[name] += amount
        if self._above is not None:
            self._above._note_below(self._key, amounts)

    def _note_below(self, key: str, amounts: Mapping[str, float]) -> None:
        part = self._below.setdefault(key, {})
        for name, amount in amounts.items():
            part[name] = part.get(name, 0) + amount

    def _count_repeats(self, call: Call) -> str | None:
        """Why this call is one too many in a row. Each run has a row of its own."""
        repeats = self._budget.repeats
        if repeats is None:
            return None
        made = f"{call.tool} {digest_of(call.arguments)}"
        count = self._last[1] + 1 if self._last[0] == made else 1
        self._last = (made, count)
        if count <= repeats:
            return None
        self._repeated = True
        return f"the same call with the same arguments was made {repeats} times in a row"

    def _own_used_up(self) -> str | None:
        if self._repeated:
            return "the same call with the same arguments was made again and again"
        reached = ((name, most) for name, most, spent in self._budget_bounds() if spent >= most)
        name, most = next(reached, (None, 0))
        return None if name is None else f"the budget of {most:g} {name} is used up"

    def _budget_bounds(self) -> Iterator[tuple[str, float, float]]:
        """Each bound of the budget: its name, the most, and what is spent."""
        for name in _COUNTED:
            most = getattr(self._budget, name)
            if most is not None:
                yield name, most, self._worked_seconds() if name == "seconds" else self._spent[name]

    def _worked_seconds(self) -> float:
        now = self._asked_at if self._asking else time.monotonic()
        worked: float = self._spent["seconds"] + now - self._began - self._asked_for
        return worked


_counting = threading.Lock()
# The spending of the run in which the present code works.
current_spending: ContextVar[Spending | None] = ContextVar("wieldy_spending", default=None)
