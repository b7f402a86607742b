"""Remove what a store need not keep, in small steps, and all that belongs to one session."""

from typing import Any

from sqlalchemy import Connection, Table, and_, delete, func, or_, select, update

from wieldy.core.registry import Registry

from .database import Operation
from .kept_tables import chores, messages, rules, sessions
from .owner import clock
from .retention import Retention
from .standing import is_over
from .tables import calls, metadata

_OPEN = ("pending", "approved", "started", "unknown")
_ENDED = calls.c.state.not_in(_OPEN)
_MOST_ROWS = 500
_MOST_SESSIONS = 10
_DAY = 86_400.0
_HOUR = 3_600.0

Step = tuple[str, Operation[int]]


class Pruning:
    """The work that a retention makes. Each step is done again until it finds nothing."""

    def __init__(self, retention: Retention, registry: Registry) -> None:
        self._retention = retention
        self._registry = registry

    def steps(self) -> list[Step]:
        """What is to be removed, and an operation that removes some of it and says how much."""
        kept = self._retention
        found: list[Step] = [("rules", lambda c: _rules(c, self._registry))]
        if kept.days is not None:
            seconds = kept.days * _DAY
            found.append(("calls", lambda c: _old_calls(c, seconds)))
            found.append(("sessions", lambda c: _idle_sessions(c, seconds)))
        if kept.calls is not None:
            found.append(("calls", _surplus_calls(kept.calls)))
        if kept.messages is not None:
            most = kept.messages
            found.append(("messages", lambda c: _surplus_messages(c, most)))
        versions = metadata.tables.get("wieldy_artifact_versions")
        if kept.versions is not None and versions is not None:
            newest = kept.versions
            found.append(("versions", lambda c: _surplus_versions(c, versions, newest)))
        return found


def claim(connection: Connection) -> bool:
    """Whether it is for us to prune now: one process does it, once an hour."""
    now = clock(connection)
    # A clock that was set back must not keep everybody from it.
    due = or_(chores.c.done_at <= now - _HOUR, chores.c.done_at > now + _HOUR)
    taken = update(chores).where(chores.c.name == "prune", due).values(done_at=now)
    return connection.execute(taken.returning(chores.c.name)).first() is not None


def delete_session(connection: Connection, session: str) -> dict[str, int]:
    """Remove all that belongs to a session but its open calls; gives how much of what."""
    own = calls.c.session == session
    counts = {"calls": _removed(connection, calls, own, _ENDED)}
    for table in _belonging():
        counts[table.name.removeprefix("wieldy_")] = _removed(
            connection, table, table.c.session == session
        )
    counts["sessions"] = _removed(connection, sessions, sessions.c.id == session)
    left = connection.scalar(select(func.count()).select_from(calls).where(own))
    return {**counts, "open": left or 0}


def _belonging() -> list[Table]:
    """The tables whose rows belong to a session: those with a column that names it."""
    tables = reversed(metadata.sorted_tables)
    return [table for table in tables if "session" in table.c and table is not calls]


def _rules(connection: Connection, registry: Registry) -> int:
    now = clock(connection)
    over = [row.id for row in connection.execute(select(rules)) if is_over(row, now, registry)]
    return _removed(connection, rules, rules.c.id.in_(over)) if over else 0


def _old_calls(connection: Connection, seconds: float) -> int:
    before = clock(connection) - seconds
    ended = func.coalesce(calls.c.ended_at, calls.c.proposed_at)
    return _remove_calls(connection, and_(calls.c.proposed_at < before, ended < before))


def _surplus_calls(most: int) -> Operation[int]:
    found: list[Any] = []
    newest_first = (calls.c.proposed_at.desc(), calls.c.id.desc())
    query = select(calls.c.proposed_at, calls.c.id).order_by(*newest_first)

    def remove(connection: Connection) -> int:
        if not found:
            # Looked for once: it means to count all calls that are kept.
            found.append(connection.execute(query.offset(most).limit(1)).first())
        first = found[0]
        if first is None:
            return 0
        same = and_(calls.c.proposed_at == first.proposed_at, calls.c.id <= first.id)
        return _remove_calls(connection, or_(calls.c.proposed_at < first.proposed_at, same))

    return remove


def _remove_calls(connection: Connection, which: Any) -> int:
    some = select(calls.c.id).where(_ENDED, which).order_by(calls.c.proposed_at).limit(_MOST_ROWS)
    return _removed(connection, calls, calls.c.id.in_(some))


def _idle_sessions(connection: Connection, seconds: float) -> int:
    idle = sessions.c.updated_at < clock(connection) - seconds
    query = select(sessions.c.id).where(idle).limit(_MOST_SESSIONS).with_for_update()
    found = connection.scalars(query).all()
    for session in found:
        _removed(connection, messages, messages.c.session == session)
        _removed(connection, sessions, sessions.c.id == session)
    return len(found)


def _surplus_messages(connection: Connection, most: int) -> int:
    longer = sessions.c.next - sessions.c.first > most
    query = select(sessions).where(longer).limit(_MOST_SESSIONS).with_for_update()
    removed = 0
    for row in connection.execute(query).all():
        first = min(row.next - most, row.first + _MOST_ROWS)
        older = (messages.c.session == row.id, messages.c.position < first)
        removed += _removed(connection, messages, *older)
        moved = update(sessions).where(sessions.c.id == row.id).values(first=first)
        connection.execute(moved)
    return removed


def _surplus_versions(connection: Connection, versions: Table, most: int) -> int:
    same = (versions.c.session, versions.c.id)
    newest = select(*same, func.max(versions.c.version).label("last")).group_by(*same).subquery()
    older = (
        versions.c.session == newest.c.session,
        versions.c.id == newest.c.id,
        versions.c.version <= newest.c.last - most,
    )
    some = select(*same, versions.c.version).where(*older).limit(_MOST_ROWS)
    removed = 0
    for row in connection.execute(some).all():
        own = (versions.c.session == row.session, versions.c.id == row.id)
        removed += _removed(connection, versions, *own, versions.c.version == row.version)
    return removed


def _removed(connection: Connection, table: Table, *which: Any) -> int:
    return connection.execute(delete(table).where(*which)).rowcount
