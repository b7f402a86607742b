"""The body of a message: what happened, with ids to ask for the rest, and never large."""

import logging
from typing import Any

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.short_text import cut_text
from wieldy.core.timestamps import iso_time
from wieldy.server.api.answer_shapes import clean_json
from wieldy.server.api.call_shapes import describe_call
from wieldy.server.api.path_parts import write_part
from wieldy.store.ledger_entry import Entry, read_entry_or_say
from wieldy.store.outbox.outbox import OutboxEvent

# The specification recommends less than this for a body, in bytes.
MAX_BODY = 20_000
_MAX_TEXT = 1_000
_MAX_ARGUMENTS = 8_000
_IDS = ("tool", "call_id", "state", "path")
TEST_KIND = "webhook.test"
_log = logging.getLogger("wieldy.server")


def make_message(event: OutboxEvent) -> str:
    """The body for an event, as JSON.

    Secrets are covered as the API covers them. What is too large is left out: whoever needs it
    asks the API for it, by its id.
    """
    data = (
        parse_json(event.facts, MAX_WRAPPED)
        if event.facts is not None
        else _describe_call_event(event)
    )
    data = _shorten(clean_json({"tool": event.tool, **data}))
    brief = {key: data[key] for key in _IDS if key in data}
    without = data | {"arguments": None, "arguments_whole": False} if "arguments" in data else data
    for each in (data, without):
        body = _write(event.kind, event.at, each)
        if len(body.encode()) <= MAX_BODY:
            return body
    return _write(event.kind, event.at, {**brief, "call": None})


def make_test_message(at: float) -> str:
    """The body of a message that only tries whether messages arrive."""
    return _write(TEST_KIND, at, {"message": "This is a test. Nothing has happened."})


def _describe_call_event(event: OutboxEvent) -> dict[str, Any]:
    path = f"/api/calls/{write_part(event.call or '')}"
    facts: dict[str, Any] = {"call_id": event.call, "state": event.state, "path": path}
    if event.row is None:
        # The call was removed before anybody could be told of it.
        return {**facts, "call": None}
    try:
        return facts | _describe_entry(event.kind, read_entry_or_say(event.row))
    except Exception:
        # A row that can't be shown must not hold up the messages after it.
        _log.exception("The message about the call %s has only its id", event.call)
        return {**facts, "call": None}


def _describe_entry(kind: str, entry: Entry) -> dict[str, Any]:
    facts: dict[str, Any] = {"call": describe_call(entry).model_dump(mode="json")}
    if kind == "call.pending":
        arguments = clean_json(entry.call.arguments)
        fits = len(dump_json(arguments, MAX_WRAPPED, ensure_ascii=False)) <= _MAX_ARGUMENTS
        facts["arguments"] = arguments if fits else None
        facts["arguments_whole"] = fits and not entry.partial
    return facts


def _shorten(data: dict[str, Any]) -> dict[str, Any]:
    """The facts with no text that is longer than people read; arguments are never cut."""
    whole = {"arguments"}
    return {key: each if key in whole else _shorten_value(each) for key, each in data.items()}


def _shorten_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shorten_value(each) for key, each in value.items()}
    return cut_text(value, _MAX_TEXT) if isinstance(value, str) else value


def _write(kind: str, at: float, data: dict[str, Any]) -> str:
    body = {"type": kind, "timestamp": iso_time(at), "data": data}
    return dump_json(body, MAX_WRAPPED, ensure_ascii=False, separators=(",", ":"))
