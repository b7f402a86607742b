"""Convert the outcome of a call to the answer to its request."""

from collections.abc import Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from wieldy.core.block import to_text
from wieldy.core.call import Outcome, Status
from wieldy.core.errors import InvalidResult, ToolNotFound
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.permission.parked import Parked
from wieldy.core.permission.waiting_calls import A_PERSON, RESUME_CALL, receipt_text
from wieldy.core.schema.result_check import promised_result
from wieldy.core.tool import Tool
from wieldy.wire.mcp import render_result

from .passing.passed_meta import foreign_meta

Answer = dict[str, Any]
PERSON_HERE = f"{A_PERSON}, who sees the call where this server is looked after"


def call_answer(outcome: Outcome, tool: Tool | None, check_output: bool = True) -> Answer:
    """The result of a call. A missing tool is an error of the protocol.

    Clients raise if a result does not fit its tool's output schema, unless it is an error. Such
    a result is therefore marked as an error, and the model can still read its content.
    """
    if type(outcome.error) is ToolNotFound:
        raise MCPError(INVALID_PARAMS, str(outcome.error))
    if outcome.status is Status.PENDING:
        return waiting_answer(outcome)
    promise = None if tool is None else promised_result(tool)
    made = complete_result(render_result(outcome, promise))
    said = foreign_meta(outcome.metadata.get("mcp"))
    if said and len(to_text(said)) <= MAX_RESULT:
        made["_meta"] = {**said, **made.get("_meta", {})}
    if promise is None or made["isError"]:
        return made
    if outcome.metadata.get("dry_run") and not outcome.metadata.get("simulated"):
        made.pop("structuredContent", None)
    if "structuredContent" not in made:
        # Examples are a result that was cut, and the description of a dry run.
        made["isError"] = True
        return made
    cut = "cut" in outcome.metadata
    found = promise.problem(made["structuredContent"]) if check_output or cut else None
    if found is None:
        return made
    # What was cut fits no schema, and the content says where the whole is.
    return _without_structure(made, None if cut else InvalidResult(outcome.call.tool, found))


def waiting_answer(outcome: Outcome, why: str | None = None) -> Answer:
    """An answer that says that a call waits, under which id, and for what."""
    return failure_answer(receipt_text(outcome, why, PERSON_HERE))


def waiting_run_answer(outcome: Outcome, below: Sequence[Parked], why: str | None) -> Answer:
    """Say that the run of an agent waits, for what, and how to come back to it."""
    runs = dict.fromkeys(each.scope.run for each in below if each.scope.run is not None)
    named = f"Run {next(iter(runs))} of {outcome.call.tool}" if runs else outcome.call.tool
    waits = "; ".join(f"{each.tool} ({each.id})" for each in below) or "calls that go on"
    reason = f" ({why})" if why else ""
    agree = f" {PERSON_HERE}." if below else ""
    return failure_answer(
        f"{named} has not ended: it waits for {waits}{reason}.{agree} Then call "
        f"{outcome.call.tool} again with the same arguments and "
        f"{RESUME_CALL}={outcome.call.id!r} to get the answer of this run."
    )


def _without_structure(made: Answer, error: InvalidResult | None) -> Answer:
    """The result without its structured content, which does not fit the output schema."""
    said = [] if error is None else [{"type": "text", "text": str(error)}]
    kept = {key: value for key, value in made.items() if key not in ("structuredContent", "_meta")}
    # Clients must not try to unwrap structured content that is no longer there.
    meta = {key: value for key, value in made.get("_meta", {}).items() if key != "fastmcp"}
    if meta:
        kept["_meta"] = meta
    return {**kept, "isError": True, "content": [*said, *made["content"]]}


def failure_answer(message: str) -> Answer:
    """An error result with a message for the model."""
    return complete_result({"content": [{"type": "text", "text": message}], "isError": True})


def complete_result(facts: Answer) -> Answer:
    """A complete result. Older protocols have only complete results, so they omit the mark."""
    facts["resultType"] = "complete"
    return facts
