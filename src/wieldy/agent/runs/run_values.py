"""Convert the turns, calls and outcomes of a run to JSON and back."""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from wieldy.core.block import read_block
from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.call import Call, Outcome, Scope, Status, read_around
from wieldy.core.secrets.credential import sent_secrets
from wieldy.models.model import Answers, Reply, Said, Turn
from wieldy.store.row_values import (
    from_column,
    outcome_columns,
    read_content,
    read_error,
    read_metadata,
    to_column,
)
from wieldy.view import View
from wieldy.wire.answer_content import answer_blocks
from wieldy.wire.stream_events import Usage

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "thinking_tokens")
# Gives a value as it is, for whoever encodes everything at once, or as JSON data.
Form = Callable[[Any], Any]


def to_json_data(value: Any) -> Any:
    """A value as JSON data; objects that JSON can't express become text."""
    return parse_json(to_column(value, most=MAX_WRAPPED), MAX_WRAPPED)


# Turns


def write_turn(turn: Turn, form: Form = to_json_data) -> dict[str, Any]:
    """A turn as JSON; a model's own message is unchanged."""
    if isinstance(turn, Said):
        return {"said": turn.role, "content": form(turn.content)}
    if isinstance(turn, Answers):
        return {"answers": [_write_answer(each) for each in turn.outcomes]}
    usage = turn.usage
    return {
        "reply": turn.provider,
        "raw": form(turn.raw),
        "text": turn.text,
        "calls": [write_call(call, form) for call in turn.calls],
        "thinking": turn.thinking,
        "usage": None if usage is None else {name: getattr(usage, name) for name in _COUNTS},
        "finish_reason": turn.finish_reason,
    }


def read_turn(data: Mapping[str, Any]) -> Turn:
    """The turn that was written."""
    if "said" in data:
        return Said(data["said"], data["content"])
    if "answers" in data:
        told = [_read_answer(each) for each in data["answers"]]
        return Answers(told, [outcome.call for outcome in told], max_result=0)
    usage = data["usage"]
    return Reply(
        data["reply"],
        data["raw"],
        data["text"],
        [read_run_call(call) for call in data["calls"]],
        thinking=data["thinking"],
        usage=None if usage is None else Usage(**usage, raw={}),
        finish_reason=data["finish_reason"],
    )


def _write_answer(outcome: Outcome) -> dict[str, Any]:
    """The answer to a call that the model got, with the same text and blocks."""
    call = outcome.call
    return {
        "id": call.id,
        "tool": call.tool,
        "provider_id": call.provider_id,
        "status": outcome.status.value,
        "content": [block.to_dict() for block in answer_blocks(outcome)],
    }


def _read_answer(data: Mapping[str, Any]) -> Outcome:
    call = Call(data["tool"], None, id=data["id"], provider_id=data["provider_id"])
    content = tuple(map(read_block, data["content"]))
    return Outcome(call, Status(data["status"]), content=content)


# Calls


def write_call(call: Call, form: Form = to_json_data) -> dict[str, Any]:
    """A call as JSON."""
    written = {
        "id": call.id,
        "tool": call.tool,
        "arguments": form(call.arguments),
        "provider_id": call.provider_id,
        "key": call.idempotency_key,
        "run": call.scope.run,
    }
    return {**written, "around": call.scope.around} if call.scope.around else written


def read_run_call(data: Mapping[str, Any]) -> Call:
    """The call that was written, with the same id."""
    return Call(
        data["tool"],
        data["arguments"],
        Scope(run=data["run"], around=read_around(data.get("around"))),
        data["id"],
        data["provider_id"],
        idempotency_key=data["key"],
    )


def call_secrets(calls: Iterable[Call], view: View) -> dict[str, list[str]]:
    """The secrets in the arguments of calls, by the ids of the calls."""
    found = {}
    for call in calls:
        tool = view.find_tool(call.tool)
        secrets = [] if tool is None else sent_secrets(call.arguments, tool)
        if secrets:
            # In a text that is itself JSON, a secret has JSON's escapes.
            found[call.id] = [*secrets, *(dump_json(each)[1:-1] for each in secrets)]
    return found


# Outcomes


def write_outcome(outcome: Outcome) -> dict[str, Any]:
    """The outcome of a call in the form of the ledger."""
    return {"id": outcome.call.id, **outcome_columns(outcome, ())}


def read_outcome(call: Call, data: Mapping[str, Any]) -> Outcome:
    """The stored outcome of this call."""
    row = SimpleNamespace(**{**data, "tool": call.tool})
    status = Status(row.state)
    error = read_error(row, status)
    value, content = from_column(row.value), read_content(row)
    return Outcome(call, status, value, error, content, read_metadata(row), row.seconds)
