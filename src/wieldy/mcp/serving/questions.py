"""Questions about a waiting call to the client's user, as requests to the client."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcp_types import ClientCapabilities

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.call import Call, Outcome
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.secrets.credential import argument_secrets, sent_secrets
from wieldy.core.secrets.secret import redact_data
from wieldy.core.short_text import cut_middle
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line, visible_lines, visible_name, visible_value

Requests = Mapping[str, dict[str, Any]]
APPROVE = "approve"
_MAX_LENGTH = 500
# The keys of a form whose texts are meant for people.
_WORDS = ("message", "title", "description", "enumNames")
_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_ROOM = 4000
_MAX_NAME = 120
# A value that is cut to fewer characters than this says too little for a decision.
_LEAST = 100


@dataclass(frozen=True, slots=True)
class Question:
    """One round of questions: the call, the kind of question, and the requests that ask it, if any.

    `around` is the client's own call if the question is about a call that it waits for.
    """

    kind: Literal["approve", "input"]
    call_id: str
    tool: str
    requests: Requests
    around: str | None = None

    def to_state(self) -> str:
        """The question as text, which is sealed, sent to the client and returned by it."""
        asked = dict(self.requests)
        return dump_json([self.kind, self.call_id, self.tool, asked, self.around], MAX_WRAPPED)

    @classmethod
    def from_state(cls, state: str) -> "Question":
        """The question of a state. The state can be trusted, because its seal was checked."""
        return cls(*parse_json(state, MAX_WRAPPED))

    @property
    def asked_by(self) -> str:
        """The id of the client's own call."""
        return self.around or self.call_id

    def answered(self, answers: Mapping[str, Any]) -> bool:
        """Whether there is an answer to each request."""
        return all(key in answers for key in self.requests)


def approval_question(outcome: Outcome, tool: Tool | None, asker: str | None = None) -> Question:
    """Ask whether a parked call may run: who wants it, with which arguments, and why.

    If there are too many arguments to show, nothing is asked, because nobody should decide on
    arguments that they can't see.
    """
    call = outcome.call
    arguments = argument_lines(_shown_arguments(call, tool))
    if arguments is None:
        return Question("approve", call.id, call.tool, {})
    lines = [f"{_said_by(asker)}May {_short_text(visible_name(call.tool))} run?"]
    lines += ["Arguments:", *arguments] if arguments else ["It has no arguments."]
    reason = outcome.metadata.get("reason")
    if reason:
        lines.append(f"It needs approval: {_short_text(visible_line(str(reason)))}")
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


def input_question(
    outcome: Outcome, asker: str | None = None, server: str | None = None
) -> Question | None:
    """The tool's own question, if the call waits for its answer.

    Of an agent's call it is also said which agent and which tool want to know it.
    """
    requests = outcome.metadata.get("input")
    if not isinstance(requests, Mapping):
        return None
    readable = _readable_question(dict(requests))
    if server is not None:
        readable = {key: introduce_request(request, server) for key, request in readable.items()}
    if asker is not None:
        who = f"{_said_by(asker)}{_short_text(visible_name(outcome.call.tool))} wants to know:"
        readable = {key: _introduce_question(request, who) for key, request in readable.items()}
    return Question("input", outcome.call.id, outcome.call.tool, readable)


def introduce_request(request: dict[str, Any], server: str) -> dict[str, Any]:
    """A question of a server behind, which says whose it is and hides nothing."""
    readable: dict[str, Any] = _readable_question(request)
    asked = _introduce_question(readable, f"{_short_text(visible_name(server))} asks:")
    params = dict(asked.get("params") or {})
    params["_meta"] = {**(params.get("_meta") or {}), "wieldy/server": server}
    return {**asked, "params": params}


def missing_capabilities(requests: Requests, client: ClientCapabilities | None) -> dict[str, Any]:
    """The capabilities that a client lacks for a question."""
    refused = (request for request in requests.values() if not _can_take(request, client))
    methods = (str(request.get("method")) for request in refused)
    return {_NEEDS.get(method, method): {} for method in methods}


def _can_take(request: Mapping[str, Any], client: ClientCapabilities | None) -> bool:
    declared = getattr(client, _NEEDS.get(str(request.get("method")), ""), None)
    if declared is None:
        return False
    if request["method"] != "elicitation/create":
        return True
    # A client that declares neither mode supports forms, once the only mode.
    mode = (request.get("params") or {}).get("mode", "form")
    modes = {name for name in ("form", "url") if getattr(declared, name, None) is not None}
    return mode in (modes or {"form"})


def _shown_arguments(call: Call, tool: Tool | None) -> Mapping[str, Any]:
    """The arguments as a person may read them, without secrets."""
    sent = call.arguments
    arguments = sent if isinstance(sent, Mapping) else {}
    secrets = argument_secrets(arguments)
    if tool is not None:
        secrets += (*tool.secrets, *sent_secrets(arguments, tool))
    shown: Mapping[str, Any] = redact_data(arguments, secrets)
    return shown


def _said_by(asker: str | None) -> str:
    return "" if asker is None else f"{_short_text(visible_name(asker))} asks: "


def _introduce_question(request: dict[str, Any], who: str) -> dict[str, Any]:
    """A tool's question with a first line that says who asks."""
    params = request.get("params")
    if not isinstance(params, Mapping) or not isinstance(params.get("message"), str):
        return request
    return {**request, "params": {**params, "message": f"{who}\n{params['message']}"}}


def _short_text(text: str) -> str:
    return cut_middle(text, _MAX_LENGTH)


def _readable_question(asked: Any, words: bool = False) -> Any:
    """A tool's question with invisible characters escaped in its texts, of which none is endless.

    Names are unchanged.
    """
    if isinstance(asked, str):
        return cut_middle(visible_lines(asked), MAX_RESULT) if words else asked
    if isinstance(asked, list):
        return [_readable_question(each, words) for each in asked]
    if isinstance(asked, Mapping):
        return {key: _readable_question(each, key in _WORDS) for key, each in asked.items()}
    return asked


def argument_lines(arguments: Mapping[str, Any]) -> list[str] | None:
    """A line for each argument, long values cut in their middle; None if there are too many.

    Names and values are escaped so that nothing in them is invisible or starts a new line.
    """
    try:
        names = [cut_middle(visible_name(str(name)), _MAX_NAME) for name in arguments]
        values = [visible_value(value) for value in arguments.values()]
    except ValueError:
        return None
    room = _ROOM - sum(len(name) + len("   = ") for name in names)
    limit = _fair_share([len(value) for value in values], room)
    if limit is None:
        return None
    shown = (
        whole if len(whole) <= limit else _cut_value(value, whole, limit)
        for value, whole in zip(arguments.values(), values, strict=True)
    )
    return [f"  {name} = {value}" for name, value in zip(names, shown, strict=True)]


def _fair_share(lengths: list[int], room: int) -> int | None:
    """The longest length for a value, with the room that short ones leave; None if too short."""
    left = room
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            return share if share >= _LEAST else None
        left -= length
    return max(lengths, default=0) if room >= 0 else None


def _cut_value(value: Any, whole: str, limit: int) -> str:
    """A long value cut short: a text keeps its two ends, and in a structure texts are cut first."""
    if isinstance(value, str):
        return cut_middle(whole, limit, '"')
    return cut_middle(visible_value(_with_short_texts(value)), limit)


def _with_short_texts(value: Any) -> Any:
    if isinstance(value, str):
        return cut_middle(value, _LEAST)
    if isinstance(value, Mapping):
        return {cut_middle(str(k), _LEAST): _with_short_texts(v) for k, v in value.items()}
    return [_with_short_texts(item) for item in value] if isinstance(value, list) else value
