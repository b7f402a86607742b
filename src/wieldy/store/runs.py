"""Runs of agents: one row for each run, and a row for each of its steps."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, and_, bindparam, select, update

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.errors import CorruptRow
from wieldy.core.run_errors import RunBusy, RunCancelled, RunNotFound, RunTaken

from .databases.database import Operation
from .databases.prepared_statements import PairedWrite, Prepared, insert_if_new
from .databases.tables import RUN_STATES, in_run_state, of_agent, run_steps, runs
from .left_runs import LeftRuns, count_tries
from .nested_runs import end_below, note_progress, start_anew
from .row_search import Criterion, Place, RowSearch, match_column
from .row_values import refuse_damaged
from .store_access import StoreAccess

T = TypeVar("T")
# A run in one of these states can be resumed.
_LEFT = ("interrupted", "crashed")
_OPEN = (*_LEFT, "failed", "cancelled")
# The columns that a step changes in the row of its run.
_MOVED = ("state", "owner", "steps", "changed_at", "answer", "error")
# The columns that are written when a run begins.
_BEGUN = (
    "id",
    "agent",
    "session",
    "parent",
    "state",
    "owner",
    "claim",
    "steps",
    "created_at",
    "changed_at",
    "request",
)


def _move_on() -> Prepared:
    mine = and_(
        runs.c.id == bindparam("id_"),
        runs.c.claim == bindparam("claim_"),
        runs.c.steps == bindparam("steps_"),
    )
    moved: list[tuple[str, Any]] = [(name, bindparam(name)) for name in _MOVED]
    statement = update(runs).where(mine).ordered_values(*moved)
    return Prepared((*_MOVED, "id_", "claim_", "steps_"), lambda dialect: statement)


# Every step of every run is written by these.
_ADD_STEP = insert_if_new(run_steps, ("run", "number", "at", "body"))
_BEGIN, _MOVE_ON = insert_if_new(runs, _BEGUN), _move_on()


class StoredRun:
    """A run, as it is stored.

    `state` is one of running, interrupted, crashed, failed, cancelled and done. `request` is
    what was asked, and `answer` what came of it, both as JSON. `tries` says how often it was
    continued, and crashed, since its last step.
    """

    __slots__ = (
        "agent",
        "answer",
        "changed_at",
        "created_at",
        "error",
        "id",
        "parent",
        "request",
        "session",
        "state",
        "steps",
        "tries",
    )

    def __init__(self, row: Any) -> None:
        self.id: str = row.id
        self.agent: str = row.agent
        self.session: str | None = row.session
        self.parent: str | None = row.parent
        self.state: str = row.state
        self.steps: int = row.steps
        self.created_at: float = row.created_at
        self.changed_at: float = row.changed_at
        self.request: dict[str, Any] = _read_object(row.request)
        self.answer: Any = None if row.answer is None else parse_json(row.answer, MAX_WRAPPED)
        self.error: str | None = row.error
        self.tries = count_tries(row)

    @classmethod
    def read(cls, row: Any) -> "StoredRun":
        """The run of a row; `CorruptRow` if the row can't be read."""
        try:
            refuse_damaged(row._mapping)
            return cls(row)
        except (ValueError, TypeError) as error:
            raise CorruptRow(str(row.id), str(error), "run", "wieldy_runs") from error

    @classmethod
    def show(cls, row: Any) -> "StoredRun":
        """The run of a row in a list; what can't be read of it is empty, and `error` says why."""
        try:
            return cls.read(row)
        except CorruptRow as error:
            lost = {"request": "{}", "answer": None, "error": error.reason}
            return cls(SimpleNamespace(**{**row._mapping, **lost}))

    def __repr__(self) -> str:
        return f"StoredRun({self.id!r}, {self.agent!r}, {self.state}, {self.steps} steps)"


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The right to continue a run; only its holder knows the `token`."""

    run: str
    token: str
    owner: str


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter for runs; with `outermost` for those that are inside no other run."""

    state: str | None = None
    agent: str | None = None
    session: str | None = None
    outermost: bool = False

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in RUN_STATES:
            raise ValueError(f"state is one of {', '.join(RUN_STATES)}, not {self.state!r}")

    def search(self, after: Place | None) -> RowSearch:
        """The search for these runs after a place, the newest first."""
        outer = [runs.c.parent.is_(None)] if self.outermost else []
        found = RowSearch(runs.c.created_at, runs.c.id, self._criteria, checks=outer)
        return found.after(after)

    @property
    def _criteria(self) -> list[Criterion]:
        asked = (
            (runs.c.session, self.session, None),
            (runs.c.agent, self.agent, of_agent),
            (runs.c.state, self.state, in_run_state),
        )
        return [
            match_column(column, value, None if find is None else find(value))
            for column, value, find in asked
            if value is not None
        ]


class Runs:
    """The runs of all processes on a store. One process at a time continues a run."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        self.left = LeftRuns(store)

    async def begin(
        self,
        run_id: str,
        agent: str,
        request: str,
        body: str,
        *,
        session: str | None = None,
        parent: str | None = None,
        call: str | None = None,
    ) -> RunClaim:
        """Write a new run with its first step, both as JSON; returns the claim to continue it.

        `call` is the call that the run is made in.
        """
        opened = self._store.in_use or await self._store.opened()
        claim, now = RunClaim(run_id, opened.owner.make_token(), opened.owner.id), time.time()
        carried = ("running", claim.owner, claim.token, 1, now, now)
        row = (run_id, agent, session, parent, *carried, request)
        begun: Operation[None] = _Beginning(_BEGIN, row, (run_id, 0, now, body))
        await self._store.write(begun if call is None else _with_progress(begun, run_id, call))
        return claim

    async def save(
        self,
        claim: RunClaim,
        number: int,
        body: str,
        state: str = "running",
        answer: Any = None,
        *,
        call: str | None = None,
        resumed: bool = False,
    ) -> None:
        """Write a step, which is JSON, and the run's new state.

        Args:
            claim: The right to do so.
            number: The number of the step.
            body: What it adds.
            state: The state of the run after it.
            answer: What came of the run, once it is done.
            call: The call that the run is made in, if this is its first step in this process.
            resumed: Whether something of earlier processes may wait below it.

        Raises:
            RunTaken: The run is no longer ours.
        """
        now, owner = time.time(), claim.owner if state == "running" else None
        given = None if answer is None else dump_json(answer, MAX_WRAPPED)
        moved = (state, owner, number + 1, now, given, None, claim.run, claim.token, number)
        step: Operation[bool] = _Step(_MOVE_ON, moved, (claim.run, number, now, body))
        if call is not None:
            step = _with_progress(step, claim.run, call)
        if not await self._store.write(step):
            raise RunTaken(claim.run)
        if state == "done" and resumed:
            await self._end_below(claim.run, state)
        self._store.bell.ring(claim.run)

    async def leave(self, claim: RunClaim, state: str, error: str | None = None) -> None:
        """Let other processes continue a run that has no next step here."""
        for changed in await self._store.write(_leave_operation(claim, state, error)):
            self._store.bell.ring(changed)

    def leave_soon(self, claim: RunClaim, state: str, error: str | None = None) -> None:
        """The same as `leave`, without awaiting anything."""
        self._store.insist(_leave_operation(claim, state, error))

    async def _end_below(self, run_id: str, state: str) -> None:
        """End what waits below a run that has ended."""
        reason = _reason(run_id, state)
        for changed in await self._store.write(lambda c: end_below(c, run_id, reason)):
            self._store.bell.ring(changed)

    async def take(
        self, run_id: str, only_left: bool = False, by_hand: bool = False
    ) -> tuple[StoredRun, RunClaim | None]:
        """Claim a run to continue it; a run that is done is returned without a claim.

        Args:
            run_id: The run's id.
            only_left: Whether a run that was cancelled or has failed is left as it is.
            by_hand: Whether a person wants it tried again, however often that was tried.

        Raises:
            RunNotFound: there is no such run.
            RunBusy: somebody alive carries it on.
            RunCancelled: it was ended, and `only_left` is given.
        """
        opened = await self._store.opened()
        found = await self.get(run_id)
        if found is not None and found.state == "running":
            await self._store.sweep()
        claim = RunClaim(run_id, opened.owner.make_token(), opened.owner.id)
        states = _LEFT if only_left else _OPEN
        row, ours = await self._store.write(
            lambda connection: _claim_run(connection, claim, states, by_hand)
        )
        if row is None:
            raise RunNotFound(run_id)
        if row.state == "running" and not ours:
            raise RunBusy(run_id)
        if row.state in _OPEN and not ours:
            raise RunCancelled
        return StoredRun.read(row), claim if ours else None

    async def get(self, run_id: str) -> StoredRun | None:
        """The run of this id, or None."""
        row = await self._store.read(lambda connection: _find(connection, run_id))
        return None if row is None else StoredRun.read(row)

    async def beginning(self, text: str, limit: int = 2) -> "list[StoredRun]":
        """The runs whose ids begin with this text, at most `limit` of them."""
        query = select(runs).where(runs.c.id.startswith(text, autoescape=True)).limit(limit)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [StoredRun.show(row) for row in rows]

    async def steps(self, run_id: str) -> list[Any]:
        """The additions of each step of a run, in order."""
        query = select(run_steps.c.body).where(run_steps.c.run == run_id)
        query = query.order_by(run_steps.c.number)
        found = await self._store.read(lambda connection: connection.scalars(query).all())
        try:
            return [_read_object(body) for body in found]
        except (ValueError, TypeError) as error:
            raise CorruptRow(run_id, str(error), "a step of run", "wieldy_run_steps") from error

    async def sweep(self) -> None:
        """Find out which processes have died; the runs that they carried on have crashed."""
        await self._store.sweep()

    async def inside(self, run_id: str) -> list[StoredRun]:
        """The runs that were made in calls of a run, the oldest first."""
        query = select(runs).where(runs.c.parent == run_id).order_by(runs.c.created_at, runs.c.id)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [StoredRun.show(row) for row in rows]

    async def page(
        self,
        asked: RunFilter,
        after: Place | None,
        limit: int | None,
        seconds: float | None = None,
    ) -> "tuple[list[StoredRun], Place | None]":
        """Runs after a place, the newest first, and where the search was stopped.

        With `seconds` the search stops after this time.
        """
        search = asked.search(after)
        found = await self._store.read(lambda c: search.read(c, [*runs.c], limit, seconds))
        return [StoredRun.show(row) for row in found.rows], found.stopped

    async def list(
        self,
        state: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        limit: int | None = 50,
        outermost: bool = False,
    ) -> "list[StoredRun]":
        """Runs, the newest first; with `outermost` without those inside other runs."""
        found, _ = await self.page(RunFilter(state, agent, session, outermost), None, limit)
        return found

    async def until(self, run_id: str, done: Callable[[StoredRun], bool]) -> StoredRun:
        """Wait until a run meets a condition; a run whose process is gone has crashed."""
        with self._store.bell.listening(run_id) as listener:
            while True:
                run = await self.get(run_id)
                if run is None:
                    raise RunNotFound(run_id)
                if done(run):
                    return run
                if run.state == "running" and await self._store.sweep():
                    continue
                await listener.wait()


class _Beginning(PairedWrite):
    """The row of a new run, and its first step."""

    __slots__ = ()
    done, addition = None, _ADD_STEP

    def otherwise(self, connection: Connection) -> None:
        # An earlier attempt whose answer was lost was committed.
        return None


class _Step(PairedWrite):
    """A step of a run that is ours, and the row of the run with its new state.

    The row is locked until the commit, so a process that wants to take the run over waits.
    """

    __slots__ = ()
    done, addition = True, _ADD_STEP

    def otherwise(self, connection: Connection) -> bool:
        """Whether an earlier attempt of ours was committed."""
        run_id, token, number = self.values[-3:]
        there = _find(connection, run_id)
        return there is not None and (there.claim, there.steps) == (token, number + 1)


def _leave_operation(claim: RunClaim, state: str, error: str | None) -> Operation[list[str]]:
    """Leave a run; returns the ids of the runs and calls that this changes."""
    # A process that leaves a run on purpose has not crashed.
    left = {"state": state, "owner": None, "error": error, "tried_step": None}
    values = {**left, "changed_at": time.time()}
    mine = (runs.c.id == claim.run, runs.c.claim == claim.token, runs.c.state == "running")
    statement = update(runs).where(*mine).values(values)

    def leave(connection: Connection) -> list[str]:
        gone = connection.execute(statement).rowcount > 0 and state == "cancelled"
        below = end_below(connection, claim.run, _reason(claim.run, state)) if gone else []
        return [claim.run, *below]

    return leave


def _with_progress(step: Operation[T], run_id: str, call_id: str) -> Operation[T]:
    """A step that also counts the tries anew of what is around the run."""

    def take_step(connection: Connection) -> T:
        note_progress(connection, run_id, call_id)
        return step(connection)

    return take_step


def _reason(run_id: str, state: str) -> str:
    return f"the run {run_id}, which needs it, is {state}"


def _claim_run(
    connection: Connection, claim: RunClaim, states: Collection[str], by_hand: bool
) -> tuple[Row[Any] | None, bool]:
    """Claim a run in one of these states; returns its earlier row, and whether it is ours."""
    row = _find(connection, claim.run, hold=True)
    if row is None or row.state not in states:
        # An earlier attempt of ours may have been committed.
        return row, row is not None and row.claim == claim.token
    taken: dict[str, Any] = {"state": "running", "owner": claim.owner, "claim": claim.token}
    if by_hand:
        start_anew(connection, row.id)
        taken |= {"tried_step": None}
    elif row.state == "crashed":
        taken |= {"tries": count_tries(row) + 1, "tried_step": row.steps}
    connection.execute(update(runs).where(runs.c.id == claim.run).values(taken))
    return row, True


def _read_object(stored: str) -> dict[str, Any]:
    found = parse_json(stored, MAX_WRAPPED)
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def _find(connection: Connection, run_id: str, hold: bool = False) -> Row[Any] | None:
    query = select(runs).where(runs.c.id == run_id)
    return connection.execute(query.with_for_update() if hold else query).first()
