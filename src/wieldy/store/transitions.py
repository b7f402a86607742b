"""Move a call from state to state, each step by one statement that names the earlier state.

Every function is an operation. If it finds no row, it checks whether an earlier attempt
of its own was committed before the connection was lost.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Update,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    update,
)

from wieldy.core.call import nested_run_id

from .databases.prepared_statements import Prepared, Write, insert_if_new
from .databases.tables import IS_LEFT, calls, runs
from .row_values import OUTCOME, from_column, to_column

END = (*OUTCOME, "ended_at")
_STARTED: ColumnElement[str] = literal_column("'started'")
_UNKNOWN: ColumnElement[str] = literal_column("'unknown'")
# The number of times that a call was run again because its end was unknown, with this one.
ONE_MORE_TRY = func.coalesce(calls.c.tries, 0) + 1
# A call that stops waiting keeps its arguments without their secrets, and no answers.
_COVERED = {
    "answers": null(),
    "paused": null(),
    "arguments": func.coalesce(calls.c.covered, calls.c.arguments),
    "partial": case((calls.c.covered.is_not(None), 1), else_=calls.c.partial),
    "covered": null(),
}


def _finish_statement(*written: str) -> Prepared:
    """Write these columns of an outcome, and leave its other columns empty."""
    # The call's own process may overwrite what a process wrote that took it for dead.
    mine = and_(
        calls.c.id == bindparam("id_"),
        calls.c.owner == bindparam("owner_"),
        calls.c.started_at == bindparam("started_at_"),
        # For an IN, SQLite would build a table each time.
        or_(calls.c.state == _STARTED, calls.c.state == _UNKNOWN),
    )
    empty = (name for name in END if name not in written)
    values = [*((name, bindparam(name)) for name in written), *((name, null()) for name in empty)]
    statement = update(calls).where(mine).ordered_values(*values)
    return Prepared((*written, "id_", "owner_", "started_at_"), lambda dialect: statement)


# The columns that every call has at its start. Binding an empty value costs as much as three
# others, so columns that few calls have are written only for those calls.
START = insert_if_new(
    calls,
    (
        "id",
        "tool",
        "state",
        "fingerprint",
        "arguments",
        "partial",
        "proposed_at",
        "started_at",
        "owner",
    ),
)
# The columns that most calls have at their end, and those that any call may have.
FINISH = _finish_statement("state", "value", "seconds", "ended_at")
FINISH_FULLY = _finish_statement(*END)


class Put(Write):
    """Insert a call; returns the id of a call that has its id or its key already, or None."""

    __slots__ = ()
    done = None

    def otherwise(self, connection: Connection) -> str | None:
        row = dict(zip(self.statement.names, self.values, strict=True))
        same, key = calls.c.id == row["id"], row.get("idempotency_key")
        if key is not None:
            same = or_(same, calls.c.idempotency_key == key)
        there = connection.execute(select(calls).where(same)).first()
        if there is None or _is_own(there, row):
            return None
        first: str = there.id
        return first


def put(row: dict[str, Any]) -> Put:
    """Insert a call with these columns."""
    return Put(insert_if_new(calls, tuple(row)), tuple(row.values()))


def resume(
    connection: Connection,
    call_id: str,
    owner: str,
    started_at: float,
    state: str,
    decided: dict[str, Any],
    decided_at: float | None = None,
) -> bool:
    """Start an approved call, or again one of unknown end; returns whether it is ours.

    With `decided_at` only that decision starts it, and no later one.
    """
    which = [calls.c.id == call_id, calls.c.state == state]
    if decided_at is not None:
        which.append(calls.c.decided_at == decided_at)
    moved = connection.execute(
        update(calls)
        .where(*which)
        .values(
            state="started",
            owner=owner,
            started_at=started_at,
            **dict.fromkeys(END[1:]),
            **_COVERED,
            **decided,
        )
        .returning(calls.c.id)
    ).first()
    if moved is not None:
        return True
    there = find_row(connection, call_id)
    return there is not None and (there.owner, there.started_at) == (owner, started_at)


def suspend(
    connection: Connection, call_id: str, owner: str, started_at: float, values: dict[str, Any]
) -> bool:
    """Let a call that we started wait for answers; returns whether its row says so now."""
    mine = and_(
        calls.c.id == call_id,
        calls.c.owner == owner,
        calls.c.started_at == started_at,
        calls.c.state == "started",
    )
    moved = {**values, "state": "pending", "owner": None, "answers": None}
    statement = update(calls).where(mine).values(moved).returning(calls.c.id)
    if connection.execute(statement).first() is not None:
        return True
    there = find_row(connection, call_id)
    marks = (there.state, there.started_at, there.requests) if there is not None else ()
    return marks == ("pending", started_at, values["requests"])


def refuse_approved(connection: Connection, call_id: str, ended: dict[str, Any]) -> None:
    """End an approved call that was not allowed to start after all."""
    values = {**ended, **_COVERED}
    if ended["state"] == "dry_run":
        # Nothing has run, so that its key is free.
        values["idempotency_key"] = None
    _move_state(connection, call_id, "approved", values)


def approve(
    connection: Connection, call_id: str, begun: float | None, values: dict[str, Any]
) -> Row[Any] | None:
    """Approve a pending call that has not changed; returns the row as it is now."""
    yes = {"state": "approved", "approved": 1, **values}
    _move_state(connection, call_id, "pending", yes, _same_start(begun))
    return find_row(connection, call_id)


def note_answers(
    connection: Connection, call_id: str, begun: float | None, answers: Mapping[str, Any]
) -> None:
    """Add answers to those that a pending call has, if it has not run since it was found."""
    # Another process may add others at the same moment.
    row = connection.execute(select(calls).where(calls.c.id == call_id).with_for_update()).first()
    if row is not None and row.state == "pending":
        kept = to_column({**(from_column(row.answers) or {}), **answers})
        _move_state(connection, call_id, "pending", {"answers": kept}, _same_start(begun))


def refuse(
    connection: Connection, call_id: str, begun: float | None, values: dict[str, Any]
) -> Row[Any] | None:
    """Deny a pending call that has not changed; returns the row as it is now."""
    _move_state(
        connection, call_id, "pending", {"approved": 0, **values, **_COVERED}, _same_start(begun)
    )
    row = find_row(connection, call_id)
    if begun is not None and row is not None and row.approved == 0:
        _cancel_inside(connection, call_id)
    return row


def _cancel_inside(connection: Connection, call_id: str) -> None:
    """Cancel the run of an agent that waits inside a call: nobody wants its answer any more."""
    inside = and_(runs.c.id == nested_run_id(call_id), IS_LEFT)
    connection.execute(update(runs).where(inside).values(state="cancelled"))


def release(connection: Connection, call_id: str, owner: str) -> None:
    """Release an approved call that its owner does not run."""
    claimed = and_(calls.c.id == call_id, calls.c.state == "approved", calls.c.owner == owner)
    connection.execute(update(calls).where(claimed).values(owner=None))


def abandon(connection: Connection, call_id: str, values: dict[str, Any]) -> bool:
    """End an approved call that nobody has claimed; returns whether its row says so now."""
    free = and_(calls.c.id == call_id, calls.c.state == "approved", calls.c.owner.is_(None))
    statement = update(calls).where(free).values({**values, **_COVERED})
    if connection.execute(statement.returning(calls.c.id)).first() is not None:
        return True
    there = find_row(connection, call_id)
    return there is not None and there.ended_at == values["ended_at"]


def deny_unheard(connection: Connection, call_id: str, values: dict[str, Any]) -> bool:
    """End a call that nobody runs, whether it was decided on or not; returns whether it waited."""
    free = or_(
        calls.c.state == "pending", and_(calls.c.state == "approved", calls.c.owner.is_(None))
    )
    ended = {"approved": 0, **values, **_COVERED}
    statement = update(calls).where(calls.c.id == call_id, free).values(ended)
    return connection.execute(statement.returning(calls.c.id)).first() is not None


def settle(connection: Connection, call_id: str, values: dict[str, Any]) -> Row[Any] | None:
    """Record how a call of unknown end ended; returns the row as it is now."""
    _move_state(connection, call_id, "unknown", values)
    return find_row(connection, call_id)


def note_late(connection: Connection, call_id: str, late: str) -> None:
    """Record how an abandoned function ended."""
    connection.execute(update(calls).where(calls.c.id == call_id).values(late=late))


def find_row(connection: Connection, call_id: str) -> Row[Any] | None:
    """The row of a call."""
    return connection.execute(select(calls).where(calls.c.id == call_id)).first()


def find_key(connection: Connection, key: str) -> Row[Any] | None:
    """The row of the call that has this idempotency key."""
    return connection.execute(select(calls).where(calls.c.idempotency_key == key)).first()


def _same_start(begun: float | None) -> ColumnElement[bool]:
    """The condition that a call has not run and asked again since it was found."""
    return calls.c.started_at.is_not_distinct_from(begun)


def _move_state(
    connection: Connection,
    call_id: str,
    state: str,
    values: dict[str, Any],
    *more: ColumnElement[bool],
) -> None:
    statement: Update = update(calls).where(calls.c.id == call_id, calls.c.state == state, *more)
    connection.execute(statement.values(values).returning(calls.c.id)).all()


def _is_own(there: Row[Any], row: dict[str, Any]) -> bool:
    """Whether the row is ours, from an earlier attempt that was committed."""
    marks = ("id", "state", "owner", "proposed_at", "started_at", "ended_at")
    return all(getattr(there, name) == row.get(name) for name in marks)
