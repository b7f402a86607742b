"""MCP: read a call from a `tools/call` request, render a `CallToolResult`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.schema.result_check import Promise, plain_data
from wieldy.core.secrets.covered_content import shown_value

from .answer_content import NO_OUTPUT, answer_blocks, in_order, is_failure, make_encodable
from .incoming_calls import Tools, make_call
from .loose_fields import as_text, get_field

__all__ = ["parse_calls", "render", "render_result"]


def parse_calls(message: Any, box: Tools) -> list[Call]:
    """Read the call from a `tools/call` request.

    Args:
        message: the request or its parameters, as a dict or an SDK object.
        box: the tools, such as a `Toolbox`.

    Returns:
        One call, or none if the message is something else.

    Example:
        `[call] = parse_calls(request, box)`
    """
    method = get_field(message, "method")
    if method is not None and method != "tools/call":
        return []
    params = get_field(message, "params") or message
    name = as_text(get_field(params, "name"))
    sent = get_field(message, "id")
    provider_id = str(sent) if isinstance(sent, int | str) else None
    return [make_call(box, name, get_field(params, "arguments"), provider_id)] if name else []


def render(
    outcomes: Iterable[Outcome], calls: Sequence[Call] = (), max_result: int = MAX_RESULT
) -> list[dict[str, Any]]:
    """Render outcomes as one `CallToolResult` per call.

    Args:
        outcomes: the outcomes to answer with.
        calls: the calls, if each has to be answered. A call without an outcome is answered
            as interrupted.
        max_result: how many characters of one result are rendered; 0 for all. The rest is kept
            if the outcomes come from `box.results.for_model`.

    Returns:
        The results, in order.

    Example:
        `[result] = render([outcome])`
    """
    return [render_result(outcome) for outcome in in_order(outcomes, calls, max_result)]


def render_result(outcome: Outcome, promise: Promise | None = None) -> dict[str, Any]:
    """Render one outcome as a `CallToolResult`, with structured content if there is any.

    Args:
        outcome: the outcome.
        promise: the result that the tool's definition promises. Without one only an object
            becomes structured content. With one the value does, under `result` if it is
            not an object.

    Returns:
        The result as a dict.
    """
    content = [make_encodable(block.to_dict()) for block in answer_blocks(outcome)]
    if outcome.ok and content == [{"type": "text", "text": NO_OUTPUT}]:
        content = []
    answer: dict[str, Any] = {"content": content, "isError": is_failure(outcome)}
    structured = _structured_content(outcome, promise)
    if structured is not None:
        answer["structuredContent"] = structured
        if promise is not None and promise.wrapped:
            answer["_meta"] = {"fastmcp": {"wrap_result": True}}
    if outcome.metadata.get("untrusted"):
        answer["_meta"] = {**answer.get("_meta", {}), **_origin_meta(outcome)}
    return answer


def _origin_meta(outcome: Outcome) -> dict[str, Any]:
    """That a result comes from outside, and what is suspicious in it."""
    found = outcome.metadata.get("suspicious")
    return {"wieldy/untrusted": True, **({"wieldy/suspicious": found} if found else {})}


def _structured_content(outcome: Outcome, promise: Promise | None) -> dict[str, Any] | None:
    if outcome.status is not Status.OK:
        return None
    wrapped = promise is not None and promise.wrapped
    shown = shown_value(outcome)
    if not wrapped and (shown is None or isinstance(shown, str)):
        return None
    try:
        data = wrapped or isinstance(shown, Mapping)
        value = make_encodable(plain_data(shown) if data else parse_json(outcome.text))
    except ValueError:
        return None
    if wrapped:
        return {"result": value}
    return value if isinstance(value, dict) else None
