"""What a run may use up: rounds, calls, tokens, money, time, and the same call again and again."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any

from wieldy.core.call import Call
from wieldy.core.canonical import digest_of

_COUNTED = ("rounds", "calls", "tokens", "cost", "seconds")


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run and everything below it may use up. None is no bound.

    Attributes:
        rounds: How many rounds with tools; in place of the agent's `max_rounds`.
        calls: How many calls, those that tools make included.
        tokens: How many tokens, those of requests and of answers together.
        cost: How much money, in the currency of the prices.
        seconds: How long the run may work. When it is over, running calls are interrupted, and
            a request to the model is ended. Time in which a run waits for a person does not count.
        repeats: How many times the same call may be made with the same arguments in a row.

    Raises:
        ValueError: A bound has a value that it can't have.

    Example:
        `Agent("openai:gpt-5", budget=Budget(calls=20, tokens=100_000))`
    """

    rounds: int | None = None
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    repeats: int | None = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"Budget: {field.name} is a number from 0 on, not {value!r}")
            if field.name not in ("cost", "seconds") and not isinstance(value, int):
                raise ValueError(f"Budget: {field.name} is a whole number, not {value!r}")
        if self.repeats == 0:
            raise ValueError("Budget: repeats counts the first call too, and is 1 or more")


class Spending:
    """What a run has used up so far; it counts for the run that it is part of as well."""

    def __init__(
        self,
        budget: Budget,
        above: "Spending | None" = None,
        spent: Mapping[str, Any] | None = None,
    ) -> None:
        self._budget = budget
        self._above = above
        self._spent = {**dict.fromkeys(_COUNTED, 0), **(spent or {})}
        self._began = time.monotonic()
        self._last: tuple[str, int] = ("", 0)
        self._repeated = False
        # How many of its calls wait for a person, since when, and how long that has taken so far.
        self._asking = 0
        self._asked_at = 0.0
        self._asked_for = 0.0

    def add(self, **amounts: float) -> None:
        """Count what was used up: rounds, tokens, cost."""
        for each in self._all():
            for name, amount in amounts.items():
                each._spent[name] += amount

    def take_call(self, call: Call) -> str | None:
        """Count a call that is about to be made, or say why it must not be."""
        reason = self.used_up()
        if reason is None:
            for each in self._all():
                each._count(call)
            reason = next(filter(None, (each._too_often() for each in self._all())), None)
        return reason

    def used_up(self) -> str | None:
        """Which bound is reached, in words, or None."""
        return next(filter(None, (each._own_used_up() for each in self._all())), None)

    def seconds_left(self) -> float | None:
        """How long the run may still work; None if there is no bound."""
        bounds = [(each._budget.seconds, each._seconds()) for each in self._all()]
        left = [most - worked for most, worked in bounds if most is not None]
        return min(left, default=None)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let no time pass while a person is asked."""
        for each in self._all():
            each._asked_at = each._asked_at if each._asking else time.monotonic()
            each._asking += 1
        try:
            yield
        finally:
            for each in self._all():
                each._asking -= 1
                if not each._asking:
                    each._asked_for += time.monotonic() - each._asked_at

    def to_dict(self) -> dict[str, Any]:
        """What was used up, as JSON that a run goes on with."""
        return {**self._spent, "seconds": self._seconds()}

    def _all(self) -> Iterator["Spending"]:
        each: Spending | None = self
        while each is not None:
            yield each
            each = each._above

    def _count(self, call: Call) -> None:
        self._spent["calls"] += 1
        if self._budget.repeats is not None:
            made = f"{call.tool} {digest_of(call.arguments)}"
            count = self._last[1] + 1 if self._last[0] == made else 1
            self._last = (made, count)

    def _too_often(self) -> str | None:
        """Why this call is one too many; those before it were counted."""
        repeats = self._budget.repeats
        if repeats is not None and self._last[1] > repeats:
            self._repeated = True
            return f"the same call with the same arguments was made {repeats} times in a row"
        return None

    def _own_used_up(self) -> str | None:
        if self._repeated:
            return "the same call with the same arguments was made again and again"
        spent = {**self._spent, "seconds": self._seconds()}
        for name in _COUNTED:
            most = getattr(self._budget, name)
            if most is not None and spent[name] >= most:
                return f"the budget of {most:g} {name} is used up"
        return None

    def _seconds(self) -> float:
        now = self._asked_at if self._asking else time.monotonic()
        worked: float = self._spent["seconds"] + now - self._began - self._asked_for
        return worked


# The spending of the run in which the present code works.
current_spending: ContextVar[Spending | None] = ContextVar("wieldy_spending", default=None)
