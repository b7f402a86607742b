"""What a waiting call needs from the client's user, as requests to the client."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcp_types import ClientCapabilities

from wieldy.core.block import to_text
from wieldy.core.call import Call, Outcome
from wieldy.core.credential import argument_secrets, sent_secrets
from wieldy.core.secret import redact
from wieldy.core.tool import Tool

Requests = Mapping[str, dict[str, Any]]
APPROVE = "approve"
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class Question:
    """One round: the call, what is asked about it, and which requests ask it."""

    kind: Literal["approve", "input"]
    call_id: str
    tool: str
    requests: Requests

    def to_state(self) -> str:
        """The question as text that travels with the client, sealed, and comes back."""
        return json.dumps([self.kind, self.call_id, self.tool, dict(self.requests)])

    @classmethod
    def from_state(cls, state: str) -> "Question":
        """The question that a state was made of. It is ours: its seal was checked before."""
        return cls(*json.loads(state))

    def answered(self, answers: Mapping[str, Any]) -> bool:
        """Whether there is an answer to each request."""
        return all(key in answers for key in self.requests)


def approval(outcome: Outcome, tool: Tool | None) -> Question:
    """Ask whether a parked call may run: what it is, with which arguments, and why."""
    call = outcome.call
    reason = outcome.metadata.get("reason")
    lines = [f"May {call.tool} run?", f"Arguments: {_shown(call, tool)}"]
    if reason:
        lines.append(f"It needs approval: {reason}")
    form = {
        "type": "object",
        "properties": {
            APPROVE: {"type": "boolean", "title": "Let it run", "default": False},
            "reason": {"type": "string", "title": "Why not", "maxLength": 500},
        },
        "required": [APPROVE],
    }
    params = {"mode": "form", "message": "\n".join(lines), "requestedSchema": form}
    request = {"method": "elicitation/create", "params": params}
    return Question("approve", call.id, call.tool, {APPROVE: request})


def pause(outcome: Outcome) -> Question | None:
    """Ask for what the tool itself asked for, if that is why the call waits."""
    requests = outcome.metadata.get("input")
    if not isinstance(requests, Mapping):
        return None
    return Question("input", outcome.call.id, outcome.call.tool, dict(requests))


def lacking(requests: Requests, client: ClientCapabilities | None) -> dict[str, Any]:
    """The capabilities that a client would need beside those it has declared."""
    refused = (request for request in requests.values() if not _can_take(request, client))
    methods = (str(request.get("method")) for request in refused)
    return {_NEEDS.get(method, method): {} for method in methods}


_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def _can_take(request: Mapping[str, Any], client: ClientCapabilities | None) -> bool:
    declared = getattr(client, _NEEDS.get(str(request.get("method")), ""), None)
    if declared is None:
        return False
    if request["method"] != "elicitation/create":
        return True
    # Declaring neither mode means forms, as it did before there were two.
    mode = (request.get("params") or {}).get("mode", "form")
    modes = {name for name in ("form", "url") if getattr(declared, name, None) is not None}
    return mode in (modes or {"form"})


def _shown(call: Call, tool: Tool | None) -> str:
    """The arguments as a person may read them: no secrets, and not without end."""
    sent = call.arguments
    arguments = sent if isinstance(sent, Mapping) else {}
    secrets = argument_secrets(arguments)
    if tool is not None:
        secrets += sent_secrets(arguments, tool.input_schema)
    text = redact(to_text(dict(arguments)), secrets)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
