"""Calls that wait for a person: list them, and approve, deny or answer them."""

import asyncio
from typing import Any

from pydantic import Field

from wieldy.core.call import Call, Outcome
from wieldy.core.errors import AlreadyDecided
from wieldy.core.permission.deciders import MayNotDecide, check_approver, check_denier
from wieldy.core.permission.parked import Parked, ParkedFilter

from .answer_shapes import AnswerShape, Cursor, Input, Limit, make_cursor
from .api_operations import Asked, operation
from .api_problems import Problem, forbidden, not_found, unknown_person, wrong_value
from .argument_resource import find_covered, find_waiting
from .call_resource import WholeQuery, check_open, describe_outcome
from .call_shapes import CallDetail
from .pending_detail import (
    PendingCall,
    PendingDetail,
    describe_parked,
    describe_pending,
    has_changed,
)

_WAIT = Field(30, ge=1, le=300, description="Seconds to wait for the end of the call.")
_LISTING = "GET /api/pending"


class PendingQuery(Input):
    """Which waiting calls to list."""

    agent: str | None = Field(None, max_length=500)
    session: str | None = Field(None, max_length=500)
    limit: Limit = 100
    cursor: Cursor = None


class PendingPage(AnswerShape):
    """Waiting calls, the oldest first."""

    pending: list[PendingCall]
    next_cursor: str | None


class Approval(Input):
    """An approval."""

    arguments: dict[str, Any] | None = Field(
        None, description="Arguments to run with instead of those of the call."
    )
    reason: str | None = Field(None, max_length=10_000)
    wait: float = _WAIT


class Denial(Input):
    """A denial."""

    reason: str | None = Field(None, max_length=10_000, description="Why; the model is told.")


class GivenAnswers(Input):
    """Answers to the questions of a tool."""

    answers: dict[str, Any] = Field(description="An answer for each name in `requests`.")
    wait: float = _WAIT


@operation("GET", "/pending", PendingPage, query=PendingQuery)
async def list_pending(asked: Asked) -> PendingPage:
    """List the calls that wait for a person, the oldest first.

    Callers see their own calls; those with the role approve or administer see all.
    """
    query: PendingQuery = asked.query
    place = asked.place(float, str)
    caller = None if asked.sees_all else asked.name
    after = None if place is None else (place[0], place[1])
    wanted = ParkedFilter(query.agent, query.session, caller, after=after, limit=query.limit + 1)
    found = await asked.box.desk.pending(wanted)
    shown = found[: query.limit]
    last = shown[-1] if len(found) > len(shown) else None
    more = None if last is None else make_cursor(float(last.at), last.id)
    # Arguments may be large, and others must not wait for them.
    told = await asyncio.to_thread(lambda: [describe_parked(each, False) for each in shown])
    return PendingPage(pending=told, next_cursor=more)


@operation("GET", "/pending/{call_id}", PendingDetail, query=WholeQuery)
async def get_pending(asked: Asked) -> PendingDetail:
    """Read one call that waits for a person, and what there is to know to decide on it."""
    call_id = asked.part("call_id")
    for parked in await asked.box.desk.pending(ParkedFilter(call_id=call_id)):
        if asked.owns(parked.scope.caller):
            decidable = _may_approve(asked, parked)
            return await describe_pending(asked, parked, asked.query.whole, decidable)
    raise not_found("waiting call", _LISTING)


@operation("POST", "/pending/{call_id}/approve", CallDetail, body=Approval, statuses=(200, 202))
async def approve_call(asked: Asked) -> tuple[int, CallDetail]:
    """Approve a waiting call, as it is or with other arguments, and wait for its end.

    If somebody else has decided, the status is 409 and the details say who. It is also 409 if the
    tool has changed since the call was made, which then never runs.
    """
    parked = await _find_parked(asked)
    _check_approver(asked, parked)
    await _check_tool(asked, parked)
    given: Approval = asked.body
    covered = [] if given.arguments is None else find_covered(parked, given.arguments)
    if covered:
        said = "Secrets are covered there, and are not sent along with edited arguments"
        raise wrong_value(f"{said}: {', '.join(covered[:5])}.", covered=covered[:50])
    work = asked.box.approve(
        parked.id, by=asked.name, arguments=given.arguments, reason=given.reason
    )
    return await _run_decided(asked, parked.call, work, given.wait)


@operation("POST", "/pending/{call_id}/deny", CallDetail, body=Denial, statuses=(200, 202))
async def deny_call(asked: Asked) -> tuple[int, CallDetail]:
    """Deny a waiting call, which then never runs. Callers withdraw calls of their own so."""
    parked = await _find_parked(asked)
    check_denier(parked.call, asked.identity)
    work = asked.box.deny(parked.id, by=asked.name, reason=asked.body.reason)
    return await _run_decided(asked, parked.call, work, 30)


@operation("POST", "/pending/{call_id}/answer", CallDetail, body=GivenAnswers, statuses=(200, 202))
async def answer_call(asked: Asked) -> tuple[int, CallDetail]:
    """Answer the questions of a tool, and wait for the end of its call.

    Callers answer the questions of their own calls.
    """
    parked = await _find_parked(asked)
    if not asked.has_role("approve") and parked.scope.caller != asked.name:
        raise forbidden("approve") if asked.identity else unknown_person()
    given: GivenAnswers = asked.body
    if parked.requests is None:
        raise wrong_value("This call waits for a decision, not for answers.")
    await _check_tool(asked, parked)
    work = asked.box.answer(parked.id, given.answers, by=asked.name)
    return await _run_decided(asked, parked.call, work, given.wait)


async def _find_parked(asked: Asked) -> Parked:
    check_open(asked)
    return await find_waiting(asked, asked.part("call_id"))


def _check_approver(asked: Asked, parked: Parked) -> None:
    check_approver(parked.call, asked.identity, asked.api.server.self_approval)


async def _check_tool(asked: Asked, parked: Parked) -> None:
    """Refuse to let a waiting call run whose tool here is another one by now."""
    if not has_changed(asked, parked):
        return
    entry = await asked.store.ledger.get(parked.id) if asked.box.recorded else None
    if entry is None or entry.state == "pending":
        said = "The tool has changed since this call was made, so the call can't run."
        hint = "Deny it. A new call asks about the tool as it is now."
        raise Problem(409, "tool_changed", said, hint)


def _may_approve(asked: Asked, parked: Parked) -> bool:
    try:
        _check_approver(asked, parked)
    except MayNotDecide:
        return False
    return True


async def _run_decided(
    asked: Asked, call: Call, work: Any, seconds: float
) -> tuple[int, CallDetail]:
    """Decide on a call and let it run, unless somebody else has decided before."""
    try:
        await _check_first(asked, call.id)
    except BaseException:
        work.close()
        raise
    outcome: Outcome | None = await asked.api.run_counted(work, seconds)
    if outcome is None:
        await _check_first(asked, call.id)
    else:
        _check_author(asked, outcome)
    return await describe_outcome(asked, call, outcome)


async def _check_first(asked: Asked, call_id: str) -> None:
    """Raise `AlreadyDecided` if somebody else has decided on a call, without waiting for it."""
    if asked.box.recorded:
        entry = await asked.store.ledger.get(call_id)
        if entry is not None and entry.state != "pending":
            _check_author(asked, entry)


def _check_author(asked: Asked, outcome: Outcome) -> None:
    made = outcome.call.decision
    if made is not None and made.by != asked.name:
        verdict = "approved" if made.approved else "denied"
        raise AlreadyDecided(outcome.call.id, verdict, made.by, made.reason)
