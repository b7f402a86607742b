"""Calls: list those of now and of the past, read one, make one, stop one."""

import asyncio
from typing import Any

from pydantic import AwareDatetime, Field

from wieldy.core.call import Call, Outcome, Scope, Status
from wieldy.core.canonical import digest_of
from wieldy.core.choices import CallState
from wieldy.core.limits.call_limits import TooManyCalls
from wieldy.core.names import find_near_names
from wieldy.store.ledger_entry import Entry, read_brief_entry
from wieldy.store.ledger_pages import CallFilter, read_brief_page

from .answer_shapes import (
    SEARCH_SECONDS,
    AnswerShape,
    Cursor,
    Input,
    Limit,
    NextCursor,
    clean_text,
    make_cursor,
)
from .api_operations import Asked, NoInput, operation
from .api_problems import Problem, forbidden, not_found, too_many_calls, wrong_value
from .call_shapes import CallBrief, CallDetail, describe_call, describe_whole_call
from .live_feed import NOTHING_SHOWN

_MAX_CHILDREN = 100
_MAX_WORDS = 10
# A name in the store may be this long.
_MAX_LENGTH = 500


class CallQuery(Input):
    """Which calls to list."""

    state: CallState | None = Field(None, description="Only calls in this state.")
    tool: str | None = Field(None, max_length=1000)
    session: str | None = Field(None, max_length=_MAX_LENGTH)
    caller: str | None = Field(None, max_length=_MAX_LENGTH)
    parent: str | None = Field(None, max_length=1000, description="Only calls made by this call.")
    since: AwareDatetime | None = Field(None, description="Only calls proposed then or later.")
    until: AwareDatetime | None = Field(None, description="Only calls proposed before then.")
    search: str | None = Field(
        None,
        max_length=200,
        description="Words in the names, the error or the beginning of the arguments of a call.",
    )
    limit: Limit = 50
    cursor: Cursor = None


class CallPage(AnswerShape):
    """Calls, the newest first."""

    calls: list[CallBrief]
    next_cursor: NextCursor


class WholeQuery(Input):
    """How much to answer."""

    whole: bool = Field(False, description="Whether to answer long parts whole.")


class NewCall(Input):
    """A call to make."""

    tool: str = Field(min_length=1, max_length=1000)
    arguments: dict[str, Any] = Field(default_factory=dict)
    session: str | None = Field(
        None,
        min_length=1,
        max_length=_MAX_LENGTH,
        description="Where tokens are used, every caller has the session of their name.",
    )
    idempotency_key: str | None = Field(
        None,
        min_length=1,
        max_length=_MAX_LENGTH,
        description="Calls with the same key run once, and all get the same outcome.",
    )
    wait: float = Field(
        30, ge=1, le=300, description="Seconds to wait for the end; the call goes on after them."
    )


class Interruption(AnswerShape):
    """A call that was told to stop."""

    call_id: str
    interrupted: bool


@operation("GET", "/calls", CallPage, query=CallQuery)
async def list_calls(asked: Asked) -> CallPage:
    """List calls, the newest first.

    Callers see their own calls; those with the role approve or administer see all.
    """
    query: CallQuery = asked.query
    place = asked.place(float, str)
    caller = query.caller if asked.sees_all else asked.name
    if not asked.sees_all and query.caller not in (None, asked.name):
        return CallPage(calls=[], next_cursor=None)
    wanted = CallFilter(
        query.state,
        query.tool,
        query.session,
        query.since,
        query.until,
        caller=caller,
        parent=query.parent,
        text=None if query.search is None else clean_search(query.search),
    )
    after = None if place is None else (place[0], place[1])
    rows, stopped = await read_brief_page(
        asked.store, wanted, after, query.limit + 1, SEARCH_SECONDS
    )
    shown = rows[: query.limit]
    if len(rows) > len(shown):
        stopped = (float(shown[-1].proposed_at), shown[-1].id)
    more = None if stopped is None else make_cursor(*stopped)
    return CallPage(calls=[describe_call(read_brief_entry(row)) for row in shown], next_cursor=more)


@operation("GET", "/calls/{call_id}", CallDetail, query=WholeQuery)
async def get_call(asked: Asked) -> CallDetail:
    """Read a call with its story and the calls that its tool made."""
    entry = await find_call(asked, asked.part("call_id"))
    return await describe_entry(asked, entry, asked.query.whole)


@operation("POST", "/calls", CallDetail, body=NewCall, roles=("call",), statuses=(200, 202))
async def make_call(asked: Asked) -> tuple[int, CallDetail]:
    """Make a call, and wait for its end.

    The state of the answer is `pending` if the call waits for approval. The status is 202 if the
    call still runs.
    """
    wanted: NewCall = asked.body
    view = asked.view
    found = await view.permitted_tools([tool] if (tool := view.get(wanted.tool)) else [])
    if not found:
        others = await view.permitted_tools(view.all_visible())
        near = find_near_names(wanted.tool, [tool.name for tool in others])
        raise Problem(
            404, "not_found", "There is no such tool.", "GET /api/tools lists them.", {"near": near}
        )
    check_open(asked)
    call = Call(
        wanted.tool,
        wanted.arguments,
        Scope(session=wanted.session) if asked.name is None else asked.scope,
        idempotency_key=_own_key(asked, wanted.idempotency_key),
    )
    outcome = await asked.api.run_counted(view.call(call), wanted.wait)
    if outcome is not None and isinstance(outcome.error, TooManyCalls):
        raise too_many_calls(outcome.error)
    return await describe_outcome(asked, call, outcome)


@operation("POST", "/calls/{call_id}/interrupt", Interruption, body=NoInput)
async def interrupt_call(asked: Asked) -> Interruption:
    """Stop a running call of yours; administrators stop any."""
    entry = await find_call(asked, asked.part("call_id"))
    if not asked.has_role() and entry.call.scope.caller != asked.name:
        raise forbidden("administer")
    if not await asked.box.interrupt(entry.call.id):
        hint = "GET /api/calls/{call_id} says how it stands."
        raise Problem(409, "not_running", "The call does not run in this process.", hint)
    return Interruption(call_id=entry.call.id, interrupted=True)


def clean_search(text: str) -> str:
    """Words to search for; what no database takes is left out, and there are ten at most."""
    kept = clean_text(text.replace("\0", " "))
    return " ".join(str(kept).split()[:_MAX_WORDS])


async def find_call(asked: Asked, call_id: str) -> Entry:
    """The recorded call of this id that whoever asks may see; `Problem` otherwise."""
    entry = await asked.store.ledger.get(call_id)
    if entry is None or not asked.owns(entry.call.scope.caller):
        raise not_found("call", "GET /api/calls")
    return entry


def check_open(asked: Asked) -> None:
    """Refuse what would run a tool while the server is being stopped."""
    if asked.api.server.traffic.closing:
        hint = "Try again when the server is back."
        raise Problem(503, "stopping", "The server is shutting down.", hint)


async def describe_entry(asked: Asked, entry: Entry, whole: bool = False) -> CallDetail:
    """A recorded call in full."""
    wanted = CallFilter(parent=entry.call.id, caller=None if asked.sees_all else asked.name)
    rows = (await read_brief_page(asked.store, wanted, None, _MAX_CHILDREN + 1)).rows
    children = [describe_call(read_brief_entry(row)) for row in rows[:_MAX_CHILDREN]]
    more = len(rows) > _MAX_CHILDREN
    hub = asked.api.hub
    live = NOTHING_SHOWN if hub is None or entry.ended else hub.feed.read(entry.call.id)
    # A result may be large, and others must not wait for it.
    return await asyncio.to_thread(describe_whole_call, entry, whole, children, more, live)


async def describe_outcome(
    asked: Asked, call: Call, outcome: Outcome | None
) -> tuple[int, CallDetail]:
    """How a call stands that was just run, and the status that says whether it still runs."""
    found = call.id if outcome is None else outcome.call.id
    entry = await asked.store.ledger.get(found) if asked.box.recorded else None
    if entry is not None:
        status = 202 if entry.state in ("started", "approved") else 200
        return status, await describe_entry(asked, entry)
    known = Outcome(call, Status.PENDING) if outcome is None else outcome
    return 202 if outcome is None else 200, describe_whole_call(known)


def _own_key(asked: Asked, key: str | None) -> str | None:
    """The key under which a call is remembered; callers can't meet each other's keys."""
    if key is None:
        return None
    if not asked.box.recorded:
        raise wrong_value("An idempotency_key needs a server with a store.")
    return key if asked.name is None else f"api-{digest_of([asked.name, key])}"
