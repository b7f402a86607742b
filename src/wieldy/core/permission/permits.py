"""Hold a call until it is allowed to run."""

import asyncio
import inspect
import logging
import time
import traceback
import weakref
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any, get_args

from wieldy.core.arguments.private_copy import private_arguments
from wieldy.core.call import Decision, Outcome, Scope, Status
from wieldy.core.canonical import digest_of
from wieldy.core.choices import PermissionMode
from wieldy.core.errors import CallDenied, CallUnknown, InputNeeded, NotChecked, StoreError
from wieldy.core.run import Handler, Layer, Objection, Run
from wieldy.core.schema.signature import known_values
from wieldy.core.secrets.credential import argument_secrets
from wieldy.core.secrets.secret import redact_data, redact_text
from wieldy.core.tool import Permission, Tool

from .parked import Approvals, Parked, make_receipt
from .rules import Rule, Rules, StoredRules, Verdict, rules_concerning

Approver = Callable[[Parked], Awaitable[bool | None] | bool | None]
MODES = get_args(PermissionMode)
_VERDICTS = {
    Verdict.DENY: Permission.DENY,
    Verdict.ASK: Permission.CONFIRM,
    Verdict.ALLOW: Permission.AUTO,
}
_EVERY = tuple(Verdict)
Judge = Callable[[Run], tuple[Permission, str]]
_AUTO = Permission.AUTO
_log = logging.getLogger("wieldy")


class Permits:
    """What decides on calls: the mode, the rules, the approver, and the parked calls."""

    def __init__(
        self,
        rules: Rules,
        approvals: Approvals,
        *,
        mode: str = "ask",
        approver: Approver | None = None,
        ttl: float | None = None,
        stored: StoredRules | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"permission_mode must be one of {', '.join(MODES)}, not {mode!r}")
        self.mode = mode
        self.rules = rules
        self.approvals = approvals
        self.approver = approver
        self.ttl = ttl
        self.stored = stored
        self._overdue: weakref.WeakMethod[Callable[[Parked], None]] | None = None

    def tell_overdue(self, told: Callable[[Parked], None]) -> None:
        """Tell a method of each parked call whose time is up, as long as its object is there."""
        self._overdue = weakref.WeakMethod(told)

    def guard(self, tool: Tool, always: bool = False) -> Layer | None:
        """What this tool needs around its calls, or None if they always run.

        With `always` there is something in any case: what is in front of it may wait,
        and a rule made meanwhile counts.
        """
        known = self.edition, self.judge(tool)
        needed = always or self.stored is not None or known[1] is not None
        return _Guard(self, tool, known).around if needed else None

    async def callable_tools(self, tools: Iterable[Tool], scope: Scope) -> list[Tool]:
        """Those of the tools that whoever has this scope can call with some arguments.

        The others are switched off, denied by the mode, or by a rule whatever the arguments.
        """
        if self.stored is not None and self._outdated():
            # A call is refused while the rules can't be read; what is known is enough to list.
            with suppress(StoreError):
                await self.stored.renew()
        denials = [
            rule
            for rule in self._every_rule()
            if rule.verdict is Verdict.DENY and not rule.where and rule.holds_for(scope)
        ]
        return [
            tool
            for tool in tools
            if _settled(tool, self.mode) is not Permission.DENY
            and not any(rule.concerns(tool) for rule in denials)
        ]

    async def rules_in_force(self) -> Hashable:
        """What differs as soon as other rules are in force; stored ones are read again."""
        if self.stored is not None:
            await self.stored.renew()
        now = time.time()
        timed = [rule.expires_at for rule in self._every_rule() if rule.expires_at is not None]
        return self.edition, sum(ends > now for ends in timed)

    async def forbids(self, run: Run) -> str | None:
        """Why a call that has waited since it began may not go on; None if it may."""
        try:
            if self._outdated():
                assert self.stored is not None
                await self.stored.renew()
        except StoreError as error:
            return str(error)
        judge = self.judge(run.tool)
        return None if judge is None else _objection(judge, run)

    def late_check(self, tool: Tool) -> Objection:
        """What a worker asks just before it enters the function: the call may have waited for it.

        It costs next to nothing where no rule was made since the call was judged.
        """
        known: tuple[int, Judge | None] = -1, None

        def check(run: Run) -> str | None:
            nonlocal known
            if self._outdated():
                return asyncio.run_coroutine_threadsafe(self.forbids(run), run.loop).result()
            edition, judge = known
            if edition != self.edition:
                known = edition, judge = self.edition, self.judge(tool)
            return None if judge is None or run.judged == edition else _objection(judge, run)

        return check

    def _outdated(self) -> bool:
        return self.stored is not None and time.monotonic() >= self.stored.good_until

    @property
    def edition(self) -> int:
        """A number that grows with every change of the rules, here or in the store."""
        return self.rules.edition + (0 if self.stored is None else self.stored.edition)

    def judge(self, tool: Tool) -> "Judge | None":
        """What says whether a call of this tool may run, or None where every call may."""
        return _judge(tool, self._every_rule(), self.mode)

    def _every_rule(self) -> Iterable[Rule]:
        return self.rules if self.stored is None else [*self.rules, *self.stored]

    async def withhold(self, run: Run, proceed: Handler, reason: str, edition: int) -> Outcome:
        """Let a call run only if somebody has said yes to it."""
        if run.permission is Permission.DENY:
            return _denied(run, reason)
        if run.call.decision is not None:
            return await _decided(run, proceed)
        if run.agreed == edition:
            return await proceed(run)
        return await self._ask(run, proceed, reason, edition)

    async def _ask(self, run: Run, proceed: Handler, reason: str, edition: int) -> Outcome:
        """Ask the approver, then park: the same call, handed back as pending."""
        expires_at = None if self.ttl is None else time.time() + self.ttl
        arguments, discreet = _discreetly(run)
        parked = Parked(
            run.call.replace(arguments=arguments),
            run.tool.fingerprint,
            reason=reason,
            expires_at=expires_at,
            deps=run.deps,
            **discreet,
        )
        # The approver has a copy of its own: what it may do to that, nobody else sees.
        answer = await _answer(self.approver, parked, run.secrets)
        if answer is True:
            run.agreed = edition
            return await proceed(run)
        if answer is False:
            return _denied(run, "the approver said no")
        if not await self.approvals.park(parked, run.secrets):
            return _denied(run, "a call with this id waits already, or was decided")
        self._watch_over(run, parked)
        return make_receipt(parked)

    async def pause(self, run: Run, needed: InputNeeded) -> Outcome:
        """Hand the call back as pending until somebody has answered its tool."""
        arguments, discreet = _discreetly(run)
        parked = Parked(
            run.call.replace(arguments=arguments, decision=None),
            run.tool.fingerprint,
            reason=redact_text(str(needed), run.secrets),
            expires_at=None if self.ttl is None else time.time() + self.ttl,
            deps=run.deps,
            requests=redact_data(needed.requests, run.secrets),
            state=needed.state,
            **discreet,
        )
        if not await self.approvals.suspend(parked, run):
            raise CallUnknown(run.tool.name, "another process took it over before it had answers")
        self._watch_over(run, parked)
        return make_receipt(parked)

    def _watch_over(self, run: Run, parked: Parked) -> None:
        """Whoever looks at an overdue call ends it; the timer is for when nobody looks."""
        if self.ttl is not None and self._overdue is not None:
            run.loop.call_later(self.ttl, _tell_of, self._overdue, parked)


def _tell_of(method: "weakref.WeakMethod[Callable[[Parked], None]]", parked: Parked) -> None:
    told = method()
    if told is not None:
        told(parked)


class _Guard:
    """Holds the calls of one tool until they may run."""

    def __init__(self, permits: Permits, tool: Tool, known: "tuple[int, Judge | None]") -> None:
        self._permits = permits
        self._tool = tool
        # An edition of the rules and who judges by it, as one: other threads look at them too.
        self.known = known

    def around(self, proceed: Handler) -> Handler:
        """A handler that proceeds where that is permitted."""
        rules, stored = self._permits.rules, self._permits.stored
        if stored is None:
            return lambda run: self._decide(run, proceed)

        def require_permission(run: Run) -> Awaitable[Outcome]:
            if time.monotonic() >= stored.good_until:
                return self._renew(stored, run, proceed)
            # Where no rule speaks of the tool there is nothing to decide.
            if self.known == (rules.edition + stored.edition, None):
                return proceed(run)
            return self._decide(run, proceed)

        return require_permission

    def _decide(self, run: Run, proceed: Handler) -> Awaitable[Outcome]:
        permits = self._permits
        edition, judge = self.known
        if edition != permits.edition:
            self.known = edition, judge = permits.edition, permits.judge(self._tool)
        if judge is None:
            return proceed(run)
        # What is judged is what the function gets, whatever becomes of what was sent.
        run.values, run.judged = private_arguments(run.values), edition
        permission, reason = judge(run)
        if permission is _AUTO:
            return proceed(run)
        run.permission = permission
        return permits.withhold(run, proceed, reason, edition)

    async def _renew(self, stored: StoredRules, run: Run, proceed: Handler) -> Outcome:
        """Read the stored rules again; nothing runs past a rule that can't be read."""
        try:
            await stored.renew()
        except StoreError as error:
            raise NotChecked(self._tool.name, str(error)) from error
        return await self._decide(run, proceed)


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
    )


def _discreetly(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments to be kept, and what a person may see of them and of their repairs."""
    arguments = private_arguments(run.arguments)
    # A program may send a secret where no type says so.
    sent = argument_secrets(arguments)
    if sent:
        run.keep_secret(tuple(sent))
    secrets = run.secrets
    covered = redact_data(arguments, secrets) if secrets else None
    return arguments, {
        "covered": covered,
        "repairs": redact_data(run.noted("repairs", []), secrets),
    }


async def _answer(
    approver: Approver | None, parked: Parked, secrets: tuple[str, ...]
) -> bool | None:
    if approver is None:
        return None
    try:
        answer = approver(parked.copy())
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception:
        # The approver is other people's code; undecided is the answer that loses nothing.
        failure = redact_text(traceback.format_exc(), secrets)
        _log.error("The approver failed on call %s; it is parked\n%s", parked.id, failure)
        return None
    return answer if isinstance(answer, bool) else None


async def _decided(run: Run, proceed: Handler) -> Outcome:
    decision = run.call.decision
    assert decision is not None
    if not decision.approved:
        return _denied(run, decision.reason or "a person said no")
    if decision.fingerprint != run.tool.fingerprint:
        return _denied(run, "the tool has changed since the call was approved")
    if decision.arguments_digest != digest_of(run.call.arguments):
        return _denied(run, "the arguments are not those that were approved")
    return await proceed(run)


def _judge(tool: Tool, rules: Iterable[Rule], mode: str) -> Judge | None:
    """What says whether a call may run, or None where every call may.

    The tool's own DENY counts first, then deny, ask and allow rules, then the
    tool's own permission. Where the tool is held back, only a denial is stronger.
    """
    settled = _settled(tool, mode)
    if settled is Permission.DENY:
        own = tool.permission is Permission.DENY
        reason = "the tool is switched off" if own else "only read-only tools may run"
        return lambda run: (settled, reason)
    heeded = _heeded(tool, mode)
    verdicts = [
        (
            None if rule.always else rule.holds_for,
            rule.matches,
            _VERDICTS[rule.verdict],
            rule.reason or f"the rule {rule}",
        )
        for rule in rules_concerning(rules, tool)
        if rule.verdict in heeded
        and (rule.fingerprints is None or tool.fingerprint in rule.fingerprints)
    ]
    if not verdicts and settled is _AUTO:
        return None
    otherwise = tool.hold.reason if tool.hold else "the tool asks for confirmation"
    names = tool.argument_names
    known = known_values(tool.function)

    def judge(run: Run) -> tuple[Permission, str]:
        values = run.values
        if not known.keys() <= values.keys():
            # What the function fills in by itself counts like what was sent.
            values = {**known, **values}
        for holds_for, matches, permission, reason in verdicts:
            if holds_for is not None and not holds_for(run.call.scope):
                continue
            if matches(values, names):
                return permission, reason
        return settled, otherwise

    return judge


def _objection(judge: Judge, run: Run) -> str | None:
    """Why a call that has begun may not go on: it is forbidden, or should have been asked about."""
    permission, reason = judge(run)
    asked = run.agreed is not None or run.call.decision is not None
    fine = permission is _AUTO or (permission is Permission.CONFIRM and asked)
    return None if fine else reason


def _heeded(tool: Tool, mode: str) -> tuple[Verdict, ...]:
    """The kinds of rules that can change what is settled."""
    if tool.hold is not None:
        return (Verdict.DENY,)
    return (Verdict.DENY, Verdict.ALLOW) if mode == "bypass" else _EVERY


def _settled(tool: Tool, mode: str) -> Permission:
    """What the tool itself and the mode say, before any rule."""
    if tool.permission is Permission.DENY or (mode == "read-only" and not tool.read_only):
        return Permission.DENY
    if tool.hold is not None:
        return Permission.CONFIRM
    if mode == "bypass":
        return Permission.AUTO
    return tool.permission


def _denied(run: Run, reason: str) -> Outcome:
    return Outcome(run.call, Status.DENIED, error=CallDenied(run.tool.name, reason))
