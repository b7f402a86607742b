"""Convert outcomes, ledger entries and parked calls to plain data for JSON output."""

from typing import TYPE_CHECKING, Any

from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Call, Outcome
from wieldy.core.permission.parked import Parked
from wieldy.core.secrets.covered_content import shown_value
from wieldy.core.timestamps import iso_time

if TYPE_CHECKING:
    from wieldy.store.ledger_entry import Entry


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """An outcome as data. The value is read from the text, in which secrets are masked."""
    facts = outcome.to_dict()
    return {
        "call_id": facts.pop("call_id"),
        "tool": facts.pop("tool"),
        "state": facts.pop("status"),
        **facts,
        "value": _outcome_value(outcome),
        "decision": _decision_data(outcome.call),
    }


def entry_data(entry: "Entry") -> dict[str, Any]:
    """A recorded call as data, with everything that the ledger has about it."""
    call = entry.call
    return {
        "call_id": call.id,
        "tool": call.tool,
        "state": entry.state,
        "fingerprint": entry.fingerprint,
        "arguments": call.arguments,
        "arguments_whole": not entry.partial,
        **call.scope.to_dict(),
        "provider_id": call.provider_id,
        "idempotency_key": call.idempotency_key,
        "proposed_at": iso_time(entry.proposed_at),
        "started_at": iso_time(entry.started_at),
        "ended_at": iso_time(entry.ended_at),
        "attempts": entry.attempts,
        "decision": _decision_data(call),
        "because": entry.because,
        "value": entry.value,
        "content": [block.to_dict() for block in entry.content] if entry.ended else [],
        "error": None if entry.error is None else str(entry.error),
        "cost": entry.cost,
        "meta": entry.meta,
        "metadata": entry.metadata,
    }


def parked_data(parked: Parked, approved: bool) -> dict[str, Any]:
    """A waiting call as data: pending, or approved and waiting for a process with the tool."""
    return {**parked.to_dict(), "state": "approved" if approved else "pending"}


def _decision_data(call: Call) -> dict[str, Any] | None:
    made = call.decision
    if made is None:
        return None
    return {
        "approved": made.approved,
        "by": made.by,
        "reason": made.reason,
        "at": iso_time(made.at),
    }


def _outcome_value(outcome: Outcome) -> Any:
    value = shown_value(outcome)
    if not outcome.ok or isinstance(value, str) or value is None:
        return value if outcome.ok else None
    try:
        return parse_json(outcome.text)
    except ValueError:
        return None
