"""A recorded call as a task: what its row says, in the words of the extension."""

import time
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from wieldy.core.timestamps import iso_time
from wieldy.mcp.serving.call_results import PERSON_HERE
from wieldy.mcp.tasks_extension import ENDED_TASK, TaskStatus

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.store.ledger_entry import Entry

_DAY_MS = 24 * 3600 * 1000
_SHORTEST_POLL, _LONGEST_POLL = 500, 10_000


def task_status(entry: "Entry") -> TaskStatus:
    """How a call stands, as far as its row alone can say that."""
    if not entry.ended:
        return "working"
    if entry.state == "interrupted" or entry.metadata.get("cancelled"):
        return "cancelled"
    return "failed" if entry.state == "unknown" else "completed"


def describe_task(
    entry: "Entry", status: TaskStatus, message: str | None, days: float | None
) -> dict[str, Any]:
    """The facts about a task that every answer about it has.

    An open call is always kept; one that has ended is kept for so many days after that.
    """
    ended = entry.ended_at if status in ENDED_TASK else None
    changed = [at for at in (entry.proposed_at, entry.started_at, ended) if at is not None]
    kept_ms = None
    if ended is not None and days is not None:
        kept_ms = int(days * _DAY_MS + (ended - entry.proposed_at) * 1000)
    facts: dict[str, Any] = {
        "taskId": entry.call.id,
        "status": status,
        "createdAt": iso_time(entry.proposed_at),
        "lastUpdatedAt": iso_time(max(changed)),
        "ttlMs": kept_ms,
        "pollIntervalMs": _poll_interval(time.time() - max(changed)),
    }
    return facts if message is None else {**facts, "statusMessage": message}


def _poll_interval(age: float) -> int:
    """How long a client should wait, in milliseconds: a tenth of the time that nothing changed."""
    return min(max(int(age * 100), _SHORTEST_POLL), _LONGEST_POLL)


def waiting_message(entry: "Entry", asked: bool) -> str:
    """What a call waits for."""
    if entry.state == "approved":
        return "It was approved, and is about to run."
    if "waits_for" in entry.metadata:
        below = ", ".join(entry.metadata["waits_for"])
        return f"It goes on when these calls have ended: {below}. {PERSON_HERE}."
    if "input" in entry.metadata:
        said = "It waits for answers."
        return said if asked else f"{said} A person has to give them."
    said = "It waits for approval."
    return said if asked else f"{said} {PERSON_HERE}."


def unknown_error(entry: "Entry") -> dict[str, Any]:
    """The error of a call whose end nobody knows."""
    return {"code": INTERNAL_ERROR, "message": entry.text}


def error_of(error: MCPError) -> dict[str, Any]:
    """An error of the protocol as the outcome of a task."""
    facts = {"code": error.error.code, "message": error.error.message}
    return facts if error.error.data is None else {**facts, "data": error.error.data}
