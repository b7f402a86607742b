"""Sessions: list the chat histories of the store, and read one."""

from pydantic import Field

from wieldy.store.sessions import Session

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
from .api_problems import not_found


class SessionsQuery(Input):
    """How many sessions to list."""

    limit: Limit = 50
    cursor: Cursor = None


class SessionBrief(AnswerShape):
    """A chat history in a list."""

    session: PlainText
    messages: int
    created_at: Moment
    updated_at: Moment


class SessionPage(AnswerShape):
    """Chat histories, the one written to last first."""

    sessions: list[SessionBrief]
    next_cursor: str | None


class SessionQuery(Input):
    """Which messages to read."""

    limit: Limit = 50
    upto: int | None = Field(
        None, ge=0, le=2**62 - 1, description="Only messages before this position."
    )
    whole: bool = Field(False, description="Whether to answer long messages whole.")


class SessionDetail(SessionBrief):
    """A chat history with its last messages, in order."""

    shown: list[JsonValue]
    cut: list[CutPart]


@operation("GET", "/sessions", SessionPage, query=SessionsQuery)
async def list_sessions(asked: Asked) -> SessionPage:
    """List chat histories, the one written to last first.

    Callers see the session of their name; with the role approve or administer you see all.
    """
    query: SessionsQuery = asked.query
    place = asked.place(float, str)
    sessions = asked.store.sessions
    if asked.sees_all:
        after = None if place is None else (place[0], place[1])
        found = await sessions.list(query.limit + 1, after=after)
    else:
        own = await sessions.get(asked.name or "")
        found = [] if own is None or place is not None else [own]
    shown = found[: query.limit]
    last = shown[-1] if len(found) > len(shown) else None
    more = None if last is None else make_cursor(float(last.updated_at), last.id)
    return SessionPage(sessions=[_describe(each) for each in shown], next_cursor=more)


@operation("GET", "/sessions/{session}", SessionDetail, query=SessionQuery)
async def get_session(asked: Asked) -> SessionDetail:
    """Read the last messages of a chat history."""
    query: SessionQuery = asked.query
    session = asked.part("session")
    found = await asked.store.sessions.get(session) if asked.owns(session) else None
    if found is None:
        raise not_found("session", "GET /api/sessions")
    messages = await asked.store.sessions.read(session, query.limit, upto=query.upto)
    cuts: list[CutPart] = []
    shown = [
        cut_long(f"shown.{place}", message, query.whole, cuts)
        for place, message in enumerate(messages)
    ]
    return SessionDetail(**_describe(found).model_dump(), shown=shown, cut=cuts)


def _describe(session: Session) -> SessionBrief:
    facts = {name: getattr(session, name) for name in ("messages", "created_at", "updated_at")}
    return SessionBrief.model_validate({"session": session.id, **facts})
