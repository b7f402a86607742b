"""The end of a call as the answer to its request."""

from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from wieldy.core.call import Outcome, Status
from wieldy.core.errors import CallPending, ToolNotFound
from wieldy.core.tool import Tool
from wieldy.wire.mcp import result

Answer = dict[str, Any]


def answer(outcome: Outcome, tool: Tool | None) -> Answer:
    """The result of a call. A tool that is not there is the protocol's own error."""
    if type(outcome.error) is ToolNotFound:
        raise MCPError(INVALID_PARAMS, str(outcome.error))
    if outcome.status is Status.PENDING:
        return waiting(outcome)
    made = complete(result(outcome))
    if "structuredContent" not in made and _promises_structure(tool):
        # Such as a result that was cut. Clients raise on one that lacks what its tool promised,
        # unless it is an error; so the model still reads what there is.
        made["isError"] = True
    return made


def waiting(outcome: Outcome, why: str | None = None) -> Answer:
    """Say that a call waits, under which id, and who can end that."""
    call_id = outcome.call.id
    if "input" in outcome.metadata:
        return failure(
            f"{outcome.text}{f' ({why})' if why else ''} It has not ended. "
            "The program that serves the tool can answer with `box.answer`."
        )
    reason = why or outcome.metadata.get("reason")
    said = f"{CallPending(outcome.call.tool, call_id)}{f' ({reason})' if reason else ''}"
    return failure(
        f"{said} It has not run. {decide_elsewhere(call_id)}; "
        "calling again would ask for another approval."
    )


def decide_elsewhere(call_id: str) -> str:
    """Where a person sees and decides what can't be decided here."""
    return (
        "A person can see it all with `wieldy pending` and let it run with "
        f"`wieldy approve {call_id}` where the server's store is, or with `box.approve` in the "
        "program that serves it"
    )


def _promises_structure(tool: Tool | None) -> bool:
    schema = None if tool is None else tool.output_schema
    return schema is not None and schema.get("type") == "object"


def failure(message: str) -> Answer:
    """A result that says what went wrong, for the model to read."""
    return complete({"content": [{"type": "text", "text": message}], "isError": True})


def complete(facts: Answer) -> Answer:
    """A result that is all there is; older protocols know no other and leave the mark out."""
    facts["resultType"] = "complete"
    return facts
