"""Hold a call until it is allowed to run."""

import inspect
import logging
import time
import traceback
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from wieldy.core.active_call import ActiveCall, Executor, Handler, LateRefusal, Layer, Objection
from wieldy.core.arguments.private_copy import private_arguments
from wieldy.core.call import Decision, Outcome, Scope, Status
from wieldy.core.canonical import digest_of
from wieldy.core.choices import PermissionMode
from wieldy.core.errors import (
    CallDenied,
    CallUnknown,
    InputNeeded,
    KeyTaken,
    NotChecked,
    StoreError,
)
from wieldy.core.invoke import make_invoker
from wieldy.core.limits.deadline import limit_time
from wieldy.core.limits.off_loop import is_large, run_off_loop, start_off_loop
from wieldy.core.outside.untrusted_sessions import MemorySessions, UntrustedSessions
from wieldy.core.secrets.credential import argument_secrets
from wieldy.core.secrets.secret import redact_data, redact_text
from wieldy.core.tool import Tool
from wieldy.core.work import Work

from .caller_claims import CallerClaims, find_changed_claim, kept_digests
from .modes import Modes
from .parked import Approvals, Parked, make_receipt
from .rules import Rule, Rules, StoredRules
from .rulings import (
    NOTHING_HOLDS,
    SESSION_UNKNOWN,
    Judge,
    Ruling,
    judge_by_mode,
    judge_by_modes,
    matching_rules,
    never_runs,
)
from .waiting_calls import CallsNeeded

if TYPE_CHECKING:
    from .explanation import Explanation

Approver = Callable[[Parked], Awaitable[bool | None] | bool | None]
_log = logging.getLogger("wieldy")


class ParkedListener(Protocol):
    """A watcher that attends to parked calls when something has to be done about them."""

    def end_overdue(self, parked: Parked) -> None:
        """End a parked call whose time is up; called by a timer on a running loop."""

    async def can_go_on(self, parked: Parked) -> bool:
        """Whether all calls that this one waits for have ended."""

    def wake_soon(self, call_id: str) -> None:
        """Let a call go on that can."""


class Permits:
    """Decides on calls, with the modes, the rules, the approver and the parked calls.

    `place` is where a blocking function runs that answers in a tool's place.
    """

    def __init__(
        self,
        rules: Rules,
        approvals: Approvals,
        *,
        mode: PermissionMode | None = "ask",
        approver: Approver | None = None,
        ttl: float | None = None,
        stored: StoredRules | None = None,
        place: Executor | None = None,
        sessions: UntrustedSessions | None = None,
    ) -> None:
        # A change of a mode is counted with those of the rules: nobody has to look at both.
        self.modes = Modes(mode, rules.count_change)
        self._place = place
        self.rules = rules
        self.approvals = approvals
        self.approver = approver
        self.ttl = ttl
        self.stored = stored
        self._desk: weakref.ref[ParkedListener] | None = None
        self.sessions = sessions or MemorySessions()
        # Where callers have claims, a call that waited runs only if they are as they were.
        self.claims: CallerClaims | None = None

    def tell_of_parked(self, desk: "ParkedListener") -> None:
        """Tell a desk of parked calls that have to be seen to, as long as the desk is there."""
        self._desk = weakref.ref(desk)

    def guard(self, tool: Tool, always: bool = False) -> Layer | None:
        """The layer that guards this tool's calls, or None if they always run.

        With `always` there is a layer in any case, because a call may wait in front of it while
        a new rule is made.
        """
        known = self.edition, self.judge(tool)
        needed = always or self.stored is not None or known[1] is not None
        return _Guard(self, tool, known).around if needed else None

    async def callable_tools(self, tools: Iterable[Tool], scope: Scope) -> list[Tool]:
        """The tools that can be called in this scope with some arguments.

        The others are switched off, or denied by the mode or by a rule whatever the arguments are.
        """
        if self.stored is not None and self._is_outdated():
            # For a listing the known rules are enough; a call would be refused.
            with suppress(StoreError):
                await self.stored.renew()
        rules, modes = [*self._every_rule()], self.modes.applying(scope)
        return [tool for tool in tools if not never_runs(tool, rules, modes, scope)]

    async def explain(self, active: ActiveCall) -> "Explanation":
        """Predict what would become of a call whose arguments are accepted, and why."""
        from .explanation import Explanation  # noqa: PLC0415

        if self.stored is not None:
            await _read_again(self.stored, active.tool)
        judge = self.judge(active.tool)
        rules = [*self._every_rule()]
        asked = any(rule.criteria.untrusted is not None for rule in rules)
        tainted = await self.look_at_sessions(active) if asked else ()
        ruling = NOTHING_HOLDS if judge is None else judge(active)
        matched = matching_rules(active.tool, rules, active.call.scope, active.values, tainted)
        question = None
        if ruling.decision == "ask":
            shown = await run_off_loop(is_large(active.arguments), lambda: _shown_words(active))
            question = f"May {shown} run? It needs approval: {ruling.because}"
        return Explanation(ruling.decision, ruling.because, matched, question)

    async def rules_in_force(self) -> Hashable:
        """A value that differs as soon as other rules are in force; stored rules are read again."""
        if self.stored is not None:
            await self.stored.renew()
        now = time.time()
        timed = [rule.expires_at for rule in self._every_rule() if rule.expires_at is not None]
        return self.edition, sum(ends > now for ends in timed)

    async def forbids(self, active: ActiveCall) -> LateRefusal | None:
        """Why a call that has waited since it began may not go on; None if it may."""
        try:
            if self._is_outdated():
                assert self.stored is not None
                await self.stored.renew()
            judge = self.judge(active.tool)
            if judge is None:
                return None
            # Results that have come into the session meanwhile count.
            active.tainted = None
            if judge(active) is SESSION_UNKNOWN:
                await self.look_at_sessions(active)
        except (StoreError, NotChecked) as error:
            return _late_refusal(active, str(error))
        return self._late_objection(judge, active)

    async def look_at_sessions(self, active: ActiveCall) -> tuple[bool, ...]:
        """Find out whether a result from outside is in the sessions on the way to a call."""
        try:
            marks = [await self.sessions.holds(each) for each in active.call.scope.sessions()]
            active.tainted = tuple(marks)
        except StoreError as error:
            raise NotChecked(active.tool.name, str(error)) from error
        return active.tainted

    def late_check(self, tool: Tool) -> Objection:
        """A check that a worker makes just before it enters the function.

        It costs next to nothing if no rule was made since the call was judged.
        """
        known: tuple[int, Judge | None] = -1, None

        def check(
            active: ActiveCall,
        ) -> LateRefusal | Coroutine[Any, Any, LateRefusal | None] | None:
            nonlocal known
            if self._is_outdated() or active.tainted is not None:
                return self.forbids(active)
            edition, judge = known
            if edition != self.edition:
                known = edition, judge = self.edition, self.judge(tool)
            return (
                None
                if judge is None or active.judged == edition
                else self._late_objection(judge, active)
            )

        return check

    def _late_objection(self, judge: Judge, active: ActiveCall) -> LateRefusal | None:
        """Why a call that has begun may not go on: it is now denied, or needs a person."""
        ruling = judge(active)
        if ruling.decision == "run" or (ruling.asks and active.was_answered):
            return None
        if ruling.decision == "dry-run":
            return LateRefusal(ruling.because, partial(self._rehearse_call, active, ruling))
        return _late_refusal(active, ruling.because)

    def _is_outdated(self) -> bool:
        return self.stored is not None and time.monotonic() >= self.stored.good_until

    @property
    def edition(self) -> int:
        """A number that grows with every change of the rules and modes, here or in the store."""
        return self.rules.edition + (0 if self.stored is None else self.stored.edition)

    def judge(self, tool: Tool) -> "Judge | None":
        """The check that decides whether a call of this tool may run; None if every call may."""
        only = self.modes.only
        if only is not None:
            return judge_by_mode(tool, self._every_rule(), only)
        return judge_by_modes(tool, self._every_rule(), self.modes.table)

    def _every_rule(self) -> Iterable[Rule]:
        return self.rules if self.stored is None else [*self.rules, *self.stored]

    async def withhold(
        self, active: ActiveCall, proceed: Handler, ruling: Ruling, edition: int
    ) -> Outcome:
        """Let a call run only if it was approved and nothing else forbids it."""
        answered = active.call.decision is not None
        if ruling.decision == "deny" and not (ruling.asks and active.was_answered):
            return _denied_outcome(active, ruling.because)
        why_not = None
        if answered:
            why_not = await run_off_loop(active.is_large, lambda: _find_disagreement(active))
        if why_not is not None:
            return _denied_outcome(active, why_not)
        if ruling.decision == "dry-run":
            return await self._rehearse_call(active, ruling)
        # In a mode in which nobody is asked, an earlier yes of the approver stands.
        if answered or active.agreed == edition or ruling.decision == "deny":
            return await proceed(active)
        return await self._ask_person(active, proceed, ruling.because, edition)

    async def _rehearse_call(self, active: ActiveCall, ruling: Ruling) -> Outcome:
        """Report what would have run, or call the function that simulates the tool."""
        active.note("dry_run", True)
        active.note("reason", ruling.because)
        if active.tool.simulate is not None:
            active.note("simulated", True)
            return await self._simulate_call(active, active.tool.simulate)
        because = ruling.because[0].upper() + ruling.because[1:]
        words = await run_off_loop(active.is_large, lambda: _shown_words(active))
        return Outcome(active.call, Status.OK, f"Not run: {words}. {because}.")

    async def _simulate_call(self, active: ActiveCall, simulate: Callable[..., Any]) -> Outcome:
        tool = active.tool
        stand_in = Tool(simulate, name=tool.name, postprocess=tool.postprocess)
        takes = stand_in.signature
        work = Work(simulate, takes.context, takes.positional)
        handler = make_invoker(stand_in, work, self._place)
        if tool.limits.timeout is None:
            return await handler(active)
        return await limit_time(tool.limits.timeout)(active, handler)

    async def _ask_person(
        self, active: ActiveCall, proceed: Handler, reason: str, edition: int
    ) -> Outcome:
        """Ask the approver, then park: the same call, handed back as pending."""
        expires_at = None if self.ttl is None else time.time() + self.ttl

        claims = kept_digests(self.claims, active)

        def make_parked() -> Parked:
            arguments, discreet = _cover_arguments(active)
            call = active.call.replace(arguments=arguments)
            own = {"reason": reason, "expires_at": expires_at, "deps": active.deps}
            return Parked(call, active.tool.fingerprint, claims=claims, **own, **discreet)

        parked = await run_off_loop(active.is_large, make_parked)
        # The approver gets a copy, so that its changes affect nobody else.
        answer = await _ask_approver(self.approver, parked, active.secrets)
        if answer is True:
            active.agreed = edition
            return await proceed(active)
        if answer is False:
            return _denied_outcome(active, "the approver said no")
        if not await self.approvals.park(parked, active.secrets):
            known = await self.approvals.find_call(parked.id)
            if (known.tool, digest_of(known.arguments)) != (parked.tool, parked.digest):
                raise KeyTaken(parked.tool, parked.id)
            return _denied_outcome(active, "a call with this id waits already, or was decided")
        self._watch_over(active, parked)
        return make_receipt(parked)

    async def pause(self, active: ActiveCall, needed: InputNeeded) -> Outcome:
        """Hand the call back as pending until somebody has answered its tool."""
        arguments, discreet = _cover_arguments(active)
        ttl = self.ttl
        if isinstance(needed, CallsNeeded):
            # The calls that it waits for expire by themselves, and then it goes on.
            ttl = None
            await self._check_children(active, needed.calls)
        parked = Parked(
            active.call.replace(arguments=arguments, decision=None),
            active.tool.fingerprint,
            reason=redact_text(str(needed), active.secrets),
            expires_at=None if ttl is None else time.time() + ttl,
            deps=active.deps,
            requests=redact_data(needed.requests, active.secrets),
            state=needed.state,
            claims=kept_digests(self.claims, active),
            **discreet,
        )
        if not await self.approvals.suspend(parked, active):
            raise CallUnknown(
                active.tool.name, "another process took it over before it had answers"
            )
        self._watch_over(active, parked)
        desk = None if self._desk is None else self._desk()
        if parked.waits_for and desk is not None and await desk.can_go_on(parked):
            # Somebody decided before this call was known to wait.
            desk.wake_soon(parked.id)
        return make_receipt(parked)

    async def _check_children(self, active: ActiveCall, ids: Iterable[str]) -> None:
        """Raise unless these calls wait and were made by this call, which they wake."""
        for call_id in ids:
            made_by = (await self.approvals.find(call_id)).scope.parent
            if made_by != active.call.id:
                raise ValueError(f"CallsNeeded: call {call_id} was not made by this call")

    def _watch_over(self, active: ActiveCall, parked: Parked) -> None:
        """Start a timer that ends the call when it is overdue, in case nobody looks at it."""
        if self.ttl is not None and parked.expires_at is not None and self._desk is not None:
            active.loop.call_later(self.ttl, _tell_overdue, self._desk, parked)


def _tell_overdue(desk: "weakref.ref[ParkedListener]", parked: Parked) -> None:
    there = desk()
    if there is not None:
        there.end_overdue(parked)


class _Guard:
    """Holds the calls of one tool until they may run."""

    def __init__(self, permits: Permits, tool: Tool, known: "tuple[int, Judge | None]") -> None:
        self._permits = permits
        self._tool = tool
        # The edition of the rules and its judge are one tuple, because other threads read both.
        self.known = known

    def around(self, proceed: Handler) -> Handler:
        """A handler that proceeds if the call is permitted."""
        rules, stored = self._permits.rules, self._permits.stored
        if stored is None:
            return lambda active: self._decide_call(active, proceed)

        def require_permission(active: ActiveCall) -> Awaitable[Outcome]:
            if time.monotonic() >= stored.good_until:
                return self._renew_rules(stored, active, proceed)
            # If no rule concerns the tool, there is nothing to decide.
            if (
                self.known == (rules.edition + stored.edition, None)
                and active.call.decision is None
            ):
                return proceed(active)
            return self._decide_call(active, proceed)

        return require_permission

    def _decide_call(
        self, active: ActiveCall, proceed: Handler, tainted: tuple[bool, ...] | None = None
    ) -> Awaitable[Outcome]:
        permits = self._permits
        changed = find_changed_claim(permits.claims, active)
        if changed is not None:
            return _late_refusal(active, changed).outcome()
        edition, judge = self.known
        if edition != permits.edition:
            self.known = edition, judge = permits.edition, permits.judge(self._tool)
        if judge is None:
            return proceed(active)
        active.judged, active.tainted = edition, tainted
        if active.is_large:
            return self._judge_off_loop(active, proceed, judge, edition)
        return self._follow_ruling(active, proceed, _judge_values(active, judge), edition)

    async def _judge_off_loop(
        self, active: ActiveCall, proceed: Handler, judge: Judge, edition: int
    ) -> Outcome:
        ruling = await start_off_loop(lambda: _judge_values(active, judge))
        return await self._follow_ruling(active, proceed, ruling, edition)

    def _follow_ruling(
        self, active: ActiveCall, proceed: Handler, ruling: Ruling, edition: int
    ) -> Awaitable[Outcome]:
        if ruling is SESSION_UNKNOWN:
            return self._look_first(active, proceed)
        if self._permits.stored is not None:
            # Only a record has a place for it.
            active.because = ruling[1]
        if ruling[0] == "run":
            return proceed(active)
        return self._permits.withhold(active, proceed, ruling, edition)

    async def _look_first(self, active: ActiveCall, proceed: Handler) -> Outcome:
        tainted = await self._permits.look_at_sessions(active)
        return await self._decide_call(active, proceed, tainted)

    async def _renew_rules(
        self, stored: StoredRules, active: ActiveCall, proceed: Handler
    ) -> Outcome:
        await _read_again(stored, self._tool)
        return await self._decide_call(active, proceed)


def _judge_values(active: ActiveCall, judge: Judge) -> Ruling:
    # The function gets exactly what was judged, even if the caller changes what it sent.
    active.values = private_arguments(active.values)
    return judge(active)


async def _read_again(stored: StoredRules, tool: Tool) -> None:
    """Read the stored rules again; a call does not run if they can't be read."""
    try:
        await stored.renew()
    except StoreError as error:
        raise NotChecked(tool.name, str(error)) from error


def decision_on(
    parked: Parked,
    approved: bool,
    arguments_digest: str,
    by: str | None,
    reason: str | None = None,
    answers: Mapping[str, Any] | None = None,
) -> Decision:
    """A decision bound to the tool as it was parked and to exactly these arguments."""
    return Decision(
        approved,
        parked.fingerprint,
        arguments_digest,
        at=time.time(),
        by=by,
        reason=reason,
        answers=answers,
        state=parked.state,
        claims=parked.claims,
    )


def _cover_arguments(active: ActiveCall) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments to keep, and the arguments and repairs as a person may see them."""
    arguments = private_arguments(active.arguments)
    # A program may send a `Secret` for an argument whose type does not say so.
    sent = argument_secrets(arguments)
    if sent:
        active.keep_secret(tuple(sent))
    secrets = active.secrets
    covered = redact_data(arguments, secrets) if secrets else None
    return arguments, {
        "covered": covered,
        "repairs": redact_data(active.noted("repairs", []), secrets),
    }


async def _ask_approver(
    approver: Approver | None, parked: Parked, secrets: tuple[str, ...]
) -> bool | None:
    if approver is None:
        return None
    try:
        answer = approver(parked.copy())
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception:
        # The approver is other people's code. If it fails, the call is parked, and nothing is lost.
        failure = redact_text(traceback.format_exc(), secrets)
        _log.error("The approver failed on call %s; it is parked\n%s", parked.id, failure)
        return None
    return answer if isinstance(answer, bool) else None


def _find_disagreement(active: ActiveCall) -> str | None:
    """Why the decision on a call does not let it run, or None if it does."""
    decision = active.call.decision
    assert decision is not None
    if not decision.approved:
        return decision.reason or "a person said no"
    if decision.fingerprint != active.tool.fingerprint:
        return "the tool has changed since the call was approved"
    if decision.arguments_digest != digest_of(active.call.arguments):
        return "the arguments are not those that were approved"
    return None


def _shown_words(active: ActiveCall) -> str:
    """The call in words, its secrets covered."""
    from .explanation import shown_call  # noqa: PLC0415

    arguments, discreet = _cover_arguments(active)
    covered = discreet["covered"]
    return shown_call(active.tool.name, arguments if covered is None else covered)


def _denied_outcome(active: ActiveCall, reason: str) -> Outcome:
    return Outcome(active.call, Status.DENIED, error=CallDenied(active.tool.name, reason))


def _late_refusal(active: ActiveCall, reason: str) -> LateRefusal:
    async def outcome() -> Outcome:
        return _denied_outcome(active, reason)

    return LateRefusal(reason, outcome)
