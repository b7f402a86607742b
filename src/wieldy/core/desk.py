"""Where people decide on parked calls."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .approvals import Approvals, Parked
from .call import Call, Outcome, Status
from .canonical import digest
from .engine import Engine
from .errors import AlreadyDecided, CallDenied, CallInterrupted, CallNotFound
from .permission import decision_on
from .registry import Registry
from .repair import Receipt
from .run import Extras


class Desk:
    """Approve, deny and expire: a compare-and-set first, the call itself after it."""

    def __init__(self, engine: Engine, registry: Registry, approvals: Approvals) -> None:
        self._engine = engine
        self._registry = registry
        self._approvals = approvals
        self._expiring: set[asyncio.Task[None]] = set()

    async def pending(self) -> list[Parked]:
        """The calls that wait for a decision, the oldest first."""
        waiting = await self._approvals.pending()
        for parked in waiting:
            if parked.expired():
                await self.expire(parked.id)
        return [parked for parked in waiting if not parked.expired()]

    async def approve(
        self,
        call_id: str,
        by: str | None = None,
        arguments: Mapping[str, Any] | str | None = None,
        deps: Any = None,
    ) -> Outcome:
        """Let a parked call run, as it is or with edited arguments, and give its outcome."""
        parked = await self._current(call_id)
        accepted, agreed, repairs = parked.call.arguments, parked.digest, parked.repairs
        if arguments is not None:
            edited = parked.call.replace(arguments=arguments)
            accepted, edit_repairs = await self._engine.check(edited)
            repairs = tuple(edit_repairs)
            agreed = digest(accepted)
        decision = decision_on(parked, True, agreed, by)
        call = await self._approvals.decide(call_id, decision, accepted)
        tool = self._registry.find(call.tool)
        here = tool is not None and self._registry.active(tool)
        if tool is None or not here or tool.fingerprint != parked.fingerprint:
            reason = "approved, but the tool is not here as it was when the call was parked"
            return Outcome(call, Status.PENDING, metadata={"reason": reason})
        if not await self._approvals.claim(call_id):
            return await self._approvals.outcome(call_id)
        return await self._run(call, repairs, parked.deps if deps is None else deps)

    async def deny(self, call_id: str, by: str | None = None, reason: str | None = None) -> Outcome:
        """Refuse a parked call; it never runs."""
        parked = await self._current(call_id)
        return await self._refuse(parked, by, reason or "a person said no", {})

    async def expire(self, call_id: str) -> None:
        """End a parked call that nobody decided in time, unless somebody just did."""
        with suppress(CallNotFound):
            parked = await self._approvals.find(call_id)
            try:
                await self._refuse(parked, None, "nobody decided in time", {"expired": True})
            except AlreadyDecided:
                # Approved, and nobody with the tool came to run it.
                if await self._approvals.claim(call_id):
                    await self._end(parked.call, "nobody ran it in time", {"expired": True})

    def overdue(self, call_id: str) -> None:
        """End a parked call whose time is up; called by a timer on a running loop."""
        task = asyncio.get_running_loop().create_task(self.expire(call_id))
        self._expiring.add(task)
        task.add_done_callback(self._expiring.discard)

    async def _current(self, call_id: str) -> Parked:
        parked = await self._approvals.find(call_id)
        if parked.expired():
            await self.expire(call_id)
        return parked

    async def _run(self, call: Call, repairs: Sequence[Receipt], deps: Any) -> Outcome:
        outcome = Outcome(call, Status.INTERRUPTED, error=CallInterrupted(call.tool))
        try:
            outcome = await self._engine.run(call, extras=Extras(deps))
        finally:
            if repairs:
                outcome.metadata.setdefault("repairs", list(repairs))
            await self._approvals.finish(call.id, outcome)
        return outcome

    async def _refuse(
        self, parked: Parked, by: str | None, reason: str, metadata: dict[str, Any]
    ) -> Outcome:
        decision = decision_on(parked, False, parked.digest, by, reason)
        call = await self._approvals.decide(parked.id, decision, parked.call.arguments)
        if not await self._approvals.claim(parked.id):
            return await self._approvals.outcome(parked.id)
        return await self._end(call, reason, metadata)

    async def _end(self, call: Call, reason: str, metadata: dict[str, Any]) -> Outcome:
        error = CallDenied(call.tool, reason)
        outcome = Outcome(call, Status.DENIED, error=error, metadata=metadata)
        await self._approvals.finish(call.id, outcome)
        await self._engine.report(outcome)
        return outcome
