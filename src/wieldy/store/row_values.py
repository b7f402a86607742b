"""Convert calls, decisions and outcomes to columns, and back."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from json import encoder
from types import NoneType
from typing import Any, get_args

from pydantic_core import to_jsonable_python

from wieldy.core.block import Block, Text, read_block, safe_repr
from wieldy.core.bounded_json import (
    MAX_DEPTH,
    MAX_WRAPPED,
    NestedTooDeep,
    bound_writer,
    check_depth,
    dump_json,
    parse_json,
)
from wieldy.core.call import Call, Decision, Outcome, Scope, Status, read_around
from wieldy.core.choices import ENDED_STATES, CallState
from wieldy.core.errors import (
    CallDenied,
    CallError,
    CallInterrupted,
    CallTimeout,
    CallUnknown,
    InvalidArguments,
    InvalidResult,
    KeyTaken,
    NotChecked,
    NotRecorded,
    RecordedFailure,
    ToolFailed,
    ToolNotFound,
)
from wieldy.core.permission.modes import ModeChange
from wieldy.core.secrets.secret import is_secret, redact_data, reveal_secret

from .databases.damaged_values import DAMAGED

ENDS = (*ENDED_STATES, "unknown")
STATES: tuple[CallState, ...] = get_args(CallState)
Written = tuple[str, str | None, str | None, str | None, str | None, float | None]
OUTCOME = ("state", "value", "content", "error", "metadata", "seconds")
# Types whose values are not blocks, and don't consist of blocks.
_PLAIN = frozenset((str, dict, int, float, bool, NoneType))
# The attribute that each error is rebuilt from, besides the tool's name.
_FACTS: dict[type[CallError], str] = {
    CallDenied: "reason",
    CallTimeout: "seconds",
    CallUnknown: "reason",
    InvalidArguments: "problems",
    InvalidResult: "problem",
    KeyTaken: "first",
    NotChecked: "reason",
    NotRecorded: "reason",
}
_KINDS = {kind.__name__: kind for kind in _FACTS}


def call_columns(call: Call) -> dict[str, Any]:
    """The columns of a call, without its arguments."""
    scope = call.scope
    return {
        "id": call.id,
        "tool": call.tool if isinstance(call.tool, str) else repr(call.tool),
        "agent": scope.agent,
        "session": scope.session,
        "parent": scope.parent,
        "caller": scope.caller,
        "run": scope.run,
        "around": around_column(scope),
        "provider_id": call.provider_id,
        "idempotency_key": call.idempotency_key,
        "partial": 0,
    }


def around_column(scope: Scope) -> str | None:
    """Whose the calls are that a call is nested in, where that differs."""
    return to_column(scope.around) if scope.around else None


def mode_row(change: ModeChange) -> dict[str, Any]:
    """A change of the permission mode, as the ledger keeps it among the calls."""
    said = {"mode": change.mode, "agent": change.agent, "session": change.session, "by": change.by}
    by = f" by {change.by}" if change.by else ""
    call = Call("set_mode", scope=Scope(change.agent, change.session))
    return {
        **call_columns(call),
        **argument_columns(said, ()),
        "state": "mode",
        "reason": f"the mode was changed{by}",
        "value": to_column(f"{change.before or 'none'} → {change.mode or 'none'}"),
        "proposed_at": change.at,
        "ended_at": change.at,
    }


def trust_row(scope: Scope, by: str | None, reason: str | None, at: float) -> dict[str, Any]:
    """That a person counts a session as trusted again, as the ledger keeps it among the calls."""
    said = {"session": scope.session, "by": by, "reason": reason}
    why = f": {reason}" if reason else ""
    return {
        **call_columns(Call("trust_session", scope=scope)),
        **argument_columns(said, ()),
        "state": "mode",
        "reason": f"the session was trusted again{f' by {by}' if by else ''}{why}",
        "value": to_column("untrusted → trusted"),
        "proposed_at": at,
        "ended_at": at,
    }


def decision_columns(decision: Decision) -> dict[str, Any]:
    """The columns of a decision."""
    return {
        "decided_at": decision.at,
        "decided_by": decision.by,
        "decided_why": decision.reason,
    }


def argument_columns(arguments: Any, secrets: tuple[str, ...]) -> dict[str, Any]:
    """The columns of the arguments, and whether they are complete."""
    text, partial = written_arguments(arguments, secrets)
    return {"arguments": text, "partial": partial}


def written_arguments(arguments: Any, secrets: tuple[str, ...]) -> tuple[str, int]:
    """The arguments as they are kept, and 1 if they are incomplete."""
    try:
        check_depth(arguments)
        text = "".join(_dump(redact_data(arguments, secrets) if secrets else arguments, 0))
        whole = not secrets or text == "".join(_dump(arguments, 0))
    except Exception:
        return to_column(arguments, secrets), 1
    return text, 0 if whole else 1


def outcome_columns(outcome: Outcome, secrets: tuple[str, ...]) -> dict[str, Any]:
    """The columns of an outcome, without its secrets."""
    return dict(zip(OUTCOME, written_outcome(outcome, secrets), strict=True))


def written_outcome(outcome: Outcome, secrets: tuple[str, ...]) -> Written:
    """The same as values, in the order of `OUTCOME`."""
    value, error, content = outcome.value, outcome.error, None
    write = partial(to_column, secrets=secrets, most=MAX_WRAPPED)
    if outcome._content is not None or (type(value) not in _PLAIN and _has_blocks(value)):
        content = write(list(outcome.content))
    rehearsed = outcome._metadata and outcome._metadata.get("dry_run") and error is None
    return (
        "dry_run" if rehearsed else outcome.status._value_,
        None if value is None else to_column(value, secrets),
        content,
        None if error is None else write(error_facts(error)),
        write(outcome._metadata) if outcome._metadata else None,
        outcome.seconds,
    )


def to_column(value: Any, secrets: tuple[str, ...] = (), most: int = MAX_DEPTH) -> str:
    """A value as JSON in ASCII; what JSON can't hold, or is too deep, becomes text."""
    text = _write_json(value, most)
    return dump_json(redact_data(parse_json(text, most), secrets), most) if secrets else text


def from_column(text: str | None) -> Any:
    """The value of a JSON column, or its text if it is too deep to be parsed."""
    try:
        return None if text is None else parse_json(text, MAX_WRAPPED)
    except NestedTooDeep:
        return text


def reveal_arguments(arguments: Any) -> Any:
    """The arguments with their secrets as plain strings, to be kept while the call waits."""
    if isinstance(arguments, Mapping):
        return {key: reveal_arguments(value) for key, value in arguments.items()}
    if isinstance(arguments, list | tuple):
        return [reveal_arguments(value) for value in arguments]
    return reveal_secret(arguments)


def refuse_damaged(columns: Mapping[str, Any]) -> None:
    """Raise if a column of a row has another kind of value than it should have."""
    for name, value in columns.items():
        if isinstance(value, DAMAGED):
            raise ValueError(f"{name} has a value of another kind, or bytes that are no text")


def read_call(row: Any) -> Call:
    """Read the call of a row, with its decision."""
    decision = None
    if row.decided_at is not None:
        decision = Decision(
            bool(row.approved),
            row.fingerprint or "",
            row.digest or "",
            at=row.decided_at,
            by=row.decided_by,
            reason=row.decided_why,
            answers=from_column(row.answers),
            state=from_column(row.paused),
            claims=from_column(row.claims),
        )
    arguments = from_column(row.arguments)
    around = read_around(from_column(row.around))
    scope = Scope(row.agent, row.session, row.parent, row.caller, row.run, around)
    key = row.idempotency_key
    return Call(row.tool, arguments, scope, row.id, row.provider_id, decision, key)


def read_content(row: Any) -> tuple[Block, ...] | None:
    """Read the blocks of a row, if they are not simply its value."""
    stored = from_column(row.content)
    if isinstance(stored, str):
        return (Text(stored),)
    return None if stored is None else tuple(map(read_block, stored))


def read_metadata(row: Any) -> dict[str, Any]:
    """Read the metadata of a row."""
    stored = from_column(row.metadata) or {}
    if isinstance(stored, str):
        return {"unreadable": stored}
    if not isinstance(stored, dict):
        raise ValueError("metadata is no object")
    return stored


def read_error(row: Any, status: Status) -> CallError | None:
    """Rebuild the error of a row."""
    facts = from_column(row.error)
    if facts is None:
        return _missing_error(row, status)
    kind, message = facts["kind"], facts["message"]
    if kind in _KINDS:
        made: CallError = _KINDS[kind](row.tool, facts["fact"])
        return made
    if kind == "ToolNotFound":
        return ToolNotFound(row.tool, reason=message)
    if kind == "CallInterrupted":
        return CallInterrupted(row.tool)
    return ToolFailed(RecordedFailure(message), message)


def _missing_error(row: Any, status: Status) -> CallError | None:
    if status is Status.UNKNOWN:
        return CallUnknown(row.tool, "the process that ran it is gone")
    if status in (Status.OK, Status.PENDING):
        return None
    raise ValueError(f"it ended as {row.state} and has no error")


def error_facts(error: CallError) -> dict[str, Any]:
    """An error as data: its class, its message, and the attribute it is rebuilt from."""
    facts: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    attribute = _FACTS.get(type(error))
    if attribute is not None:
        facts["fact"] = getattr(error, attribute)
    return facts


def _has_blocks(value: Any) -> bool:
    """Whether the value is shown as blocks, which JSON would flatten."""
    try:
        if isinstance(value, list | tuple):
            return bool(value) and all(isinstance(item, Block) for item in value)
        return isinstance(value, Block)
    except Exception:
        # The value is other people's code, and may raise anything when it is read.
        return False


def _plain_value(value: Any) -> Any:
    """Convert a value that JSON does not know to one that it does."""
    if isinstance(value, Block):
        return value.to_dict()
    if is_secret(value):
        return str(value)
    return to_jsonable_python(
        value,
        fallback=safe_repr,
        bytes_mode="base64",
        inf_nan_mode="strings",
        serialize_unknown=True,
    )


def to_ascii_json(value: Any) -> str:
    """A value as JSON in ASCII, however deep it is; raises if its objects can't be read."""
    return "".join(_encode(value, 0))


def _write_json(value: Any, most: int) -> str:
    if type(value) is str:
        return encoder.encode_basestring_ascii(value)
    try:
        return bound_writer(to_ascii_json, value, most)
    except Exception:
        # The value is other people's code, and may raise anything when it is read.
        return encoder.encode_basestring_ascii(safe_repr(value))


def _make_encoder(default: Callable[[Any], Any]) -> Callable[[Any, int], Iterable[str]]:
    """A JSON encoder that is made once; `json.dumps` makes one each time, which doubles its cost.

    The number is the level of indentation, which is not used.
    """
    make: Any = getattr(encoder, "c_make_encoder", None)
    text = encoder.encode_basestring_ascii
    try:
        parts: Callable[[Any, int], Iterable[str]] = make(
            None, default, text, None, ": ", ", ", False, False, True
        )
    except TypeError:
        # The C encoder is not part of Python's public API.
        whole = json.JSONEncoder(default=default).encode
        return lambda value, depth: [whole(value)]
    return parts


_dump = _make_encoder(json.JSONEncoder().default)
_encode = _make_encoder(_plain_value)
