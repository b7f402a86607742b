"""A row of the ledger, as a program reads it."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, TypeVar

from wieldy.core.call import Outcome, Status
from wieldy.core.errors import CallUnknown, CorruptRow
from wieldy.core.limits.off_loop import is_long_json, run_off_loop
from wieldy.core.permission.parked import Parked
from wieldy.core.permission.rulings import NOTHING_HOLDS
from wieldy.core.permission.waiting_calls import describe_waiting, waiting_facts

from .databases.tables import calls
from .row_values import (
    ENDS,
    error_facts,
    from_column,
    read_call,
    read_content,
    read_error,
    read_metadata,
    refuse_damaged,
    to_column,
)

T = TypeVar("T")
# What is told of a row that can't be read: what is text in any case, and when it was.
_NAMES = (
    "id",
    "tool",
    "agent",
    "session",
    "parent",
    "caller",
    "run",
    "provider_id",
    "idempotency_key",
    "fingerprint",
)
_MOMENTS = ("proposed_at", "started_at", "ended_at")
# The columns that may be long.
_TEXTS = ("arguments", "covered", "value", "content", "metadata", "requests", "answers", "paused")
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


class Entry(Outcome):
    """A recorded call: an outcome whose value is plain JSON, whatever the function returned.

    Attributes:
        state: The state in the ledger. `status` is `PENDING` until the call has ended, and
            `DENIED` for an expired call. A call that was not run in the mode `dry-run` has the
            state `dry_run`. A change of the permission mode is a row of the state `mode`.
        because: Which rule, trait or mode decided on the call.
        fingerprint: The fingerprint of the tool's definition.
        owner: The process that runs the call, while it does.
        asked: The digest of the arguments that the call was first made with.
        partial: Whether some of the arguments were not kept.
        proposed_at: When the call was made, in seconds since the epoch.
        started_at: When the function was entered.
        ended_at: When the call ended.
        tries: How often the call was run again because nobody knew how it had ended.
    """

    __slots__ = (
        "asked",
        "because",
        "ended_at",
        "fingerprint",
        "owner",
        "partial",
        "proposed_at",
        "started_at",
        "state",
        "tries",
    )

    def __init__(self, row: Any) -> None:
        self.state: str = row.state
        status = _entry_status(row.state)
        call = read_call(row)
        metadata = read_metadata(row)
        for name in ("repairs", "late"):
            if (kept := from_column(getattr(row, name))) is not None:
                metadata.setdefault(name, kept)
        value = from_column(row.value)
        error, content = read_error(row, status), read_content(row)
        if row.state == "pending" and row.requests is not None:
            requests = from_column(row.requests)
            metadata |= waiting_facts(requests)
            content = (describe_waiting(call, requests, row.reason),)
        super().__init__(
            call, status, value, error, content, metadata, _call_seconds(row, metadata)
        )
        self.fingerprint: str | None = row.fingerprint
        self.owner: str | None = row.owner
        self.asked: str | None = row.asked
        self.partial = bool(row.partial)
        self.because: str | None = row.reason or (
            None if row.started_at is None else NOTHING_HOLDS.because
        )
        self.proposed_at: float = row.proposed_at
        self.started_at: float | None = row.started_at
        self.ended_at: float | None = row.ended_at
        self.tries: int = row.tries or 0

    @property
    def attempts(self) -> int:
        """How often the function was entered, as far as that is known."""
        entered = 1 if self.started_at is not None else 0
        return int(self.metadata.get("attempts", entered))

    @property
    def cost(self) -> float | None:
        """The cost that the tool reported."""
        return self.metadata.get("cost")

    @property
    def meta(self) -> dict[str, Any]:
        """The other facts that the tool reported."""
        return dict(self.metadata.get("meta", {}))

    @property
    def ended(self) -> bool:
        """Whether the call has ended, even if it is unknown how."""
        return self.state in ENDS

    @property
    def free(self) -> bool:
        """Whether the call is approved and no process has claimed it yet."""
        return self.state == "approved" and self.owner is None

    def outcome(self) -> Outcome:
        """The outcome alone, as a repeated call gets it."""
        metadata = dict(self.metadata)
        return Outcome(
            self.call, self.status, self.value, self.error, self._content, metadata, self.seconds
        )


async def read_off_loop(rows: Iterable[Any], read: Callable[[], T]) -> T:
    """What is read of rows, in a thread if they are long."""
    kept = (getattr(row, name) for row in rows for name in _TEXTS)
    # A column of a damaged file may hold anything.
    texts = [each for each in kept if isinstance(each, str)]
    return await run_off_loop(is_long_json(*texts), read)


def read_entry(row: Any) -> Entry:
    """The entry of a row; `CorruptRow` if the row can't be read."""
    try:
        _refuse_damaged(row)
        return Entry(row)
    except _UNREADABLE as error:
        raise CorruptRow(str(row.id), _describe_error(error)) from error


def read_shown(row: Any) -> Entry:
    """The entry of a row, without the secrets that are kept while its call waits."""
    if row.covered is None:
        return read_entry(row)
    return read_entry(SimpleNamespace(**{**row._mapping, "arguments": row.covered, "partial": 1}))


def read_entry_or_say(row: Any) -> Entry:
    """The entry of a row, or an entry of unknown end that says what is wrong with the row."""
    try:
        return read_shown(row)
    except CorruptRow as error:
        unknown = CallUnknown(str(row.tool), error.reason)
        said = {"state": "unknown", "partial": 1, "error": to_column(error_facts(unknown))}
        return Entry(SimpleNamespace(**{**_tellable_columns(row), **said}))


def read_brief_entry(row: Any) -> Entry:
    """The entry of a row that was read without its long columns, which are empty in it."""
    known = {**dict.fromkeys(calls.columns.keys()), **row._mapping}
    return read_entry_or_say(SimpleNamespace(**known, _mapping=known))


def read_parked(row: Any) -> Parked:
    """The parked call of a row; `CorruptRow` if its arguments are not those that were parked."""
    try:
        _refuse_damaged(row)
        parked = Parked(
            read_call(row).replace(decision=None),
            row.fingerprint,
            reason=row.reason,
            at=row.proposed_at,
            expires_at=row.expires_at,
            repairs=from_column(row.repairs) or (),
            requests=_read_object(row.requests, "requests"),
            state=from_column(row.paused),
            covered=_read_object(row.covered, "covered"),
            begun=row.started_at,
            given=from_column(row.answers) if row.state == "pending" else None,
            claims=from_column(row.claims),
        )
        unchanged = parked.digest == row.digest or row.partial
    except _UNREADABLE as error:
        raise CorruptRow(str(row.id), _describe_error(error)) from error
    if not unchanged:
        raise CorruptRow(row.id, "its arguments are not those that were kept")
    return parked


def _read_object(stored: str | None, name: str) -> Any:
    found = from_column(stored)
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"{name} is no object")
    return found


def _tellable_columns(row: Any) -> dict[str, Any]:
    """The columns of a row without those that may be damaged."""
    names = ((name, getattr(row, name)) for name in _NAMES)
    found = {name: None if value is None else str(value) for name, value in names}
    moments = {name: getattr(row, name) for name in _MOMENTS}
    return {**dict.fromkeys(calls.columns.keys()), **found, **moments}


def _refuse_damaged(row: Any) -> None:
    """Raise if a column has bytes that are no text, or is of another type than it should be."""
    refuse_damaged(vars(row) if isinstance(row, SimpleNamespace) else row._mapping)


def _call_seconds(row: Any, metadata: dict[str, Any]) -> float | None:
    """How long a call took; earlier versions kept that in the metadata."""
    if row.seconds is not None:
        return float(row.seconds)
    taken = metadata.get("duration_ms")
    return None if taken is None else taken / 1000


def _entry_status(state: str) -> Status:
    if state in ("dry_run", "mode"):
        return Status.OK
    if state == "expired":
        return Status.DENIED
    return Status(state) if state in ENDS else Status.PENDING


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
