"""MCP: a call out of a `tools/call` request, a result as its answer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wieldy.core.block import to_text
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.conversion import parse_json

from .answers import NO_OUTPUT, blocks, encodable, failed, in_order
from .foreign import field, text
from .incoming import Tools, make_call


def parse_calls(message: Any, box: Tools) -> list[Call]:
    """The call in a `tools/call` request or in its parameters; none in any other message."""
    method = field(message, "method")
    if method is not None and method != "tools/call":
        return []
    params = field(message, "params") or message
    name = text(field(params, "name"))
    sent = field(message, "id")
    provider_id = str(sent) if isinstance(sent, int | str) else None
    return [make_call(box, name, field(params, "arguments"), provider_id)] if name else []


def render(outcomes: Iterable[Outcome], calls: Sequence[Call] = ()) -> list[dict[str, Any]]:
    """One `CallToolResult` per call, in order."""
    return [result(outcome) for outcome in in_order(outcomes, calls)]


def result(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a `CallToolResult`; an object also travels as structured content."""
    content = [encodable(block.to_dict()) for block in blocks(outcome)]
    if outcome.ok and content == [{"type": "text", "text": NO_OUTPUT}]:
        content = []
    answer: dict[str, Any] = {"content": content, "isError": failed(outcome)}
    structured = _structured(outcome)
    if structured is not None:
        answer["structuredContent"] = structured
    return answer


def _structured(outcome: Outcome) -> dict[str, Any] | None:
    if outcome.status is not Status.OK or outcome.value is None or isinstance(outcome.value, str):
        return None
    # A tool may show something else than its value; where a secret is covered, that counts.
    own = isinstance(outcome.value, Mapping) and not outcome.metadata.get("covered")
    try:
        value = encodable(parse_json(to_text(outcome.value) if own else outcome.text))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
