"""Run the calls that a crash left open, if that is safe or a person asks for it."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select

from wieldy.core.active_call import Extras
from wieldy.core.call import Call, Decision, Outcome, nested_run_id
from wieldy.core.canonical import digest_of
from wieldy.core.engine import Engine
from wieldy.core.errors import CorruptRow
from wieldy.core.permission.decisions import Desk

from .databases.tables import IS_WAITING, calls, runs
from .ledger_entry import Entry, read_entry
from .left_runs import MAX_TRIES, count_tries
from .nested_runs import note_progress, start_anew
from .recorder import LedgerRecorder
from .store_access import StoreAccess
from .stored_approvals import StoredApprovals

_GIVEN_UP = (
    f"it was run again {MAX_TRIES} times, and its process died each time; name its id to try again"
)


@dataclass(frozen=True, slots=True)
class CrashRecovery:
    """The parts that running calls again needs; `by` is the person who asks for it."""

    store: StoreAccess
    approvals: StoredApprovals
    recorder: LedgerRecorder
    engine: Engine
    desk: Desk
    by: str | None

    async def run_left(self, unknown: bool) -> list[Outcome]:
        """Run approved calls that never started and, with `unknown`, those that may run twice."""
        await self.store.sweep()
        entries = _readable_entries(
            await self.store.read(_left_open if unknown else _find_approved)
        )
        able = [e for e in entries if _find_obstacle(e, self.desk, False) is None]
        chosen = [entry for entry in able if not await self._is_given_up(entry)]
        outcomes = await asyncio.gather(*map(self._run, chosen))
        return [*outcomes, *await self._wake_waiting()]

    async def _is_given_up(self, entry: Entry) -> bool:
        """Whether a call runs an agent that has crashed its process again and again."""
        query = select(runs).where(runs.c.id == nested_run_id(entry.call.id))
        row = await self.store.read(lambda connection: connection.execute(query).first())
        return row is not None and count_tries(row) >= MAX_TRIES

    async def _wake_waiting(self) -> list[Outcome]:
        """Let the calls go on that waited for calls which have ended."""
        waiting = await self.store.read(_find_suspended)
        woken = [await self.desk.wake(call_id) for call_id in waiting]
        return [outcome for outcome in woken if outcome is not None]

    async def run_named(self, ids: Sequence[str]) -> list[Outcome]:
        """Run the calls that a person named; returns an outcome for each."""
        await self.store.sweep()
        entries = [await self.store.entry(call_id) for call_id in ids]
        return list(await asyncio.gather(*map(self._run_asked, entries)))

    async def rerun(self, call_id: str, extras: Extras) -> Outcome:
        """Run an unknown call again if that does no harm, or give what is known of it."""
        entry = await self.store.entry(call_id)
        if entry.free or _find_obstacle(entry, self.desk, False) is not None:
            return entry.outcome()
        with self.recorder.rerunning(call_id, self.by):
            return await self.engine.run(entry.call, extras=extras)

    async def _run_asked(self, entry: Entry) -> Outcome:
        obstacle = _find_obstacle(entry, self.desk, True)
        if obstacle is None:
            await self.store.write(lambda c: start_anew(c, nested_run_id(entry.call.id)))
            await self.store.write(lambda c: note_progress(c, "", entry.call.id))
            return await self._run(entry, asked=True)
        outcome = entry.outcome()
        outcome.metadata["not_recovered"] = obstacle
        return outcome

    async def _run(self, entry: Entry, asked: bool = False) -> Outcome:
        if entry.free:
            return await self.desk.run_approved(await self.approvals.find(entry.call.id))
        call = _agree_to_run(entry, self.by) if asked else entry.call
        with self.recorder.rerunning(call.id, self.by):
            return await self.engine.run(call)


def _agree_to_run(entry: Entry, by: str | None) -> Call:
    """The call with a decision: the person who named the call agrees that it runs."""
    call = entry.call
    if call.decision is not None:
        return call
    agreed = digest_of(call.arguments)
    decision = Decision(True, entry.fingerprint or "", agreed, at=time.time(), by=by)
    return call.replace(decision=decision)


def _find_obstacle(entry: Entry, desk: Desk, asked: bool) -> str | None:
    """Why a call is not run now, or None."""
    if entry.state != "unknown" and not entry.free:
        return f"it is {entry.state}"
    tool = desk.find_unchanged(entry.call.tool, entry.fingerprint)
    if tool is None:
        return "its tool is not here as it was"
    if entry.free:
        return None
    if entry.partial:
        return "not all of its arguments were kept"
    if asked:
        return None
    if not (tool.retryable or tool.resumable):
        return "its tool is neither read-only nor idempotent"
    # A call that ends its process would otherwise end every process that recovers it.
    return _GIVEN_UP if entry.tries >= MAX_TRIES else None


_FREE = and_(calls.c.state == "approved", calls.c.owner.is_(None))
# The calls of an agent's run go on with the run, which has their budget and their `deps`.
_UNFINISHED = select(runs.c.id).where(runs.c.state != "done")
_OF_NO_RUN = or_(calls.c.run.is_(None), calls.c.run.not_in(_UNFINISHED))


def _left_open(connection: Connection) -> list[Row[Any]]:
    return _find_waiting(connection, or_(calls.c.state == "unknown", _FREE))


def _find_approved(connection: Connection) -> list[Row[Any]]:
    return _find_waiting(connection, _FREE)


def _find_suspended(connection: Connection) -> list[str]:
    asked = and_(IS_WAITING, calls.c.state == "pending", calls.c.requests.is_not(None))
    query = select(calls.c.id).where(asked).order_by(calls.c.proposed_at)
    return list(connection.scalars(query))


def _find_waiting(connection: Connection, condition: ColumnElement[bool]) -> list[Row[Any]]:
    query = select(calls).where(IS_WAITING, condition, _OF_NO_RUN)
    return list(connection.execute(query.order_by(calls.c.proposed_at)).all())


def _readable_entries(rows: list[Row[Any]]) -> list[Entry]:
    found = []
    for row in rows:
        try:
            found.append(read_entry(row))
        except CorruptRow:
            # The row stays in the ledger, and `ledger.list` shows it to a person.
            continue
    return found
