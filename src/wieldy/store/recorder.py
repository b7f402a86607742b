"""Record each call before its function is entered, and before anybody is shown its end."""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from wieldy.core.active_call import ActiveCall, Handler, LateRefusal, Objection
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.canonical import digest_of
from wieldy.core.errors import (
    CallNotFound,
    KeyTaken,
    NotChecked,
    NotRecorded,
    StoreError,
    StoreUnavailable,
    ToolFailed,
)
from wieldy.core.limits.call_limits import TooManyCalls
from wieldy.core.limits.off_loop import is_large, run_off_loop, start_off_loop
from wieldy.core.permission.modes import ModeChange

from . import transitions
from .databases.database import Operation
from .databases.database_errors import ValueRefused, translate_error
from .databases.prepared_statements import Write
from .ledger_entry import Entry, read_off_loop, read_shown
from .ledger_writes import (
    Ending,
    Record,
    digest_without_secrets,
    start_operation,
    unrecorded_outcome,
)
from .process_owner import ProcessOwner
from .row_values import (
    Written,
    decision_columns,
    from_column,
    mode_row,
    outcome_columns,
    to_column,
    written_arguments,
    written_outcome,
)
from .store_access import StoreAccess
from .wakeups import Repeated

_PENDING = Status.PENDING


class LedgerRecorder:
    """The middleware of the ledger, which records starts and ends."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        self._reruns: dict[str, str | None] = {}

    @contextmanager
    def rerunning(self, call_id: str, by: str | None) -> Iterator[None]:
        """Let the call of this id, whose end is unknown, start again during the `with` block."""
        self._reruns[call_id] = by
        try:
            yield
        finally:
            self._reruns.pop(call_id, None)

    def reruns(self, call_id: str) -> bool:
        """Whether the call of this id is being run again."""
        return call_id in self._reruns

    def once(self, proceed: Handler) -> Handler:
        """Return the first outcome of a call that was made before."""

        def look_back(active: ActiveCall) -> Awaitable[Outcome]:
            active.record = record = Record(active.call)
            return proceed(active) if record.is_new else self._run_once(active, proceed)

        return look_back

    async def _run_once(self, active: ActiveCall, proceed: Handler) -> Outcome:
        try:
            key = active.call.idempotency_key
            if key is not None and not _is_own_key(active.call, key) and not self._has_row(active):
                await self._look_for_first(active, key)
            return await proceed(active)
        except Repeated as repeated:
            active.record.repeated = True
            return await self._first_outcome(active, repeated.first, repeated.row)

    def start(self, proceed: Handler, objects: Objection) -> Handler:
        """Record durably that the function is about to be entered."""
        store = self._store

        async def judge_again(active: ActiveCall) -> Outcome:
            why_not = objects(active)
            if why_not is not None and not isinstance(why_not, LateRefusal):
                why_not = await why_not
            return await (proceed(active) if why_not is None else why_not.outcome())

        def enter(active: ActiveCall) -> Awaitable[Outcome]:
            record: Record = active.record
            opened = store.in_use
            if opened is None or record.begun or record.over or active.is_large:
                return self._start(active, record, judge_again)
            start = self._begin(active, record, opened.owner)
            if isinstance(start, Write) and opened.commit_here(start):
                record.begun = True
                return proceed(active)
            return self._start(active, record, judge_again, start)

        return enter

    async def _start(
        self,
        active: ActiveCall,
        record: Record,
        proceed: Handler,
        start: Operation[str | None] | None = None,
    ) -> Outcome:
        # Other people's middleware may call this twice; it is still one call.
        if not record.begun:
            _refuse_what_is_over(active, record)
            try:
                opened = self._store.in_use or await self._store.opened()
                if start is None or record.owner is not opened.owner:
                    # The store was reopened meanwhile, and the former owner has left.
                    if active.is_large:
                        record.written = await start_off_loop(
                            lambda: written_arguments(active.arguments, active.secrets)
                        )
                    start = self._begin(active, record, opened.owner)
                first = await opened.write(start)
            except StoreError as error:
                if not isinstance(error, StoreUnavailable):
                    # The write was refused, so there is no row.
                    record.leave()
                raise NotRecorded(active.tool.name, str(error)) from error
            if first is not None:
                record.leave()
                if not record.is_new:
                    raise Repeated(first)
                # The same call was made again meanwhile, and was recorded first.
                record.repeated = True
                return await self._first_outcome(active, first)
            record.begun = True
            _refuse_what_is_over(active, record)
        return await proceed(active)

    def end(self, active: ActiveCall, outcome: Outcome) -> Awaitable[Outcome]:
        """Record the outcome durably and return it, or an outcome that says why that failed."""
        record: Record = active.record or Record(active.call)
        if outcome.status is _PENDING or record.repeated:
            return _known_outcome(outcome)
        if is_large((outcome.value, outcome._content)):
            return self._end_off_loop(active, outcome, record)
        return self._end_now(active, outcome, record)

    async def _end_off_loop(self, active: ActiveCall, outcome: Outcome, record: Record) -> Outcome:
        """The same for a large value, which is written in a thread."""
        writing = start_off_loop(lambda: written_outcome(outcome, active.secrets))
        left = written = None
        try:
            try:
                written = await asyncio.shield(writing)
            except asyncio.CancelledError as error:
                # The caller has left, and is told so when the end is recorded.
                left = error
                written = await writing
        except MemoryError:
            pass  # It is tried once more, and then written when there is memory again.
        except BaseException:
            self.end_soon(active, outcome)
            raise
        outcome = await self._end_now(active, outcome, record, written)
        if left is not None:
            raise left
        return outcome

    def _end_now(
        self, active: ActiveCall, outcome: Outcome, record: Record, written: Written | None = None
    ) -> Awaitable[Outcome]:
        opened = self._store.in_use
        try:
            ending = Ending(active, outcome, record, written)
            if active.foretold is not None and record.begun:
                active.foretold(outcome)
            ended = record.begun and opened is not None and opened.commit_here(ending)
        except MemoryError as error:
            # The end is written when there is memory again, and the caller is told.
            self._store.owe(_end_later(active, outcome, record))
            return _known_outcome(unrecorded_outcome(outcome, record, str(translate_error(error))))
        except BaseException:
            # The write was interrupted. It may have succeeded, and repeating it is safe.
            self.end_soon(active, outcome)
            raise
        if not ended:
            return self._end(active, outcome, record, ending)
        self._ring_bell(record)
        return _known_outcome(outcome)

    async def _end(
        self, active: ActiveCall, outcome: Outcome, record: Record, ending: Ending
    ) -> Outcome:
        """Record the end of a call that needs more work, or that never started."""
        operation = ending.operation
        if isinstance(outcome.error, TooManyCalls) and not record.begun:
            # A caller with too many calls must not fill the store. Observers are told all the same.
            return outcome
        if outcome.error is not None and isinstance(outcome.error, NotRecorded):
            # The store just failed, and the caller does not wait for it again. An approved call
            # stays approved, and may run when the rules can be read.
            if active.call.decision is None or not isinstance(outcome.error, NotChecked):
                self._store.insist(operation)
            return outcome
        try:
            recorded = await self._store.write(operation)
        except (StoreError, MemoryError) as error:
            smaller = ending.smaller(error) if isinstance(error, ValueRefused) else None
            if smaller is None:
                self._store.owe(operation)
            else:
                self._store.insist(smaller)
            return unrecorded_outcome(outcome, record, str(translate_error(error)))
        except BaseException:
            # The answer was lost in a cancellation. Repeating the write is safe.
            self._store.insist(operation)
            raise
        self._ring_bell(record)
        # If the function was not entered here, the row belongs to the process that entered it.
        if not recorded and record.begun:
            return unrecorded_outcome(outcome, record, "another process took the call over")
        return outcome

    def _ring_bell(self, record: Record) -> None:
        if record.owner is not None:
            record.owner.running.pop(record, None)
        self._store.bell.ring(record.id)

    async def note_mode(self, change: ModeChange) -> None:
        """Make it durable that a permission mode was changed: a row of its own kind."""
        row = mode_row(change)
        await self._store.write(transitions.put(row))
        self._store.bell.ring(row["id"])

    def end_soon(self, active: ActiveCall, outcome: Outcome) -> None:
        """Record the outcome without awaiting anything."""
        self._store.insist(Ending(active, outcome, active.record or Record(active.call)).operation)

    def late(self, active: ActiveCall, outcome: Outcome) -> None:
        """Record how an abandoned function ended."""
        kept = outcome_columns(outcome, active.secrets)
        late = {name: from_column(kept[name]) for name in ("value", "error")}
        text = to_column({"status": outcome.status.value, "at": time.time(), **late})
        call_id = active.call.id
        self._store.insist(lambda connection: transitions.note_late(connection, call_id, text))

    def _has_row(self, active: ActiveCall) -> bool:
        """Whether the call has a row already, because it was approved or is run again."""
        return active.call.decision is not None or active.call.id in self._reruns

    async def _look_for_first(self, active: ActiveCall, key: str) -> None:
        try:
            row = await self._store.read(lambda c: transitions.find_key(c, key))
        except StoreError as error:
            raise NotRecorded(active.tool.name, str(error)) from error
        if row is not None:
            raise Repeated(row.id, row)

    def _begin(
        self, active: ActiveCall, record: Record, owner: ProcessOwner
    ) -> Operation[str | None]:
        """The operation that writes the start; returns the id of the call that this one repeats."""
        record.owner = owner
        now, covered = owner.begin(record, record.proposed_at)
        record.started_at = record.started_at or now
        if (active.call.decision or self._reruns) and self._has_row(active):
            return self._resume_operation(active, record, owner)
        start = start_operation(active, record, owner)
        if covered:
            return start

        def reach_back(connection: Connection) -> str | None:
            owner.beat(connection)
            first: str | None = start(connection)
            return first

        return reach_back

    def _resume_operation(
        self, active: ActiveCall, record: Record, owner: ProcessOwner
    ) -> Operation[str | None]:
        """The operation that starts a call with a row; returns its id if another process has it."""
        call_id, step = record.id, self._step(active)
        assert record.started_at is not None
        begun = (call_id, owner.id, record.started_at)

        def resume(connection: Connection) -> str | None:
            if not transitions.resume(connection, *begun, *step):
                return call_id
            owner.resume(connection, call_id, record)
            return None

        return resume

    def _step(self, active: ActiveCall) -> tuple[str, dict[str, Any], float | None]:
        """The state from which a call is started, the columns to write, and the decision."""
        if active.call.id in self._reruns:
            return "unknown", self._note_rerun(active), None
        decision = active.call.decision
        assert decision is not None
        return "approved", {}, decision.at

    def _note_rerun(self, active: ActiveCall) -> dict[str, Any]:
        """Note that a call of unknown end runs again; returns the decision for that, as columns."""
        by, decision = self._reruns[active.call.id], active.call.decision
        active.note("recovered", True)
        if by is not None:
            active.note("recovered_by", by)
        tries = {"tries": transitions.ONE_MORE_TRY}
        if decision is None:
            return tries
        agreed = {"approved": 1, "digest": decision.arguments_digest, **decision_columns(decision)}
        return {**tries, **agreed}

    async def _first_outcome(self, active: ActiveCall, first: str, row: Any = None) -> Outcome:
        """The outcome of the first of equal calls, or its receipt; waits while that call runs.

        With the row of the first call, nothing is read if that call has ended.
        """
        try:
            _refuse_itself(active, first)
            if row is None:
                entry = await self._store.entry(first, True)
            else:
                entry = await read_off_loop([row], lambda: read_shown(row))
            if not await run_off_loop(active.is_large, lambda: _asks_the_same(active, entry)):
                raise KeyTaken(active.tool.name, first)
            if not _is_settled(entry):
                entry = await self._store.until(first, _is_settled)
        except (StoreError, CallNotFound) as error:
            raise NotRecorded(active.tool.name, str(error)) from error
        outcome = entry.outcome()
        outcome.metadata["repeated"] = True
        if outcome.metadata.get("untrusted"):
            # The first call may have been made in another session.
            active.come_from_outside()
        return outcome


async def _known_outcome(outcome: Outcome) -> Outcome:
    return outcome


def _asks_the_same(active: ActiveCall, first: Entry) -> bool:
    """Whether a call has the tool and the arguments of an earlier one."""
    asked = first.asked or digest_of(first.call.arguments)
    return first.call.tool == active.tool.name and asked == digest_without_secrets(active)


def _end_later(active: ActiveCall, outcome: Outcome, record: Record) -> Operation[bool]:
    """The operation that writes an end for which there is no memory now."""
    record.over = True

    def write_end(connection: Connection) -> bool:
        ending = Ending(active, outcome, record)
        written = ending.operation(connection)
        ending.settled()
        return written

    return write_end


def _is_settled(entry: Entry) -> bool:
    """Whether a call has ended, or waits for somebody."""
    return entry.ended or entry.free or entry.state == "pending"


def _is_own_key(call: Call, key: str) -> bool:
    """Whether a key is made of the call's id or run: it is found when the row is written."""
    return key == call.id or (call.scope.run is not None and key.startswith(f"{call.scope.run}:"))


def _refuse_what_is_over(active: ActiveCall, record: Record) -> None:
    """Raise if a call has ended because its middleware answered while a task went on."""
    if record.over:
        raise NotRecorded(active.tool.name, "it has ended already")


def _refuse_itself(active: ActiveCall, first: str) -> None:
    """Raise if a call repeats a call that it is nested in, because it would wait for itself."""
    if any(above.call.id == first for above in active.ancestors()):
        raise ToolFailed(RecursionError(f"it repeats the call {first}, in which it is made"))
