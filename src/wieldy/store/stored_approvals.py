"""Parked calls in a store: seen by every process, decided by one, run by one."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, func, select

from wieldy.core.active_call import ActiveCall
from wieldy.core.call import Call, Decision, Outcome
from wieldy.core.canonical import digest_of
from wieldy.core.errors import (
    CallDenied,
    CallNotFound,
    CallUnknown,
    CorruptRow,
    NotRecorded,
    StoreError,
    StoreUnavailable,
)
from wieldy.core.limits.off_loop import is_large, run_off_loop
from wieldy.core.permission.parked import (
    Edited,
    Parked,
    ParkedFilter,
    check_agreement,
    went_on,
)
from wieldy.core.run_errors import RunEnded

from . import transitions
from .databases.tables import calls, in_state
from .ledger_entry import Entry, read_entry, read_off_loop, read_parked
from .nested_runs import find_ended
from .recorder import LedgerRecorder
from .row_values import (
    argument_columns,
    call_columns,
    decision_columns,
    from_column,
    outcome_columns,
    reveal_arguments,
    to_column,
)
from .store_access import StoreAccess
from .wakeups import Repeated

_REMEMBERED = 1000
_log = logging.getLogger("wieldy")


class StoredApprovals:
    """The parked calls of all processes on a store."""

    def __init__(self, store: StoreAccess, recorder: LedgerRecorder) -> None:
        self._store = store
        self._recorder = recorder
        # The `deps` of calls that were parked here, which can't be stored.
        self._deps: OrderedDict[str, Any] = OrderedDict()

    async def park(self, parked: Parked, secrets: tuple[str, ...] = ()) -> bool:
        """Keep a call until it is decided; False if its id is taken."""
        if self._recorder.reruns(parked.id):
            raise CallDenied(parked.tool, "a person has to agree that it runs again")
        row = await run_off_loop(is_large(parked.arguments), lambda: _parked_row(parked, secrets))
        try:
            first = await self._store.write(transitions.put(row))
            taken = first == parked.id and not await self._repeats_key(parked.call)
        except StoreError as error:
            raise NotRecorded(parked.tool, str(error)) from error
        if taken:
            return False
        if first is not None:
            raise Repeated(first)
        self._remember_deps(parked)
        return True

    async def suspend(self, parked: Parked, active: ActiveCall) -> bool:
        """Keep a call whose tool asked for input; False if another process has the call."""
        values = {
            **await _write_arguments(parked.call.arguments, active.secrets),
            "reason": parked.reason,
            "requests": to_column(parked.requests),
            "paused": to_column(parked.state),
            "expires_at": parked.expires_at,
            "claims": _claims_column(parked),
        }
        record = active.record
        if record.owner is None:
            raise CallUnknown(parked.tool, "it asked for input before it had started")
        begun = (parked.id, record.owner.id, record.started_at)
        try:
            ours = await self._store.write(lambda c: transitions.suspend(c, *begun, values))
        except StoreError as error:
            raise CallUnknown(parked.tool, str(error)) from error
        record.leave()
        self._remember_deps(parked)
        self._store.bell.ring(parked.id)
        return ours

    async def pending(self, wanted: ParkedFilter) -> list[Parked]:
        """The calls that wait, the oldest first: undecided, or approved and not yet run."""
        found: list[Parked] = []
        while True:
            rows = await self._read_waiting(wanted)
            found += await read_off_loop(rows, partial(self._read_unclaimed, rows))
            if wanted.limit is None or len(rows) < wanted.limit or len(found) >= wanted.limit:
                return found[: wanted.limit]
            wanted = wanted._replace(after=(rows[-1].proposed_at, rows[-1].id))

    async def _read_waiting(self, wanted: ParkedFilter) -> list[Row[Any]]:
        """The rows of waiting calls; those that a dead process had claimed are free again."""
        rows = await self._store.read(lambda c: _find_waiting(c, wanted))
        # A store that can't be written is read as it is.
        with suppress(StoreUnavailable):
            claimed = {row.owner for row in rows} - {None, (await self._store.opened()).owner.id}
            if claimed and await self._store.sweep():
                rows = await self._store.read(lambda c: _find_waiting(c, wanted))
        return rows

    def _read_unclaimed(self, rows: Sequence[Row[Any]]) -> list[Parked]:
        found = []
        for row in rows:
            if row.owner is not None:
                continue
            try:
                found.append(self._read_row(row))
            except CorruptRow as error:
                _log.error("A pending call is left out. %s", error)
        return found

    async def find(self, call_id: str) -> Parked:
        """The parked call of this id, decided or not; `CallNotFound` otherwise."""
        row = await self._store.read(lambda c: transitions.find_row(c, call_id))
        there = _require_parked(row, call_id)
        return await read_off_loop([there], lambda: self._read_row(there))

    async def find_call(self, call_id: str) -> Call:
        """The recorded call of this id; `CallNotFound` otherwise."""
        return (await self._store.entry(call_id)).call

    async def approve(
        self, parked: Parked, decision: Decision, edited: Edited | None, here: bool
    ) -> Call:
        """Record an approval and return the call as decided; the first decision holds."""
        opened = await self._store.opened()
        values = {**decision_columns(decision), "owner": opened.owner.id if here else None}
        if decision.answers is not None:
            values["answers"] = to_column(decision.answers)
        if edited is not None:
            values.update(await _write_arguments(edited.arguments, edited.secrets))
            values["repairs"] = _repairs_column(edited.repairs, edited.secrets)
        found = (parked.id, parked.begun)

        def approve(connection: Connection) -> Row[Any] | None:
            # Answers of calls come by themselves; a person decides for a run that goes on.
            ended = None if parked.waits_for else find_ended(connection, parked.id)
            if ended is not None:
                raise RunEnded(ended.id, parked.id, ended.state, ended.error)
            return transitions.approve(connection, *found, values)

        with self._given_back(parked.id, opened.owner.id):
            row = await opened.write(approve)
            return await self._decided_call(row, parked, decision)

    async def note_answers(self, parked: Parked, answers: Mapping[str, Any]) -> None:
        """Keep some of the answers that a call waits for, if it still waits for them."""
        found = (parked.id, parked.begun)
        await self._store.write(lambda c: transitions.note_answers(c, *found, answers))
        self._store.bell.ring(parked.id)

    async def refuse(self, parked: Parked, outcome: Outcome) -> bool:
        """Record a denial with its outcome; returns whether this decision is the one that holds."""
        call, decision = outcome.call, outcome.call.decision
        assert decision is not None
        values = {**decision_columns(decision), **outcome_columns(outcome, ())}
        values["ended_at"] = decision.at
        if outcome.metadata.get("expired"):
            values["state"] = "expired"
        found = (parked.id, parked.begun)
        row = await self._store.write(lambda c: transitions.refuse(c, *found, values))
        decided = await self._decided_call(row, parked, decision)
        self._deps.pop(call.id, None)
        assert decided.decision is not None
        return decided.decision.at == decision.at

    async def claim(self, call_id: str) -> bool:
        """Whether the caller may run this approved call; the first to start it runs it."""
        opened = await self._store.opened()
        with self._given_back(call_id, opened.owner.id):
            entry = await self._store.entry(call_id)
            if entry.owner not in (None, opened.owner.id) and await self._store.sweep():
                entry = await self._store.entry(call_id)
        return entry.state == "approved" and entry.owner in (None, opened.owner.id)

    async def abandon(self, outcome: Outcome) -> bool:
        """End an approved call that nobody has claimed; returns whether this ended it."""
        call_id = outcome.call.id
        if not await self.claim(call_id):
            return False
        values = {**outcome_columns(outcome, ()), "state": "expired", "ended_at": time.time()}
        ended = await self._store.write(lambda c: transitions.abandon(c, call_id, values))
        if ended:
            self._deps.pop(call_id, None)
            self._store.bell.ring(call_id)
        return ended

    async def finish(self, call_id: str, outcome: Outcome) -> None:
        """Forget what is kept here; the recorder has recorded the end."""
        self._deps.pop(call_id, None)

    async def outcome(self, call_id: str) -> Outcome:
        """How a decided call ended, or its receipt if nobody runs it or it waits again."""
        entry = await self._store.until(call_id, _at_rest)
        return entry.outcome()

    async def watch(self, call_id: str) -> Outcome | None:
        """Wait until the call has ended; None if it is approved and nobody runs it."""
        entry = await self._store.until(call_id, lambda entry: entry.ended or entry.free)
        return entry.outcome() if entry.ended else None

    async def find_end(self, call_id: str) -> Outcome | None:
        """How a call ended, or None while it is open; `CallNotFound` if nothing is known of it."""
        entry = await self._store.entry(call_id)
        return entry.outcome() if entry.ended else None

    async def _repeats_key(self, call: Call) -> bool:
        """Whether the call with this id also has the same key, because it was made again."""
        key = call.idempotency_key
        if key is None:
            return False
        row = await self._store.read(lambda c: transitions.find_key(c, key))
        return row is not None and row.id == call.id

    def _remember_deps(self, parked: Parked) -> None:
        if parked.deps is not None:
            self._deps[parked.id] = parked.deps
            if len(self._deps) > _REMEMBERED:
                self._deps.popitem(last=False)

    @contextmanager
    def _given_back(self, call_id: str, owner: str) -> Iterator[None]:
        """Release an approved call if the `with` block fails before running it."""
        try:
            yield
        except (StoreError, asyncio.CancelledError):
            self._store.insist(lambda c: transitions.release(c, call_id, owner))
            raise

    def _read_row(self, row: Row[Any]) -> Parked:
        parked = read_parked(row)
        parked.deps = self._deps.get(parked.id)
        return parked

    async def _decided_call(self, row: Row[Any] | None, seen: Parked, decision: Decision) -> Call:
        """The call as it was decided first; `AlreadyDecided` if that was otherwise."""
        there = _require_parked(row, seen.id)
        if there.state == "pending":
            raise went_on(seen, there.decided_by)
        call = await read_off_loop([there], lambda: read_entry(there).call)
        self._store.bell.ring(seen.id)
        check_agreement(call, decision)
        return call


def _at_rest(entry: Entry) -> bool:
    return entry.ended or entry.free or entry.state == "pending"


def _find_waiting(connection: Connection, wanted: ParkedFilter) -> list[Row[Any]]:
    """The rows of the waiting calls that match, the oldest first."""
    conditions = []
    for column in (calls.c.agent, calls.c.session, calls.c.caller):
        name = getattr(wanted, column.name)
        if name is not None:
            # The index over sessions is avoided: few calls wait, but a session may have many.
            conditions.append(func.coalesce(column, "", type_=column.type) == name)
    if wanted.call_id is not None:
        conditions.append(calls.c.id == wanted.call_id)
    if wanted.after is not None:
        at, call_id = wanted.after
        conditions += [
            calls.c.proposed_at >= at,
            (calls.c.proposed_at > at) | (calls.c.id > call_id),
        ]
    rows: list[Row[Any]] = []
    # One state after the other, because the index has the oldest of each.
    for state in ("pending", "approved"):
        query = select(calls).where(in_state(state), *conditions)
        query = query.order_by(calls.c.proposed_at, calls.c.id).limit(wanted.limit)
        rows += connection.execute(query)
    return sorted(rows, key=lambda row: (row.proposed_at, row.id))[: wanted.limit]


def _require_parked(row: Row[Any] | None, call_id: str) -> Row[Any]:
    """The row of a call that waits or has waited; other calls were never to be decided."""
    if row is None or row.digest is None:
        raise CallNotFound(call_id)
    return row


def _parked_row(parked: Parked, secrets: tuple[str, ...]) -> dict[str, Any]:
    arguments = _argument_columns(parked.call.arguments, secrets)
    return {
        **call_columns(parked.call),
        **arguments,
        "state": "pending",
        "asked": digest_of(from_column(arguments["covered"] or arguments["arguments"])),
        "fingerprint": parked.fingerprint,
        "reason": parked.reason,
        "repairs": _repairs_column(parked.repairs, secrets),
        "proposed_at": parked.at,
        "expires_at": parked.expires_at,
        "claims": _claims_column(parked),
    }


def _claims_column(parked: Parked) -> str | None:
    return to_column(parked.claims) if parked.claims else None


async def _write_arguments(arguments: Any, secrets: tuple[str, ...]) -> dict[str, Any]:
    return await run_off_loop(is_large(arguments), lambda: _argument_columns(arguments, secrets))


def _argument_columns(arguments: Any, secrets: tuple[str, ...]) -> dict[str, Any]:
    """The columns with all arguments while the call waits, and what replaces them then."""
    plain = reveal_arguments(arguments)
    whole, covered = argument_columns(plain, ()), argument_columns(plain, secrets)
    differs = covered["arguments"] != whole["arguments"]
    return {
        **whole,
        "covered": covered["arguments"] if differs else None,
        "digest": digest_of(from_column(whole["arguments"])),
    }


def _repairs_column(repairs: Sequence[Any], secrets: tuple[str, ...]) -> str | None:
    return to_column(repairs, secrets) if repairs else None
