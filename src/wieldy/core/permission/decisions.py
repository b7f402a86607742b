"""Approve, answer, deny and expire parked calls."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any

from wieldy.core.active_call import Entrance, Extras
from wieldy.core.arguments.argument_repair import Receipt
from wieldy.core.arguments.private_copy import private_copy
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.canonical import digest_of, plain_json
from wieldy.core.engine import Engine
from wieldy.core.errors import (
    AlreadyDecided,
    AnswerNeeded,
    CallDenied,
    CallInterrupted,
    CallNotFound,
    InvalidArguments,
    StoreUnavailable,
    WieldyError,
)
from wieldy.core.invoke import carried_run
from wieldy.core.limits.off_loop import is_large, run_off_loop
from wieldy.core.registry import Registry
from wieldy.core.task import time_limit
from wieldy.core.tool import Tool

from .caller_claims import CallerClaims
from .parked import Approvals, Edited, Parked, ParkedFilter
from .parked import make_receipt as receipt_of
from .permits import decision_on
from .waiting_calls import WaitsForCalls

_log = logging.getLogger("wieldy")

# Somebody awaits a decision on the call of this id, and wants to know when its function is entered.
awaited_entrance: ContextVar[tuple[str, Entrance] | None] = ContextVar(
    "wieldy_awaited_entrance", default=None
)

# The call that whoever decides here lets go on, with a listener of its own.
attended_call: ContextVar[str | None] = ContextVar("wieldy_attended_call", default=None)
_ALL = ParkedFilter()
# How many seconds a box that closes waits for calls that go on by themselves.
_GRACE = 5.0
TOOL_CHANGED = "the tool is not as it was when the call was parked"
# Given the id of an agent's run: what its tools get as `Context.deps`.
RunDeps = Callable[[str], Awaitable[Any]]


class Desk:
    """Decides on parked calls: each decision is a compare-and-set, and the call runs after it."""

    def __init__(self, engine: Engine, registry: Registry, approvals: Approvals) -> None:
        self._engine = engine
        self._registry = registry
        self._approvals = approvals
        self.run_deps: RunDeps | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def hold_to_claims(self, claims: CallerClaims) -> None:
        """Let calls that waited run only if the claims of their callers are as they were."""
        self._engine.permits.claims = claims

    async def pending(self, wanted: ParkedFilter = _ALL) -> list[Parked]:
        """The calls that wait for a decision, the oldest first."""
        found: list[Parked] = []
        while True:
            page = await self._approvals.pending(wanted)
            found += await self._find_undecided(page)
            if wanted.limit is None or len(page) < wanted.limit or len(found) >= wanted.limit:
                return found[: wanted.limit]
            wanted = wanted._replace(after=(page[-1].at, page[-1].id))

    async def _find_undecided(self, everything: Sequence[Parked]) -> list[Parked]:
        """Those on which somebody may decide; what has expired is ended."""
        # Nobody decides on a call that waits for others.
        waiting = [parked for parked in everything if not parked.waits_for]
        for parked in waiting:
            if parked.expired():
                # The call has expired, even if that can't be written now.
                with suppress(StoreUnavailable):
                    await self.expire(parked)
        return [parked for parked in waiting if not parked.expired()]

    async def find_problems(self, call: Call) -> tuple[str, ...]:
        """What is wrong with the arguments of a call, one line each; nothing is run or recorded."""
        try:
            await self._engine.check(call)
        except InvalidArguments as error:
            return error.problems
        return ()

    async def approve(
        self,
        call_id: str,
        by: str | None = None,
        arguments: Mapping[str, Any] | str | None = None,
        extras: Extras | None = None,
        reason: str | None = None,
    ) -> Outcome:
        """Run a parked call, as it is or with edited arguments, and return its outcome."""
        arguments = private_copy(arguments)
        parked = await self._find_parked(call_id)
        if parked.waits_for:
            raise WaitsForCalls(call_id, parked.waits_for)
        if parked.requests is not None:
            raise AnswerNeeded(call_id, list(parked.requests))
        edited, agreed, repairs = None, parked.digest, parked.repairs
        if arguments is not None:
            checked = await self._engine.check(parked.call.replace(arguments=arguments))
            edited, given = Edited(*checked), checked[0]
            agreed = await run_off_loop(is_large(given), lambda: digest_of(given))
            repairs = tuple(edited.repairs)
        decision = decision_on(parked, True, agreed, by, reason)
        here = self._has_tool(parked)
        call = await self._approvals.approve(parked, decision, edited, here)
        held = call.decision
        assert held is not None
        if edited is not None and held.at != decision.at and held.arguments_digest != agreed:
            # The call was approved before, with other arguments.
            raise AlreadyDecided(call_id, "approved", held.by)
        return await self._resume(call, parked, repairs, extras or Extras())

    async def answer(
        self,
        call_id: str,
        answers: Mapping[str, Any],
        by: str | None = None,
        extras: Extras | None = None,
    ) -> Outcome:
        """Run a call again whose tool asked for input, with the answers, and return its outcome."""
        parked = await self._find_parked(call_id)
        if parked.waits_for:
            raise WaitsForCalls(call_id, parked.waits_for)
        if parked.requests is None:
            raise ValueError(f"call {call_id} asks for a decision, not for answers")
        answers = {**parked.given, **answers}
        missing = [name for name in parked.requests if name not in answers]
        if missing:
            raise AnswerNeeded(call_id, missing)
        held = plain_json(answers, "answers")
        decision = decision_on(parked, True, parked.digest, by, answers=held)
        call = await self._approvals.approve(parked, decision, None, self._has_tool(parked))
        return await self._resume(call, parked, parked.repairs, extras or Extras())

    async def deny(self, call_id: str, by: str | None = None, reason: str | None = None) -> Outcome:
        """Refuse a parked call, which never runs, and the calls that it waits for."""
        parked = await self._find_parked(call_id)
        outcome = await self._refuse(parked, by, reason or "a person said no", {})
        await self._deny_below(parked, by, "denied")
        return outcome

    async def _deny_below(self, parked: Parked, by: str | None, how: str) -> None:
        for child in parked.waits_for:
            # Others may have decided on it, and that holds.
            with suppress(AlreadyDecided, CallNotFound):
                await self.deny(child, by, f"the call of {parked.tool} that needs it was {how}")

    async def note_answers(self, parked: Parked, answers: Mapping[str, Any]) -> None:
        """Keep some of the answers that a tool asked for, until `answer` gets the others."""
        await self._approvals.note_answers(parked, plain_json(answers, "answers"))

    async def cancel(self, call_id: str, by: str | None = None) -> None:
        """End a call that waits, because whoever made it no longer wants it.

        A call that runs, or has ended, is left as it is.
        """
        parked = await self._find_parked(call_id)
        reason = "whoever made the call cancelled it"
        try:
            await self._refuse(parked, by, reason, {"cancelled": True})
        except AlreadyDecided:
            await self._abandon(parked, reason, {"cancelled": True})
        await self._deny_below(parked, by, "cancelled")

    async def outcome(self, call_id: str) -> Outcome:
        """How a call that was parked stands; waits if the call is running."""
        await self._find_parked(call_id)
        return await self._approvals.outcome(call_id)

    async def wait(self, call_id: str, seconds: float | None) -> Outcome:
        """Wait for the end of a parked call; returns its receipt if that takes too long."""
        end = None if seconds is None else time.monotonic() + seconds
        parked = await self._approvals.find(call_id)
        receipt = receipt_of(parked)
        while end is None or time.monotonic() < end:
            try:
                async with time_limit(_seconds_to_wait(parked, end)):
                    ended = await self._approvals.watch(parked.id)
            except TimeoutError:
                if parked.expired():
                    await self.expire(parked)
                continue
            if ended is None:
                ended = await self.run_approved(parked)
            if ended.metadata.keys().isdisjoint(("input", "waits_for")):
                return ended
            # The call ran, and its tool asks for more.
            receipt, parked = ended, await self._approvals.find(parked.id)
        return receipt

    async def expire(self, overdue: Parked) -> None:
        """End a parked call that nobody decided in time, unless somebody just did."""
        with suppress(CallNotFound):
            parked = await self._approvals.find(overdue.id)
            if parked.expires_at != overdue.expires_at:
                # The call was decided and asked again, with a new time limit.
                return
            try:
                await self._refuse(parked, None, "nobody decided in time", {"expired": True})
            except AlreadyDecided:
                # The call was approved, but no process with its tool ran it in time.
                await self._abandon(parked, "nobody ran it in time", {"expired": True})

    def end_overdue(self, parked: Parked) -> None:
        """End a parked call whose time is up; called by a timer on a running loop."""
        self._do_soon(self.expire(parked))

    def wake_soon(self, call_id: str) -> None:
        """Let a call go on that can."""
        self._do_soon(self._wake_or_log(call_id))

    def _do_soon(self, work: Coroutine[Any, Any, None]) -> None:
        # The task has a context of its own, because it belongs to no running call.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Let what goes on by itself come to its end before the box closes; stop what takes long.

        What is left would open the store again.
        """
        loop, here = asyncio.get_running_loop(), asyncio.current_task()
        tasks = [each for each in self._tasks if each.get_loop() is loop and each is not here]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _find_parked(self, call_id: str) -> Parked:
        parked = await self._approvals.find(call_id)
        if parked.expired():
            await self.expire(parked)
        return parked

    def find_unchanged(self, name: str, fingerprint: str | None) -> Tool | None:
        """The tool of this name if it can be called and is defined as it was, else None."""
        return self._registry.find_unchanged(name, fingerprint)

    def _has_tool(self, parked: Parked) -> bool:
        return self._registry.find_unchanged(parked.tool, parked.fingerprint) is not None

    async def find(self, call_id: str) -> Parked:
        """The call of this id that waits or has waited; `CallNotFound` otherwise."""
        return await self._approvals.find(call_id)

    async def find_call(self, call_id: str) -> Call:
        """The call of this id that waits, has waited or is recorded; `CallNotFound` otherwise."""
        return await self._approvals.find_call(call_id)

    async def check_arguments(self, parked: Parked, arguments: Mapping[str, Any]) -> None:
        """Raise what is wrong with edited arguments; nothing is decided."""
        await self._engine.check(parked.call.replace(arguments=private_copy(arguments)))

    async def withdraw(self, parked: Parked, reason: str) -> Outcome:
        """Refuse an approved call that nobody has run, or return what became of it meanwhile."""
        refused = await self._abandon(parked, reason, {})
        return refused or await self._approvals.outcome(parked.id)

    async def _abandon(
        self, parked: Parked, reason: str, metadata: dict[str, Any]
    ) -> Outcome | None:
        """Refuse an approved call that nobody has claimed; None if there is none."""
        outcome = _refusal_outcome(parked.call, reason, metadata)
        if not await self._approvals.abandon(outcome):
            return None
        await self._engine.report(outcome)
        return await self._wake_parent(outcome)

    async def find_open(self, call_id: str) -> list[Parked]:
        """The calls on which somebody has to decide before this one can go on.

        That is the call itself, or the calls that it waits for, however deep they are nested.
        """
        parked = await self._find_parked(call_id)
        if await self._approvals.find_end(call_id) is not None:
            return []
        if not parked.waits_for:
            return [parked]
        return [each for child in parked.waits_for for each in await self.find_open(child)]

    async def go_on(self, call_id: str, extras: Extras | None = None) -> Outcome | None:
        """Run a call again if all calls that it waits for have ended, or can go on and end.

        Returns:
            Its outcome, or None if it waits for nothing, still waits, or can't run here.
        """
        try:
            parked = await self._approvals.find(call_id)
            for below in parked.waits_for:
                await self.go_on(below, Extras(None if extras is None else extras.deps))
            statuses = await self._find_statuses(parked)
        except CallNotFound:
            return None
        if not statuses:
            return None
        if not self._has_tool(parked):
            return await self._refuse_changed(parked)
        decision = decision_on(parked, True, parked.digest, None, answers=statuses)
        try:
            call = await self._approvals.approve(parked, decision, None, True)
        except AlreadyDecided:
            # It was denied, or somebody else was faster.
            return None
        return await self._resume(call, parked, parked.repairs, extras or Extras())

    async def _refuse_changed(self, parked: Parked) -> Outcome | None:
        """Refuse a call that waited for others if its tool has changed meanwhile.

        A tool that is missing here, or switched off, may be in another process as it was.
        """
        tool = self._registry.find(parked.tool)
        if tool is None or tool.fingerprint == parked.fingerprint:
            return None
        try:
            return await self._refuse(parked, None, TOOL_CHANGED, {})
        except AlreadyDecided:
            return None

    async def can_go_on(self, parked: Parked) -> bool:
        """Whether all calls that this one waits for have ended."""
        return bool(await self._find_statuses(parked))

    async def _find_statuses(self, parked: Parked) -> dict[str, str]:
        """How the calls ended that a call waits for, by their ids; empty while one is open."""
        found = {}
        for call_id in parked.waits_for:
            end = await self._approvals.find_end(call_id)
            if end is None:
                return {}
            found[call_id] = end.status.value
        return found

    async def _wake_parent(self, outcome: Outcome) -> Outcome:
        """Let the call go on that waits for this one, which has ended; returns the outcome."""
        scope = outcome.call.scope
        above = scope.parent
        if above is None or outcome.status is Status.PENDING or above == attended_call.get():
            return outcome
        carried = carried_run.get()
        if carried is not None and scope.run == carried.run_id:
            self.wake_soon(above)
        else:
            await self._wake_or_log(above)
        return outcome

    async def _wake_or_log(self, call_id: str) -> None:
        try:
            await self.wake(call_id)
        except WieldyError:
            # It still waits, and `recover` lets it go on.
            _log.exception("Call %s could not go on", call_id)

    async def wake(self, call_id: str) -> Outcome | None:
        """Let a call go on by itself, as `go_on` does, unless that is for somebody else to do.

        The calls of an agent's run go on with the run, which has their budget and their `deps`.
        """
        try:
            parked = await self._approvals.find(call_id)
        except CallNotFound:
            return None
        by_itself = parked.waits_for and parked.scope.run is None
        return await self.go_on(call_id) if by_itself else None

    async def run_approved(self, parked: Parked, extras: Extras | None = None) -> Outcome:
        """Run an approved call, or return what became of it meanwhile.

        Every approved call takes this one road, whether the approver finds it, a waiting caller, a
        server, or a process that recovers the calls of another.
        """
        decision = decision_on(parked, True, parked.digest, None)
        try:
            call = await self._approvals.approve(parked, decision, None, True)
        except AlreadyDecided:
            # Another process ran the call, and its tool asked again.
            return receipt_of(await self._approvals.find(parked.id))
        return await self._resume(call, parked, parked.repairs, extras or Extras())

    async def _resume(
        self, call: Call, parked: Parked, repairs: Sequence[Receipt], extras: Extras
    ) -> Outcome:
        """Run an approved call if its tool is here and nobody else runs it."""
        if not self._has_tool(parked):
            reason = "approved, but the tool is not here as it was when the call was parked"
            if parked.covered is not None and call.arguments == parked.call.arguments:
                # The call runs elsewhere, and the person who decides must not see its secrets.
                call = call.replace(arguments=parked.covered)
            return Outcome(call, Status.PENDING, metadata={"reason": reason})
        if extras.deps is None:
            extras.deps = parked.deps
        if extras.deps is None and self.run_deps is not None and call.scope.run is not None:
            try:
                extras.deps = await self.run_deps(call.scope.run)
            except LookupError as error:
                return Outcome(call, Status.PENDING, metadata={"reason": f"approved, but {error}"})
        if not await self._approvals.claim(call.id):
            return await self._approvals.outcome(call.id)
        awaited = awaited_entrance.get()
        if extras.entered is None and awaited is not None and awaited[0] == call.id:
            extras.entered = awaited[1]
        return await self._run(call, repairs, extras)

    async def _run(self, call: Call, repairs: Sequence[Receipt], extras: Extras) -> Outcome:
        outcome = Outcome(call, Status.INTERRUPTED, error=CallInterrupted(call.tool))
        try:
            outcome = await self._engine.run(call, extras=extras)
        finally:
            if repairs:
                outcome.metadata.setdefault("repairs", list(repairs))
            if outcome.status is not Status.PENDING:
                await self._approvals.finish(call.id, outcome)
        return await self._wake_parent(outcome)

    async def _refuse(
        self, parked: Parked, by: str | None, reason: str, metadata: dict[str, Any]
    ) -> Outcome:
        decision = decision_on(parked, False, parked.digest, by, reason)
        outcome = _refusal_outcome(parked.call.replace(decision=decision), reason, metadata)
        if not await self._approvals.refuse(parked, outcome):
            return await self._approvals.outcome(parked.id)
        await self._engine.report(outcome)
        return await self._wake_parent(outcome)


def _refusal_outcome(call: Call, reason: str, metadata: dict[str, Any]) -> Outcome:
    error = CallDenied(call.tool, reason)
    return Outcome(call, Status.DENIED, error=error, metadata=metadata)


def _seconds_to_wait(parked: Parked, end: float | None) -> float | None:
    """Seconds until the next look: the caller's own limit, or the time that the call has left."""
    limits = [] if end is None else [end - time.monotonic()]
    if parked.expires_at is not None and not parked.expired():
        limits.append(parked.expires_at - time.time())
    return max(0.0, min(limits)) if limits else None
