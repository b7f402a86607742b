"""Chat histories: lists of messages that only grow, each under a session's id."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, literal, select, tuple_

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.call import check_id
from wieldy.core.errors import CorruptRow, NotKept, SessionTaken

from .databases.damaged_values import DamagedText
from .databases.prepared_statements import insert_new, insert_or_update
from .databases.tables import messages, sessions
from .store_access import StoreAccess

FORMAT = "wieldy.sessions"
VERSION = 1
_MAX_COUNT = 2**62


class Session:
    """A chat history, as `Sessions.list` shows it."""

    __slots__ = ("created_at", "id", "messages", "updated_at")

    def __init__(self, row: Any) -> None:
        self.id: str = row.id
        self.messages: int = row.next - row.first
        self.created_at: float = row.created_at
        self.updated_at: float = row.updated_at

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {self.messages} messages)"


class Sessions:
    """The chat histories of a store. A message is any JSON value.

    A message's position is its number, counted from the first message that the session ever had.
    """

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def append(self, session: str, *messages: Any, once: str | None = None) -> int:
        """Add messages at the end, all together and in order.

        Args:
            session: The session's id; a new one begins a session.
            *messages: The messages.
            once: A name for this append, of up to 32 characters. If the session has messages that
                were appended under the same name, nothing is added.

        Returns:
            The position after the last message.

        Raises:
            ValueError: The id is empty or too long, or a message can't be JSON.

        Example:
            `await box.sessions.append("ann", {"role": "user", "content": "Hello"})`
        """
        check_id("a session", session)
        texts = [_message_text(message, f"message {n}") for n, message in enumerate(messages)]
        if once is not None and not 0 < len(once) <= 32:
            raise ValueError(f"once is a name of 1 to 32 characters, not {once!r:.200}")
        attempt = _Append(session, texts, once)
        return await self._store.write(attempt.run)

    async def read(
        self, session: str, limit: int | None = None, *, upto: int | None = None
    ) -> list[Any]:
        """Read the messages in order.

        Args:
            session: The session's id.
            limit: Only the last messages, this many; None reads all.
            upto: Only messages before this position.

        Returns:
            The messages, none if there is no such session.

        Example:
            `history = await box.sessions.read("ann", limit=20)`
        """
        limit, upto = _check_count("limit", limit), _check_count("upto", upto)
        query = select(messages).where(messages.c.session == session)
        if upto is not None:
            query = query.where(messages.c.position < upto)
        query = query.order_by(messages.c.position.desc()).limit(limit)
        found = await self._store.read(lambda connection: connection.execute(query).all())
        return [_read_message(row) for row in reversed(found)]

    async def fork(self, session: str, new: str, upto: int | None = None) -> int:
        """Begin a session with the messages of another one.

        Args:
            session: The id of the session to copy.
            new: The id of the new session.
            upto: Copy only messages before this position.

        Returns:
            The position after the last message.

        Raises:
            SessionTaken: There is a session `new` already.
            NotKept: There is no session of this id.

        Example:
            `await box.sessions.fork("ann", "ann-again", upto=4)`
        """
        check_id("a session", new)
        upto = _check_count("upto", upto)
        mark, now = uuid.uuid4().hex, time.time()
        return await self._store.write(lambda c: _fork_session(c, session, new, upto, mark, now))

    async def delete(self, session: str) -> bool:
        """Delete the messages of a session.

        `box.store.delete_session` deletes everything that belongs to it.

        Args:
            session: The session's id.

        Returns:
            Whether there was such a session.
        """
        found: list[bool] = []

        def remove(connection: Connection) -> bool:
            connection.execute(delete(messages).where(messages.c.session == session))
            gone = connection.execute(delete(sessions).where(sessions.c.id == session))
            # An earlier attempt whose answer was lost may have removed it.
            found.append(gone.rowcount > 0)
            return any(found)

        return await self._store.write(remove)

    async def get(self, session: str) -> Session | None:
        """Find a session.

        Args:
            session: The session's id.

        Returns:
            The session without its messages, or None if there is none of this id.
        """
        row = await self._store.read(lambda connection: _locked_row(connection, session))
        return None if row is None else Session(row)

    async def list(
        self, limit: int | None = 50, *, after: tuple[float, str] | None = None
    ) -> "list[Session]":
        """List the sessions, the one written to last first.

        Args:
            limit: The most sessions to list; None lists all.
            after: The `updated_at` and the id of a session: list only those that come after it.

        Returns:
            The sessions, without their messages.
        """
        limit = _check_count("limit", limit)
        newest = (sessions.c.updated_at.desc(), sessions.c.id.desc())
        query = select(sessions).order_by(*newest).limit(limit)
        if after is not None:
            query = query.where(tuple_(sessions.c.updated_at, sessions.c.id) < after)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [Session(row) for row in rows]

    async def export(self, session: str | None = None) -> dict[str, Any]:
        """Export sessions with their messages.

        Args:
            session: The session's id; None exports all.

        Returns:
            Plain JSON that `load` takes.

        Raises:
            NotKept: There is no session of this id.
        """
        query = (
            select(sessions, messages)
            .outerjoin(messages, messages.c.session == sessions.c.id)
            .order_by(sessions.c.created_at, sessions.c.id, messages.c.position)
        )
        if session is not None:
            query = query.where(sessions.c.id == session)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        if session is not None and not rows:
            raise NotKept("session", session)
        found: dict[str, Any] = {}
        for row in rows:
            facts = {"created_at": row.created_at, "messages": []}
            kept = found.setdefault(row.id, facts)["messages"]
            if row.message is not None:
                kept.append(_read_message(row))
        return {"format": FORMAT, "version": VERSION, "sessions": found}

    async def load(self, data: Mapping[str, Any]) -> int:
        """Import exported sessions, all or none.

        Args:
            data: What `export` returned.

        Returns:
            How many sessions were imported.

        Raises:
            SessionTaken: One of the sessions exists already.
            ValueError: The data can't be used; the message names the place.
        """
        read = _read_export(data)
        mark, now = uuid.uuid4().hex, time.time()
        await self._store.write(lambda c: _load_sessions(c, read, mark, now))
        return len(read)


class _Append:
    """One append, which may be attempted several times but is done once."""

    def __init__(self, session: str, texts: list[str], once: str | None) -> None:
        self._session = session
        self._texts = texts
        self._once = once
        self._mark = once or uuid.uuid4().hex
        self._now = time.time()
        self._tried: int | None = None

    def run(self, connection: Connection) -> int:
        """Add the messages; returns the position after the last."""
        if self._tried is not None and self._got_through(connection):
            return self._tried + len(self._texts)
        if self._once is not None and (there := self._find_first(connection)) is not None:
            return there + len(self._texts)
        count = len(self._texts)
        row = {**_new_session(self._session, self._mark, self._now), "next": count}
        # The row is locked until the commit, so other appends to the session wait.
        changes = {"updated_at": self._now, "next": sessions.c.next + count}
        put = insert_or_update(connection.dialect, sessions, row, changes)
        after: int = connection.execute(put.returning(sessions.c.next)).scalar_one()
        self._tried = after - count
        _insert_messages(connection, self._session, self._texts, self._tried, self._mark)
        return after

    def _find_first(self, connection: Connection) -> int | None:
        """The position of what was appended under the same name; others who append wait."""
        own = select(sessions.c.id).where(sessions.c.id == self._session).with_for_update()
        connection.execute(own).all()
        same = (messages.c.session == self._session, messages.c.mark == self._mark)
        return connection.scalar(select(messages.c.position).where(*same).limit(1))

    def _got_through(self, connection: Connection) -> bool:
        """Whether the last attempt was committed; waits if it is still running."""
        own = select(sessions.c.id).where(sessions.c.id == self._session).with_for_update()
        connection.execute(own).all()
        at = (messages.c.session == self._session, messages.c.position == self._tried)
        mark = connection.scalar(select(messages.c.mark).where(*at))
        return bool(mark == self._mark)


def _fork_session(
    connection: Connection, session: str, new: str, upto: int | None, mark: str, now: float
) -> int:
    made = _own_row(connection, new, mark)
    if made is not None:
        done: int = made.next
        return done
    source = _locked_row(connection, session)
    if source is None:
        raise NotKept("session", session)
    after: int = source.next if upto is None else min(upto, source.next)
    bounds = {"first": min(source.first, after), "next": after}
    row = {**_new_session(new, mark, now), **bounds}
    if connection.execute(insert_new(connection.dialect, sessions, row)).first() is None:
        raise SessionTaken(new)
    copied = select(
        literal(new, messages.c.session.type), messages.c.position, messages.c.message
    ).where(messages.c.session == session, messages.c.position < after)
    columns = ["session", "position", "message"]
    connection.execute(insert(messages).from_select(columns, copied))
    return after


def _load_sessions(
    connection: Connection, data: "dict[str, tuple[float, list[str]]]", mark: str, now: float
) -> None:
    # Sorted, so that two imports of the same sessions don't wait for each other.
    for name, (created_at, texts) in sorted(data.items()):
        if _own_row(connection, name, mark) is None:
            row = _new_session(name, mark, created_at)
            row.update(updated_at=now, next=len(texts))
            if connection.execute(insert_new(connection.dialect, sessions, row)).first() is None:
                raise SessionTaken(name)
            _insert_messages(connection, name, texts, 0, None)


def _own_row(connection: Connection, session: str, mark: str) -> Row[Any] | None:
    """The row that an earlier attempt of ours made; `SessionTaken` if another operation made it."""
    row = _locked_row(connection, session)
    if row is not None and row.made != mark:
        raise SessionTaken(session)
    return row


def _locked_row(connection: Connection, session: str) -> Row[Any] | None:
    """The row of a session, locked until the commit."""
    query = select(sessions).where(sessions.c.id == session)
    return connection.execute(query.with_for_update()).first()


def _new_session(session: str, mark: str, now: float) -> dict[str, Any]:
    return {
        "id": session,
        "made": mark,
        "created_at": now,
        "updated_at": now,
        "first": 0,
        "next": 0,
    }


def _insert_messages(
    connection: Connection, session: str, texts: list[str], first: int, mark: str | None
) -> None:
    rows = [
        {"session": session, "position": first + n, "message": text, "mark": None if n else mark}
        for n, text in enumerate(texts)
    ]
    if rows:
        connection.execute(insert(messages), rows)


def _read_message(row: Any) -> Any:
    """The message of a row; `CorruptRow` says which one can't be read."""
    try:
        if isinstance(row.message, DamagedText):
            raise ValueError("it has bytes that are no text")
        return parse_json(row.message, MAX_WRAPPED)
    except ValueError as error:
        kind = f"message {row.position} of session"
        raise CorruptRow(row.session, str(error), kind, "wieldy_messages") from error


def _message_text(message: Any, place: str) -> str:
    """A message as JSON text; `ValueError` if it would not come back unchanged."""
    try:
        text = dump_json(message, MAX_WRAPPED, allow_nan=False)
        same = parse_json(text, MAX_WRAPPED) == message
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place} is not JSON and nothing was kept: {error}") from None
    if not same:
        raise ValueError(
            f"{place} is not JSON and nothing was kept: "
            "it has a tuple, a key that is not text, or something else that would come back changed"
        )
    return text


def _read_export(data: Any) -> "dict[str, tuple[float, list[str]]]":
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise ValueError(f"format must be {FORMAT!r}: this is no export of sessions")
    if data.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION}, not {data.get('version')!r}")
    found = data.get("sessions")
    if not isinstance(found, Mapping):
        raise ValueError("sessions must be an object")
    return {session: _read_session(session, facts) for session, facts in found.items()}


def _read_session(session: Any, facts: Any) -> tuple[float, list[str]]:
    place = f"sessions[{session!r}]"
    check_id(f"{place}: a session", session)
    if not isinstance(facts, Mapping) or not isinstance(facts.get("messages"), list):
        raise ValueError(f"{place}.messages must be a list")
    made = facts.get("created_at", time.time())
    if not isinstance(made, int | float) or not abs(made) < float("inf"):
        raise ValueError(f"{place}.created_at must be a number")
    texts = [
        _message_text(each, f"{place}.messages[{n}]") for n, each in enumerate(facts["messages"])
    ]
    return float(made), texts


def _check_count(what: str, count: int | None) -> int | None:
    """Limit a count to what every database accepts."""
    if count is None:
        return None
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"{what} must be a number of 0 or more, not {count!r}")
    return min(count, _MAX_COUNT)
