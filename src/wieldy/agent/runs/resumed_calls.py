"""Settle the calls at which a run stopped, each exactly once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from wieldy.agent.run_state import RunState
from wieldy.core.active_call import Extras
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import AlreadyDecided, CallDenied, CallNotFound, CallUnknown
from wieldy.core.permission.decisions import TOOL_CHANGED
from wieldy.core.permission.parked import Parked
from wieldy.core.run_errors import NotPending
from wieldy.toolbox import Toolbox

from .given_decisions import GivenDecision

# Called with each decision before the call runs: the call, whether it may run, and the reason.
Hearing = Callable[[Call, bool, str | None], Awaitable[None]]
_UNKEPT = "its secret arguments were not kept when the run stopped; make the call again"


class ResumedCalls:
    """The calls of a run that was interrupted or crashed, each settled exactly once."""

    def __init__(
        self,
        box: Toolbox,
        run_id: str,
        state: RunState,
        decisions: Mapping[str, GivenDecision],
        by: str | None,
    ) -> None:
        self._box = box
        self._desk = box.desk
        self._run_id = run_id
        self._decisions = decisions
        self._by = by
        self._partial = state.partial
        self._waited = frozenset(state.pending)
        self._ids = frozenset(call.id for call in state.calls)

    def concerns(self, call: Call) -> bool:
        """Whether a call may have been made before the run stopped."""
        return call.id in self._ids

    async def check_decisions(self) -> None:
        """Raise unless every decision can be applied. This applies none of them."""
        known = await self._known_ids() if self._decisions else set()
        for call_id, decision in self._decisions.items():
            parked = await self._find(call_id) if call_id in known else None
            if parked is None:
                raise NotPending(self._run_id, call_id)
            if await self._is_undecided(call_id):
                decision.check_fits(parked)
                if decision.approved and decision.arguments is not None:
                    await self._desk.check_arguments(parked, decision.arguments)

    async def _known_ids(self) -> set[str]:
        """The ids of this run's calls, and of the calls that they wait for."""
        known, below = set(self._ids), list(self._waited)
        while below:
            parked = await self._find(below.pop())
            if parked is not None:
                below += set(parked.waits_for) - known
                known.update(parked.waits_for)
        return known

    async def settle(self, call: Call, extras: Extras, hear: Hearing) -> Outcome | None:
        """The outcome of a call after its decision has been applied; None if it was never made."""
        parked = await self._find(call.id)
        if parked is not None:
            return await self._settle_parked(call, parked, extras, hear)
        recorded = await self._find_outcome(call)
        if recorded is not None:
            return await self._run_again(recorded, extras)
        if call.id in self._waited:
            lost = CallUnknown(call.tool, "what was decided on it is forgotten")
            return Outcome(call, Status.UNKNOWN, error=lost)
        if call.id in self._partial:
            return Outcome(call, Status.DENIED, error=CallDenied(call.tool, _UNKEPT))
        return None

    async def _settle_parked(
        self, call: Call, parked: Parked, extras: Extras, hear: Hearing
    ) -> Outcome:
        outcome = await self._desk.outcome(call.id)
        if outcome.status is not Status.PENDING:
            await hear(call, outcome.status is not Status.DENIED, _decision_reason(outcome))
            return await self._run_again(outcome, extras)
        if _is_approved(outcome):
            return await self._run_approved(call, parked, extras, hear)
        decision = self._decisions.get(call.id)
        if parked.waits_for and decision is None:
            return await self._settle_below(parked, outcome, extras, hear)
        if decision is None:
            return outcome
        try:
            return await self._apply(decision, call, parked, extras, hear)
        except AlreadyDecided:
            # Somebody else has decided first, and that decision holds.
            outcome = await self._desk.outcome(call.id)
            if _is_approved(outcome):
                return await self._run_approved(call, parked, extras, hear)
            return outcome

    async def _settle_below(
        self, parked: Parked, receipt: Outcome, extras: Extras, hear: Hearing
    ) -> Outcome:
        """Settle the calls that a call waits for, and continue it if none of them is open."""
        if await self._is_stranded(parked):
            await hear(parked.call, False, TOOL_CHANGED)
            return await self._desk.deny(parked.id, self._by, TOOL_CHANGED)
        below = [await self._find(each) for each in parked.waits_for]
        settling = [
            self._settle_parked(each.call, each, Extras(extras.deps), hear)
            for each in below
            if each is not None
        ]
        await asyncio.gather(*settling)
        return await self._desk.go_on(parked.id, extras) or receipt

    async def _is_stranded(self, parked: Parked) -> bool:
        """Whether a call would go on now, and can't because its tool has changed."""
        if self._desk.find_unchanged(parked.tool, parked.fingerprint) is not None:
            return False
        still_open = await self._desk.find_open(parked.id)
        return not still_open or any(each.id in self._decisions for each in still_open)

    async def _apply(
        self, decision: GivenDecision, call: Call, parked: Parked, extras: Extras, hear: Hearing
    ) -> Outcome:
        desk, by = self._desk, self._by
        reason = decision.reason
        if decision.approved and desk.find_unchanged(parked.tool, parked.fingerprint) is None:
            decision, reason = GivenDecision(False), TOOL_CHANGED
        await hear(call, decision.approved, reason)
        if not decision.approved:
            return await desk.deny(call.id, by, reason)
        if decision.answers is not None:
            return await desk.answer(call.id, decision.answers, by, extras)
        return await desk.approve(call.id, by, decision.arguments, extras)

    async def _run_approved(
        self, call: Call, parked: Parked, extras: Extras, hear: Hearing
    ) -> Outcome:
        """Run a call that was approved elsewhere and has not run yet."""
        if self._desk.find_unchanged(parked.tool, parked.fingerprint) is None:
            await hear(call, False, TOOL_CHANGED)
            return await self._desk.withdraw(parked, TOOL_CHANGED)
        await hear(call, True, None)
        return await self._desk.run_approved(parked, extras)

    async def _run_again(self, outcome: Outcome, extras: Extras) -> Outcome:
        """The outcome; a call with an unknown outcome runs again if that is harmless."""
        if outcome.status is not Status.UNKNOWN or not self._box.recorded:
            return outcome
        return await self._box.rerun_call(outcome.call.id, extras)

    async def _find(self, call_id: str) -> Parked | None:
        try:
            return await self._desk.find(call_id)
        except CallNotFound:
            return None

    async def _is_undecided(self, call_id: str) -> bool:
        outcome = await self._desk.outcome(call_id)
        return outcome.status is Status.PENDING and not _is_approved(outcome)

    async def _find_outcome(self, call: Call) -> Outcome | None:
        """The outcome of a call that was never parked; waits if it is running elsewhere."""
        if not self._box.recorded or await self._box.ledger.get(call.id) is None:
            return None
        return await self._box.outcome(call.id)


def _is_approved(receipt: Outcome) -> bool:
    """Whether a waiting call has been approved and only has to be run."""
    decision = receipt.call.decision
    asks = not receipt.metadata.keys().isdisjoint(("input", "waits_for"))
    return decision is not None and decision.approved and not asks


def _decision_reason(outcome: Outcome) -> str | None:
    return None if outcome.call.decision is None else outcome.call.decision.reason
