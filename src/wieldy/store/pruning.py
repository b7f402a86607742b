"""Remove what the retention does not keep, in small steps, and everything of one session."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Table, and_, delete, exists, func, or_, select, update

from .artifacts.artifact_rows import session_shelf
from .databases.database import Operation
from .databases.tables import (
    NEWEST_FIRST,
    OPEN,
    calls,
    chores,
    loaded_tools,
    messages,
    metadata,
    rollups,
    rules,
    run_steps,
    runs,
    sessions,
    untrusted_sessions,
    webhook_deliveries,
)
from .outbox.subscriptions import forget_unseen
from .process_owner import shared_clock
from .retention import Retention

_around = calls.alias("around")
# A call whose tool made other calls may run again, and then needs to know what became of them.
_AROUND_OPEN = exists().where(_around.c.id == calls.c.parent, _around.c.state.in_(OPEN))
_ENDED = and_(calls.c.state.not_in(OPEN), ~_AROUND_OPEN.correlate(calls))
# A run that waits, or that a crash left, may still go on.
_RUN_ENDED = runs.c.state.in_(("done", "failed", "cancelled"))
_MAX_ROWS = 500
_MAX_SESSIONS = 10
_DAY = 86_400.0
_HOUR = 3_600.0

Step = tuple[str, Operation[int]]


class _Artifacts(NamedTuple):
    versions: Table
    artifacts: Table


class Pruning:
    """The steps that enforce a retention. Each step is repeated until it finds nothing."""

    def __init__(self, retention: Retention, is_over: Callable[[Row[Any], float], bool]) -> None:
        self._retention = retention
        self._is_over = is_over

    @property
    def due_by_itself(self) -> bool:
        """Whether there is any bound; only then does this process take part in pruning."""
        return self._retention != Retention.unbounded()

    def steps(self) -> list[Step]:
        """The kinds of rows to remove, each with an operation that removes some and counts them."""
        kept = self._retention
        found: list[Step] = [("rules", self._end_rules), ("webhooks", forget_unseen)]
        if kept.days is not None:
            seconds = kept.days * _DAY
            found.append(("calls", lambda c: _old_calls(c, seconds)))
            found.append(("sessions", lambda c: _idle_sessions(c, seconds)))
            found.append(("runs", lambda c: _old_runs(c, seconds)))
            found.append(("loaded_tools", lambda c: _old_lists(c, seconds)))
            found.append(("untrusted_sessions", lambda c: _left_sessions(c, seconds)))
            found.append(("rollups", lambda c: _old_rollups(c, seconds)))
            found.append(("webhook_deliveries", lambda c: _old_deliveries(c, seconds)))
        if kept.calls is not None:
            found.append(("calls", _surplus_calls(kept.calls)))
        if kept.messages is not None:
            most = kept.messages
            found.append(("messages", lambda c: _surplus_messages(c, most)))
        return [*found, *_artifact_steps(kept)]

    def _end_rules(self, connection: Connection) -> int:
        now = shared_clock(connection)
        over = [row.id for row in connection.execute(select(rules)) if self._is_over(row, now)]
        return _delete_rows(connection, rules, rules.c.id.in_(over)) if over else 0


def _artifact_steps(kept: Retention) -> list[Step]:
    found: list[Step] = []
    tables, days, newest = _artifact_tables(), kept.days, kept.versions
    if tables is not None and days is not None:
        found.append(("artifacts", lambda c: _old_artifacts(c, tables, days * _DAY)))
    if tables is not None and newest is not None:
        found.append(("versions", lambda c: _surplus_versions(c, tables, newest)))
    return found


def claim_pruning(connection: Connection) -> bool:
    """Whether it is our turn to prune: one process does so, once an hour."""
    now = shared_clock(connection)
    # A clock that was set back must not stop the pruning.
    due = or_(chores.c.done_at <= now - _HOUR, chores.c.done_at > now + _HOUR)
    taken = update(chores).where(chores.c.name == "prune", due).values(done_at=now)
    return connection.execute(taken.returning(chores.c.name)).first() is not None


def give_back(connection: Connection) -> None:
    """Let the next process continue what we did not finish."""
    connection.execute(update(chores).where(chores.c.name == "prune").values(done_at=0.0))


def delete_session(connection: Connection, session: str) -> dict[str, int]:
    """Remove everything of a session except its open calls; returns how much of each kind."""
    counts: Counter[str] = Counter()
    for each in [session, *_sessions_inside(connection, session)]:
        counts.update(_delete_one(connection, each))
    return dict(counts)


def _sessions_inside(connection: Connection, session: str) -> list[str]:
    """The sessions that subagents had of their own while they worked for this one."""
    found: list[str] = []
    outer = [session]
    while outer:
        around = select(runs.c.id).where(runs.c.session.in_(outer))
        inside = select(runs.c.session).where(
            runs.c.parent.in_(around), runs.c.session == runs.c.id
        )
        outer = list(connection.scalars(inside))
        found += outer
    return found


def _delete_one(connection: Connection, session: str) -> dict[str, int]:
    own = calls.c.session == session
    # A message tells of a call, and must not outlive it.
    told = webhook_deliveries.c.call.in_(select(calls.c.id).where(own, _ENDED))
    counts = {"webhook_deliveries": _delete_rows(connection, webhook_deliveries, told)}
    counts["calls"] = _delete_rows(connection, calls, own, _ENDED)
    for table, which in _session_tables(session):
        counts[table.name.removeprefix("wieldy_")] = _delete_rows(connection, table, which)
    left = connection.scalar(select(func.count()).select_from(calls).where(own))
    return {**counts, "open": left or 0}


def _session_tables(session: str) -> list[tuple[Table, Any]]:
    """The tables with rows of a session, except calls, and the condition for those rows."""
    ended = and_(runs.c.session == session, _RUN_ENDED)
    found: list[tuple[Table, Any]] = [
        (run_steps, run_steps.c.run.in_(select(runs.c.id).where(ended))),
        (runs, ended),
        (messages, messages.c.session == session),
        (sessions, sessions.c.id == session),
        (rules, rules.c.session == session),
        (loaded_tools, loaded_tools.c.session == session),
        (untrusted_sessions, untrusted_sessions.c.id == session_shelf(session)),
    ]
    kept = _artifact_tables()
    if kept is not None:
        own = kept.artifacts.c.shelf == session_shelf(session)
        births = select(kept.artifacts.c.birth).where(own)
        found.append((kept.versions, kept.versions.c.birth.in_(births)))
        found.append((kept.artifacts, own))
    return found


def _artifact_tables() -> _Artifacts | None:
    """The tables of artifacts, if there are any."""
    versions = metadata.tables.get("wieldy_artifact_versions")
    artifacts = metadata.tables.get("wieldy_artifacts")
    return None if versions is None or artifacts is None else _Artifacts(versions, artifacts)


def _old_calls(connection: Connection, seconds: float) -> int:
    before = shared_clock(connection) - seconds
    ended = func.coalesce(calls.c.ended_at, calls.c.proposed_at)
    return _remove_calls(connection, and_(calls.c.proposed_at < before, ended < before))


def _surplus_calls(most: int) -> Operation[int]:
    found: list[Any] = []
    query = select(calls.c.proposed_at, calls.c.id).order_by(*NEWEST_FIRST)

    def remove(connection: Connection) -> int:
        if not found:
            # Found only once, because it takes counting all calls that are kept.
            found.append(connection.execute(query.offset(most).limit(1)).first())
        first = found[0]
        if first is None:
            return 0
        same = and_(calls.c.proposed_at == first.proposed_at, calls.c.id <= first.id)
        return _remove_calls(connection, or_(calls.c.proposed_at < first.proposed_at, same))

    return remove


def _remove_calls(connection: Connection, which: Any) -> int:
    some = select(calls.c.id).where(_ENDED, which).order_by(calls.c.proposed_at).limit(_MAX_ROWS)
    return _delete_rows(connection, calls, calls.c.id.in_(some))


def _idle_sessions(connection: Connection, seconds: float) -> int:
    idle = sessions.c.updated_at < shared_clock(connection) - seconds
    query = select(sessions.c.id).where(idle).limit(_MAX_SESSIONS).with_for_update(skip_locked=True)
    found = connection.scalars(query).all()
    for session in found:
        _delete_rows(connection, messages, messages.c.session == session)
        _delete_rows(connection, sessions, sessions.c.id == session)
    return len(found)


def _old_runs(connection: Connection, seconds: float) -> int:
    before = shared_clock(connection) - seconds
    old = and_(runs.c.created_at < before, runs.c.changed_at < before, _RUN_ENDED)
    some = select(runs.c.id).where(old).order_by(runs.c.created_at).limit(_MAX_SESSIONS)
    found = connection.scalars(some.with_for_update(skip_locked=True)).all()
    if found:
        _delete_rows(connection, run_steps, run_steps.c.run.in_(found))
        _delete_rows(connection, runs, runs.c.id.in_(found))
    return len(found)


def _old_lists(connection: Connection, seconds: float) -> int:
    old = loaded_tools.c.changed_at < shared_clock(connection) - seconds
    some = select(loaded_tools.c.session).where(old).limit(_MAX_ROWS)
    return _delete_rows(connection, loaded_tools, loaded_tools.c.session.in_(some))


def _old_rollups(connection: Connection, seconds: float) -> int:
    before = shared_clock(connection) - seconds
    oldest = select(rollups.c.minute).where(rollups.c.minute < before)
    some = oldest.distinct().order_by(rollups.c.minute).limit(_MAX_ROWS)
    return _delete_rows(connection, rollups, rollups.c.minute.in_(some))


def _old_deliveries(connection: Connection, seconds: float) -> int:
    old = webhook_deliveries.c.created_at < shared_clock(connection) - seconds
    over = and_(old, webhook_deliveries.c.state != "waiting")
    oldest = select(webhook_deliveries.c.id).where(over)
    some = oldest.order_by(webhook_deliveries.c.created_at).limit(_MAX_ROWS)
    return _delete_rows(connection, webhook_deliveries, webhook_deliveries.c.id.in_(some))


def _left_sessions(connection: Connection, seconds: float) -> int:
    """Forget that sessions are untrusted of which nothing is kept any more."""
    mark, before = untrusted_sessions, shared_clock(connection) - seconds
    names = (calls.c.session, runs.c.session, sessions.c.id)
    left = [~exists().where(name == mark.c.session) for name in names]
    kept = _artifact_tables()
    if kept is not None:
        left.append(~exists().where(kept.artifacts.c.shelf == mark.c.id))
    # Calls without a session are always going on.
    some = select(mark.c.id).where(mark.c.session.is_not(None), mark.c.at < before, *left)
    return _delete_rows(connection, mark, mark.c.id.in_(some.limit(_MAX_ROWS)))


def _surplus_messages(connection: Connection, most: int) -> int:
    longer = sessions.c.next - sessions.c.first > most
    query = select(sessions).where(longer).limit(_MAX_SESSIONS).with_for_update(skip_locked=True)
    removed = 0
    for row in connection.execute(query).all():
        first = min(row.next - most, row.first + _MAX_ROWS)
        older = (messages.c.session == row.id, messages.c.position < first)
        removed += _delete_rows(connection, messages, *older)
        moved = update(sessions).where(sessions.c.id == row.id).values(first=first)
        connection.execute(moved)
    return removed


def _old_artifacts(connection: Connection, kept: _Artifacts, seconds: float) -> int:
    old = kept.artifacts.c.changed_at < shared_clock(connection) - seconds
    births = select(kept.artifacts.c.birth).where(old).limit(_MAX_SESSIONS)
    found = connection.scalars(births.with_for_update(skip_locked=True)).all()
    if found:
        _delete_rows(connection, kept.versions, kept.versions.c.birth.in_(found))
        _delete_rows(connection, kept.artifacts, kept.artifacts.c.birth.in_(found))
    return len(found)


def _surplus_versions(connection: Connection, kept: _Artifacts, most: int) -> int:
    versions, artifacts = kept
    older = versions.c.version <= artifacts.c.version - most
    same = versions.c.birth == artifacts.c.birth
    query = select(versions.c.birth, versions.c.version).join(artifacts, same).where(older)
    removed = 0
    for birth, version in connection.execute(query.limit(_MAX_ROWS)).all():
        one = (versions.c.birth == birth, versions.c.version == version)
        removed += _delete_rows(connection, versions, *one)
    return removed


def _delete_rows(connection: Connection, table: Table, *which: Any) -> int:
    return connection.execute(delete(table).where(*which)).rowcount
