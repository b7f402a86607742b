"""Runs inside the calls of other runs: what one means for those around it and below it."""

import time
from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, Row, select, update

from wieldy.core.call import Call, Decision, Outcome, Status
from wieldy.core.errors import CallDenied

from .databases.tables import IS_LEFT, IS_WAITING, calls, runs
from .row_values import decision_columns, outcome_columns
from .transitions import deny_unheard

ENDED = ("done", "cancelled", "failed")


def end_below(connection: Connection, run_id: str, reason: str) -> list[str]:
    """End what waits in a run that has ended: the runs below it, and the calls of all of them.

    Returns the ids of what was changed.
    """
    now, below = time.time(), list(_left_below(connection, run_id))
    connection.execute(
        update(runs)
        .where(runs.c.id.in_(below), IS_LEFT)
        .values(state="cancelled", error=reason, changed_at=now)
    )
    waiting = select(calls).where(IS_WAITING, calls.c.run.in_([run_id, *below]))
    denied = [
        row.id
        for row in connection.execute(waiting).all()
        if deny_unheard(connection, row.id, _denial_columns(row, reason, now))
    ]
    return [*below, *denied]


def find_ended(connection: Connection, call_id: str) -> Row[Any] | None:
    """The run that a pending call belongs to, or one around it, if that has ended."""
    pending = select(calls.c.run).where(calls.c.id == call_id, calls.c.state == "pending")
    for row in _around(connection, connection.scalar(pending)):
        if row.state in ENDED:
            return row
    return None


def note_progress(connection: Connection, run_id: str, call_id: str | None) -> None:
    """Count the tries anew of the runs and calls around a run that has taken a step.

    `call_id` is the call that the run is made in.
    """
    called: list[str] = []
    while call_id is not None and call_id not in called:
        called.append(call_id)
        call_id = connection.scalar(select(calls.c.parent).where(calls.c.id == call_id))
    _forget_tries(connection, called, [row.id for row in _around(connection, run_id)])


def start_anew(connection: Connection, run_id: str) -> None:
    """Count the tries anew of a run that a person resumes, and of all below it."""
    inside = [run_id, *_left_below(connection, run_id)]
    unknown = select(calls.c.id).where(
        IS_WAITING, calls.c.state == "unknown", calls.c.run.in_(inside)
    )
    _forget_tries(connection, list(connection.scalars(unknown)), inside)


def _forget_tries(connection: Connection, called: Collection[str], made: Collection[str]) -> None:
    tried = (calls.c.id.in_(called), calls.c.tries.is_not(None))
    connection.execute(update(calls).where(*tried).values(tries=None))
    marked = (runs.c.id.in_(made), runs.c.tried_step.is_not(None))
    connection.execute(update(runs).where(*marked).values(tried_step=None))


def _around(connection: Connection, run_id: str | None) -> Iterator[Row[Any]]:
    """A run and those that it is inside of, the nearest first."""
    seen: set[str] = set()
    while run_id is not None and run_id not in seen:
        seen.add(run_id)
        row = connection.execute(select(runs).where(runs.c.id == run_id)).first()
        if row is None:
            return
        yield row
        run_id = row.parent


def _left_below(connection: Connection, run_id: str) -> Iterator[str]:
    """The runs inside a run, at any depth, that nobody continues now."""
    found, level = {run_id}, [run_id]
    while level:
        query = select(runs.c.id).where(runs.c.parent.in_(level), IS_LEFT)
        level = [each for each in connection.scalars(query) if each not in found]
        found.update(level)
        yield from level


def _denial_columns(row: Row[Any], reason: str, now: float) -> dict[str, Any]:
    decision = Decision(False, row.fingerprint or "", row.digest or "", at=now, reason=reason)
    outcome = Outcome(Call(row.tool, id=row.id), Status.DENIED, error=CallDenied(row.tool, reason))
    return {**decision_columns(decision), **outcome_columns(outcome, ()), "ended_at": now}
