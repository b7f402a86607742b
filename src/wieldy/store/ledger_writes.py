"""The facts about a recorded call while it runs, and the rows written at its start and end."""

import time
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from wieldy.core.active_call import ActiveCall
from wieldy.core.call import NO_SCOPE, Call, Outcome, Status
from wieldy.core.canonical import digest_of
from wieldy.core.errors import CallUnknown, NotRecorded
from wieldy.core.secrets.credential import takes_secret
from wieldy.core.secrets.secret import redact_text

from . import transitions
from .databases.database import Operation
from .databases.prepared_statements import Values, Write, insert_if_new
from .databases.tables import calls
from .process_owner import ProcessOwner
from .row_values import (
    Written,
    argument_columns,
    around_column,
    call_columns,
    from_column,
    to_column,
    written_arguments,
    written_outcome,
)

# Longer text would take long to write.
_BRIEF = 50_000
_MAX_REFUSED = 100_000


class Record:
    """The facts about a call's row while the call runs."""

    __slots__ = (
        "begun",
        "id",
        "is_new",
        "over",
        "owner",
        "proposed_at",
        "repeated",
        "started_at",
        "written",
    )

    def __init__(self, call: Call) -> None:
        # A call with a new id and without a key can't have been made before.
        self.id, unknown = call.named()
        self.is_new = unknown and call.idempotency_key is None
        self.proposed_at = time.time()
        self.started_at: float | None = None
        self.begun = False
        self.over = False
        self.owner: ProcessOwner | None = None
        self.repeated = False
        # The arguments as they are kept, if they are large and were written off the loop.
        self.written: tuple[str, int] | None = None

    def leave(self) -> None:
        """Note that the call no longer runs, and that its row says so."""
        if self.owner is not None:
            self.owner.end(self)

    def give_up(self) -> None:
        """Note that the call no longer runs, and that this can't be written."""
        if self.owner is not None:
            self.owner.give_up(self)


def digest_without_secrets(active: ActiveCall, written: str | None = None) -> str:
    """A digest of the arguments without their secrets, to recognise a repeated call.

    `written` are the arguments as they are kept, where these are known.
    """
    return digest_of(from_column(written or written_arguments(active.arguments, active.secrets)[0]))


def start_operation(active: ActiveCall, record: Record, owner: ProcessOwner) -> transitions.Put:
    """The operation that writes that a call starts."""
    call, tool = active.call, active.tool
    arguments, partial = record.written or written_arguments(active.arguments, active.secrets)
    begun = (record.proposed_at, record.started_at, owner.id)
    row: Values = (record.id, tool.name, "started", tool.fingerprint, arguments, partial, *begun)
    start, brief = transitions.START, len(arguments) < _BRIEF
    if (
        call.scope is not NO_SCOPE
        or active.eventful
        or call.provider_id is not None
        or call.idempotency_key is not None
        or active.because is not None
    ):
        more = _start_columns(active, arguments)
        start, row = insert_if_new(calls, (*start.names, *more)), (*row, *more.values())
    return transitions.Put(start, row, brief)


def _start_columns(active: ActiveCall, arguments: str) -> dict[str, str]:
    """The columns that only some calls have at their start."""
    call, scope, repairs = active.call, active.call.scope, active.noted("repairs")
    said = {
        "asked": None
        if call.idempotency_key is None
        else digest_without_secrets(active, arguments),
        "agent": scope.agent,
        "session": scope.session,
        "parent": scope.parent,
        "caller": scope.caller,
        "run": scope.run,
        "around": around_column(scope),
        "provider_id": call.provider_id,
        "idempotency_key": call.idempotency_key,
        "reason": active.because,
        "repairs": to_column(repairs, active.secrets) if repairs else None,
    }
    return {name: value for name, value in said.items() if value is not None}


class Ending(Write):
    """The end of a call, which may have no row yet."""

    __slots__ = ("_outcome", "_record", "_run")
    done = True

    def __init__(
        self, active: ActiveCall, outcome: Outcome, record: Record, written: Written | None = None
    ) -> None:
        self._run, self._outcome, self._record = active, outcome, record
        record.over = True
        written = written or written_outcome(outcome, active.secrets)
        state, value, content, error, metadata, seconds = written
        owner = None if record.owner is None else record.owner.id
        begun = (time.time(), record.id, owner, record.started_at)
        if content is None and error is None and metadata is None:
            self.statement, self.values = transitions.FINISH, (state, value, seconds, *begun)
        else:
            self.statement, self.values = transitions.FINISH_FULLY, (*written, *begun)
        self.brief = value is None or len(value) < _BRIEF

    @property
    def operation(self) -> Operation[bool]:
        """The operation that writes the end; returns whether the row now says so."""
        return self if self._record.started_at is not None else self.otherwise

    def otherwise(self, connection: Connection) -> bool:
        run, begun = self._run, self._record.started_at
        written = dict(zip(self.statement.names, self.values, strict=True))
        ended = {name: written.get(name) for name in transitions.END}
        there = None if begun is None else transitions.find_row(connection, run.call.id)
        if there is not None:
            return bool(there.ended_at == ended["ended_at"])
        if begun is None and run.call.decision is not None:
            transitions.refuse_approved(connection, run.call.id, ended)
        row = {**call_columns(run.call), **self._request_columns(), **ended}
        if row["state"] != "ok":
            # Only a call with a value uses up its key.
            row["idempotency_key"] = None
        entered = None if isinstance(self._outcome.error, NotRecorded) else begun
        transitions.put({**row, "started_at": entered})(connection)
        return True

    def settled(self) -> None:
        self._record.leave()

    def refused(self) -> None:
        self._record.give_up()

    def smaller(self, error: BaseException) -> "Ending | None":
        outcome = self._outcome
        if self._record.started_at is None or (outcome.value is None and not outcome.content):
            return None
        said = unrecorded_outcome(outcome, self._record, str(error)).error
        left = Outcome(outcome.call, Status.UNKNOWN, error=said, seconds=outcome.seconds)
        return Ending(self._run, left, self._record)

    def _request_columns(self) -> dict[str, Any]:
        """The columns of the request, for a call whose row was not written at its start."""
        run = self._run
        row: dict[str, Any] = {"proposed_at": self._record.proposed_at, "reason": run.because}
        tool = getattr(run, "tool", None)
        if tool is None:
            return row
        row.update(tool=tool.name, fingerprint=tool.fingerprint)
        # Arguments that were not accepted may hold a secret anywhere, if the tool takes secrets.
        if "values" in vars(run) or not takes_secret(tool):
            sent = run.call.arguments if run.accepted is None else run.accepted
            write = argument_columns if "values" in vars(run) else _refused_columns
            row.update(write(sent, run.secrets))
        return row


def unrecorded_outcome(outcome: Outcome, record: Record, reason: str) -> Outcome:
    """The outcome of a call whose end could not be recorded."""
    if record.started_at is None:
        outcome.metadata["unrecorded"] = reason
        return outcome
    call, status = outcome.call, outcome.status.value
    unknown = CallUnknown(call.tool, f"it ended as {status}, which could not be recorded: {reason}")
    unknown.__cause__ = outcome.error
    return Outcome(call, Status.UNKNOWN, outcome.value, unknown, outcome._content, outcome.metadata)


def _refused_columns(sent: Any, secrets: tuple[str, ...]) -> dict[str, Any]:
    """Arguments that were not accepted, cut to their beginning, because they never run."""
    if isinstance(sent, str) and len(sent) <= _MAX_REFUSED:
        with suppress(ValueError):
            sent = from_column(sent)
    kept = None if isinstance(sent, str) else argument_columns(sent, secrets)
    # Secrets are covered before the cut, because half a secret would not be recognised.
    whole = redact_text(sent, secrets) if kept is None else kept["arguments"]
    if len(whole) <= _MAX_REFUSED:
        return kept or argument_columns(sent, secrets)
    marker = f"… [cut: {_MAX_REFUSED:,} of {len(whole):,} characters kept]"
    return {"arguments": to_column(whole[:_MAX_REFUSED] + marker), "partial": 1}
