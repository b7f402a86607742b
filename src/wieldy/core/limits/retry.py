"""Repeat failed attempts, with growing pauses, of tools that may safely run twice."""

import asyncio
from copy import copy

from wieldy.core.active_call import ActiveCall, Handler, Middleware, Veto
from wieldy.core.arguments.private_copy import private_arguments
from wieldy.core.call import Outcome, asked_for
from wieldy.core.errors import CallTimeout, ServiceError, ToolFailed

_FIRST_PAUSE = 0.1
_MAX_PAUSE = 10.0


def retry_failures(retries: int, forbids: Veto) -> Middleware:
    """A middleware that repeats a failed attempt, never after something was shown.

    `forbids` returns the reason if a rule made meanwhile forbids the call.
    """
    # Loaded with the first tool that retries, to keep `import wieldy` light.
    from random import uniform  # noqa: PLC0415

    async def try_again(active: ActiveCall, proceed: Handler) -> Outcome:
        for attempt in range(1, retries + 2):
            trial = _make_trial(active, attempt)
            try:
                outcome = await proceed(trial)
            except BaseException:
                _adopt_trial(active, trial)
                raise
            if attempt > retries or not _worth_another(active, trial, outcome):
                break
            trial.stopped = True
            _adopt_origin(active, trial)
            # The cost of a failed attempt counts too.
            if trial.noted("cost"):
                active.note("cost", trial.noted("cost"))
            pause = min(_FIRST_PAUSE * 2 ** (attempt - 1), _MAX_PAUSE)
            await asyncio.sleep(max(pause * uniform(0.5, 1.0), _asked_pause(outcome)))
            why_not = await forbids(active)
            if why_not is not None:
                trial.note("not_retried", why_not.reason)
                break
        _adopt_trial(active, trial)
        return outcome

    return try_again


def _make_trial(active: ActiveCall, attempt: int) -> ActiveCall:
    """A call for one attempt, so that an attempt left behind can't affect the next one."""
    trial = copy(active)
    trial.values = private_arguments(active.values)
    trial.metadata = dict(active.metadata or {})
    trial.blocks = None if active.blocks is None else list(active.blocks)
    trial.attempts = attempt
    return trial


def _worth_another(active: ActiveCall, trial: ActiveCall, outcome: Outcome) -> bool:
    nothing_shown = len(trial.blocks or ()) == len(active.blocks or ())
    failed = isinstance(outcome.error, ToolFailed | CallTimeout) and _may_pass(outcome)
    safe = active.tool.retryable or not _was_killed(active, outcome)
    return failed and safe and nothing_shown and not active.cancel_requested()


def _was_killed(active: ActiveCall, outcome: Outcome) -> bool:
    """Whether the function was ended somewhere on its way, so that nobody knows what it did.

    A tool that is neither read-only nor idempotent is then not tried again, `retry_unsafe`
    or not: that is for functions that say themselves that they have failed.
    """
    if isinstance(outcome.error, CallTimeout):
        return active.tool.limits.isolation == "process"
    return bool(getattr(getattr(outcome.error, "original", None), "killed", False))


def _may_pass(outcome: Outcome) -> bool:
    """Whether repeating the attempt may help; a service says so itself."""
    original = getattr(outcome.error, "original", None)
    if not isinstance(original, ServiceError):
        # A tool that asks for input has not failed.
        return asked_for(outcome) is None
    return original.temporary and (original.retry_after or 0.0) <= _MAX_PAUSE


def _asked_pause(outcome: Outcome) -> float:
    original = getattr(outcome.error, "original", None)
    return (original.retry_after or 0.0) if isinstance(original, ServiceError) else 0.0


def _adopt_trial(active: ActiveCall, trial: ActiveCall) -> None:
    """Take over what the final attempt has shown and noted."""
    active.attempts, active.blocks, active.streamed = trial.attempts, trial.blocks, trial.streamed
    active.metadata = trial.metadata or None
    _adopt_origin(active, trial)
    if trial.secrets != active.secrets:
        active.keep_secret(trial.secrets)
    active.eventful = active.eventful or trial.eventful
    if trial.attempts > 1:
        active.note("attempts", trial.attempts)


def _adopt_origin(active: ActiveCall, trial: ActiveCall) -> None:
    """What an attempt has taken in from outside is in the call, also if that attempt failed."""
    if trial.outside is not None:
        active.come_from_outside()
