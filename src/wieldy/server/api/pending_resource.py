"""Calls that wait for a person: list them, and approve, deny or answer them."""

from typing import Any

from pydantic import Field

from wieldy.core.call import Call, Outcome
from wieldy.core.errors import AlreadyDecided, CallNotFound
from wieldy.core.permission.parked import Parked

from .answer_shapes import (
    AnswerShape,
    Cursor,
    CutPart,
    Input,
    JsonValue,
    Limit,
    Moment,
    PlainText,
    cut_long,
    make_cursor,
)
from .api_operations import Asked, operation
from .api_problems import Problem, forbidden, not_found, wrong_value
from .call_resource import WholeQuery, check_open, describe_outcome
from .call_shapes import CallDetail

_WAIT = Field(30, ge=1, le=300, description="Seconds to wait for the end of the call.")
_LISTING = "GET /api/pending"


class PendingQuery(Input):
    """Which waiting calls to list."""

    agent: str | None = Field(None, max_length=500)
    session: str | None = Field(None, max_length=500)
    limit: Limit = 100
    cursor: Cursor = None


class PendingCall(AnswerShape):
    """A call that waits for a decision or for answers."""

    call_id: PlainText
    tool: PlainText
    arguments: JsonValue = Field(description="With every secret covered.")
    reason: PlainText | None = Field(description="Why a person is asked.")
    requests: JsonValue = Field(
        description="The questions by name if the call waits for answers, otherwise null."
    )
    repairs: JsonValue
    caller: PlainText | None
    agent: PlainText | None
    session: PlainText | None
    parent: PlainText | None
    run: PlainText | None
    proposed_at: Moment
    expires_at: Moment | None
    cut: list[CutPart]


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
    waiting = await asked.box.pending(agent=query.agent, session=query.session)
    mine = sorted((p for p in waiting if asked.owns(p.scope.caller)), key=_place_of)
    after = [parked for parked in mine if place is None or _place_of(parked) > place]
    shown = after[: query.limit]
    more = make_cursor(*_place_of(shown[-1])) if len(after) > len(shown) else None
    return PendingPage(pending=[_describe(parked, False) for parked in shown], next_cursor=more)


@operation("GET", "/pending/{call_id}", PendingCall, query=WholeQuery)
async def get_pending(asked: Asked) -> PendingCall:
    """Read one call that waits for a person."""
    call_id = asked.part("call_id")
    for parked in await asked.box.pending():
        if parked.id == call_id and asked.owns(parked.scope.caller):
            return _describe(parked, asked.query.whole)
    raise not_found("waiting call", _LISTING)


@operation("POST", "/pending/{call_id}/approve", CallDetail, body=Approval, statuses=(200, 202))
async def approve_call(asked: Asked) -> tuple[int, CallDetail]:
    """Approve a waiting call, as it is or with other arguments, and wait for its end.

    If somebody else has decided, the status is 409 and the details say who.
    """
    parked = await _find_parked(asked)
    _check_decider(asked, parked)
    given: Approval = asked.body
    work = asked.box.approve(
        parked.id, by=asked.name, arguments=given.arguments, reason=given.reason
    )
    return await _run_decided(asked, parked.call, work, given.wait)


@operation("POST", "/pending/{call_id}/deny", CallDetail, body=Denial, statuses=(200, 202))
async def deny_call(asked: Asked) -> tuple[int, CallDetail]:
    """Deny a waiting call, which then never runs."""
    parked = await _find_parked(asked)
    _check_decider(asked, parked, denies=True)
    work = asked.box.deny(parked.id, by=asked.name, reason=asked.body.reason)
    return await _run_decided(asked, parked.call, work, 30)


@operation("POST", "/pending/{call_id}/answer", CallDetail, body=GivenAnswers, statuses=(200, 202))
async def answer_call(asked: Asked) -> tuple[int, CallDetail]:
    """AnswerShape the questions of a tool, and wait for the end of its call.

    Callers answer the questions of their own calls.
    """
    parked = await _find_parked(asked)
    if not asked.has_role("approve") and not asked.has_role("call"):
        raise forbidden("call or approve")
    given: GivenAnswers = asked.body
    if parked.requests is None:
        raise wrong_value("This call waits for a decision, not for answers.")
    work = asked.box.answer(parked.id, given.answers, by=asked.name)
    return await _run_decided(asked, parked.call, work, given.wait)


async def _find_parked(asked: Asked) -> Parked:
    check_open(asked)
    try:
        parked = await asked.box.desk.find(asked.part("call_id"))
    except CallNotFound:
        raise not_found("waiting call", _LISTING) from None
    if not asked.owns(parked.scope.caller):
        raise not_found("waiting call", _LISTING)
    return parked


def _check_decider(asked: Asked, parked: Parked, denies: bool = False) -> None:
    if not asked.has_role("approve"):
        raise forbidden("approve")
    own = asked.name is not None and parked.scope.caller == asked.name
    if own and not denies and not asked.api.server.self_approval:
        hint = "Somebody else with the role approve has to decide."
        raise Problem(403, "own_call", "Nobody approves their own calls here.", hint)


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


def _describe(parked: Parked, whole: bool) -> PendingCall:
    facts, cuts = parked.to_dict(), list[CutPart]()
    parts = ("arguments", "requests", "repairs")
    facts |= {name: cut_long(name, facts[name], whole, cuts) for name in parts}
    facts.pop("waits_for", None)
    return PendingCall(**facts, cut=cuts)


def _place_of(parked: Parked) -> tuple[float, str]:
    return float(parked.at), parked.id
