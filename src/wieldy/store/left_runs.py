"""Runs that nobody continues, and what a process needs to know to continue them by itself."""

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection, and_, select, update

from wieldy.core.bounded_json import MAX_WRAPPED, parse_json
from wieldy.core.permission.waiting_calls import waited_calls

from .databases.tables import IS_LEFT, IS_WAITING, calls, run_steps, runs
from .nested_runs import end_below
from .row_values import from_column
from .store_access import StoreAccess

T = TypeVar("T")
# A run that crashed its process this often in a row, without a step in between, is given up.
MAX_TRIES = 5
_GIVEN_UP = (
    f"The process that continued it died {MAX_TRIES} times in a row before its next step. "
    "Resume it by its id to try again."
)
_AT_ONCE = 500


class LeftRun:
    """A run that waits for people or has crashed.

    `tries` says how often it was continued, and crashed, since its last step.
    """

    __slots__ = ("changed_at", "id", "state", "steps", "tries")

    def __init__(self, row: Any) -> None:
        self.id: str = row.id
        self.state: str = row.state
        self.steps: int = row.steps
        self.tries = count_tries(row)
        self.changed_at: float = row.changed_at

    @property
    def exhausted(self) -> bool:
        """Whether it was tried so often that it is not tried again."""
        return self.tries >= MAX_TRIES

    def __repr__(self) -> str:
        return f"LeftRun({self.id!r}, {self.state}, {self.steps} steps, {self.tries} tries)"


class LeftRuns:
    """The runs of all processes on a store that nobody continues."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def find(self, agent: str) -> list[LeftRun]:
        """Runs of an agent that are part of no other run, the oldest first."""
        columns = (runs.c.id, runs.c.state, runs.c.steps, runs.c.changed_at)
        query = select(*columns, runs.c.tries, runs.c.tried_step)
        query = query.where(IS_LEFT, runs.c.agent == agent, runs.c.parent.is_(None))
        query = query.order_by(runs.c.created_at, runs.c.id)
        return await self._store.read(lambda c: [LeftRun(row) for row in c.execute(query)])

    async def find_waited(self, ids: Collection[str]) -> dict[str, tuple[bool, list[str]]]:
        """Whether each of these runs was given `deps`, and the calls that it waits for."""
        last = and_(run_steps.c.run == runs.c.id, run_steps.c.number == runs.c.steps - 1)
        query = select(runs.c.id, runs.c.request, run_steps.c.body).join(run_steps, last)
        found: dict[str, tuple[bool, list[str]]] = {}
        for some in _split_ids(ids):
            named = query.where(runs.c.id.in_(some))
            found |= await self._store.read(_read_each(named, _read_waited))
        return found

    async def find_below(self, ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The calls that each of these calls waits for, if it does."""
        query = select(calls.c.id, calls.c.requests).where(
            IS_WAITING, calls.c.state == "pending", calls.c.requests.is_not(None)
        )
        found: dict[str, tuple[str, ...]] = {}
        for some in _split_ids(ids):
            named = query.where(calls.c.id.in_(some))
            found |= await self._store.read(_read_each(named, _read_below))
        return {call_id: below for call_id, below in found.items() if below}

    async def find_undecided(self, ids: Collection[str]) -> set[str]:
        """Those of these calls on which nobody has decided."""
        query = select(calls.c.id).where(IS_WAITING, calls.c.state == "pending")
        found: set[str] = set()
        for some in _split_ids(ids):
            named = query.where(calls.c.id.in_(some))
            found.update(await self._store.read(_read_ids(named)))
        return found

    async def find_overdue(self) -> list[str]:
        """The calls on which nobody decided in time, or that nobody ran in time."""
        waiting = calls.c.state.in_(("pending", "approved"))
        query = select(calls.c.id).where(IS_WAITING, waiting, calls.c.expires_at <= time.time())
        return await self._store.read(_read_ids(query))

    async def give_up(self, run: LeftRun) -> str | None:
        """Say that a crashed run has failed; the reason, or None if somebody else continues it."""
        values = {"state": "failed", "error": _GIVEN_UP, "changed_at": time.time()}
        same = (runs.c.id == run.id, runs.c.state == "crashed", runs.c.steps == run.steps)
        statement = update(runs).where(*same, runs.c.tried_step == run.steps).values(values)

        def give_up(connection: Connection) -> list[str] | None:
            if not connection.execute(statement).rowcount:
                return None
            return end_below(connection, run.id, f"the run {run.id}, which needs it, is given up")

        changed = await self._store.write(give_up)
        for each in [run.id, *(changed or ())]:
            self._store.bell.ring(each)
        return None if changed is None else _GIVEN_UP


def count_tries(row: Any) -> int:
    """How often a run was continued, and crashed, since its last step."""
    return row.tries or 0 if row.tried_step == row.steps else 0


def _split_ids(ids: Collection[str]) -> Iterator[list[str]]:
    """The ids in lists that are short enough for one statement."""
    listed = list(ids)
    return (listed[start : start + _AT_ONCE] for start in range(0, len(listed), _AT_ONCE))


def _read_each(query: Any, read: Callable[[Any], T]) -> Callable[[Connection], dict[str, T]]:
    return lambda connection: {row.id: read(row) for row in connection.execute(query)}


def _read_ids(query: Any) -> Callable[[Connection], list[str]]:
    return lambda connection: list(connection.scalars(query))


def _read_waited(row: Any) -> tuple[bool, list[str]]:
    try:
        # A run of an earlier version has not said whether it was given `deps`.
        given = parse_json(row.request, MAX_WRAPPED).get("deps") is not False
        return given, parse_json(row.body, MAX_WRAPPED).get("pending", [])
    except (ValueError, AttributeError):
        # The run can't be read. Whoever resumes it is told, and the others go on.
        return True, []


def _read_below(row: Any) -> tuple[str, ...]:
    return waited_calls(from_column(row.requests))
