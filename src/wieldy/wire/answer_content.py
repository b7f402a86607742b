"""The parts of answering calls that all providers share: their order, content and wording."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from wieldy.core.block import Audio, Block, Image, Resource, Text
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallInterrupted
from wieldy.core.limits.bounded_result import MAX_RESULT, bound_outcome
from wieldy.core.permission.waiting_calls import receipt_text

_SURROGATE = re.compile("[\ud800-\udfff]")
NO_OUTPUT = "(no output)"
# A provider that gets a picture of another kind refuses the whole conversation.
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def in_order(
    outcomes: Iterable[Outcome], calls: Sequence[Call] = (), max_result: int = MAX_RESULT
) -> list[Outcome]:
    """Each call's last outcome, once, in the order of the calls or of the outcomes.

    A call without an outcome is answered as interrupted, because providers refuse a
    conversation in which a call has no answer. Each is cut to `max_result` characters, and the
    rest is not kept; with 0 it is left as it is.
    """
    last = {outcome.call.id: outcome for outcome in outcomes}
    answered = [last.pop(call.id, _interrupted_outcome(call)) for call in _unique_calls(calls)]
    return [bound_outcome(each, max_result) for each in (*answered, *last.values())]


def answer_blocks(outcome: Outcome) -> list[Block]:
    """The blocks to show the model: the error, if there is one, and then the content."""
    shown = _outcome_blocks(outcome)
    return [Text(make_encodable(block.text)) if type(block) is Text else block for block in shown]


def make_encodable(value: Any) -> Any:
    """The value with lone surrogates replaced by U+FFFD, so that it can be written as UTF-8."""
    if isinstance(value, str):
        if value.isascii() or not _SURROGATE.search(value):
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [make_encodable(item) for item in value]
    if isinstance(value, dict):
        return {make_encodable(key): make_encodable(item) for key, item in value.items()}
    return value


def _outcome_blocks(outcome: Outcome) -> list[Block]:
    if outcome.status is Status.PENDING:
        return [Text(receipt_text(outcome))]
    shown = [block for block in outcome.content if not (isinstance(block, Text) and not block.text)]
    if outcome.error is not None and Text(str(outcome.error)) not in shown:
        return [Text(str(outcome.error)), *shown]
    return shown or [Text(NO_OUTPUT)]


def is_failure(outcome: Outcome) -> bool:
    """Whether the model should treat the answer as a failure. A waiting call is not one."""
    return outcome.status not in (Status.OK, Status.PENDING)


def block_in_words(block: Block) -> str:
    """A block as text; a picture, sound or other block becomes its name in brackets."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Resource):
        kind = f", {block.mime_type}" if block.mime_type else ""
        named = f"[resource {block.name or block.uri}: {block.uri}{kind}]"
        return str(make_encodable(named if block.text is None else block.text))
    if isinstance(block, Image | Audio):
        return f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4} bytes, not shown]"
    return f"[{block.type}]"


def as_image(block: Block) -> Image | None:
    """The picture that a block is, or holds as a resource; None if models could not see it."""
    if isinstance(block, Image):
        return block if block.mime_type in _IMAGES else None
    if isinstance(block, Resource) and block.data and block.mime_type in _IMAGES:
        return Image(block.data, block.mime_type)
    return None


def data_url(block: Image | Audio) -> str:
    """A block's bytes as a URL."""
    return f"data:{block.mime_type};base64,{block.data}"


def _unique_calls(calls: Sequence[Call]) -> list[Call]:
    return list({call.id: call for call in calls}.values())


def _interrupted_outcome(call: Call) -> Outcome:
    return Outcome(call, Status.INTERRUPTED, error=CallInterrupted(call.tool))
