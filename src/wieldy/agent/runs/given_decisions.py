"""Read the decisions on a run's waiting calls that `resume` is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wieldy.core.errors import AnswerNeeded
from wieldy.core.permission.parked import Parked
from wieldy.core.permission.waiting_calls import WaitsForCalls

_KEYS = ("approved", "arguments", "reason", "answers")


@dataclass(frozen=True, slots=True)
class GivenDecision:
    """A decision on one call, which is a refusal unless it says yes."""

    approved: bool
    arguments: Mapping[str, Any] | None = None
    reason: str | None = None
    answers: Mapping[str, Any] | None = None

    def check_fits(self, parked: Parked) -> None:
        """Raise if the decision does not fit the waiting call."""
        if not self.approved:
            return
        asked = parked.requests
        if parked.waits_for:
            raise WaitsForCalls(parked.id, parked.waits_for)
        if asked is None:
            if self.answers is not None:
                raise ValueError(f"call {parked.id} asks for a decision, not for answers")
            return
        if self.arguments is not None:
            raise ValueError(f"call {parked.id} has begun, and its arguments can't be changed")
        missing = [name for name in asked if name not in (self.answers or {})]
        if missing:
            raise AnswerNeeded(parked.id, missing)


def read_decisions(given: Mapping[str, Any] | None) -> dict[str, GivenDecision]:
    """The decisions by the ids of their calls; `ValueError` says what is wrong with one."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f'decisions are {{call_id: {{"approved": True}}}}, not {given!r:.200}')
    return {call_id: _read_decision(call_id, each) for call_id, each in given.items()}


def _read_decision(call_id: Any, given: Any) -> GivenDecision:
    if not isinstance(call_id, str):
        raise ValueError(f"decisions go by the ids of calls, not by {call_id!r:.200}")
    place = f"decisions[{call_id!r}]"
    if not isinstance(given, Mapping):
        raise ValueError(f'{place} is an object such as {{"approved": True}}, not {given!r:.200}')
    unknown = [name for name in given if name not in _KEYS]
    if unknown:
        known = ", ".join(_KEYS)
        raise ValueError(f"{place} has the key {unknown[0]!r:.200}; it may have {known}")
    approved = given.get("approved", False)
    if not isinstance(approved, bool):
        raise ValueError(f"{place}: approved is true or false, not {approved!r:.200}")
    for name in ("arguments", "answers"):
        if not isinstance(given.get(name), Mapping | None):
            raise ValueError(f"{place}: {name} is an object, not {given[name]!r:.200}")
    reason = given.get("reason")
    if not isinstance(reason, str | None):
        raise ValueError(f"{place}: reason is text, not {reason!r:.200}")
    return GivenDecision(approved, given.get("arguments"), reason, given.get("answers"))
