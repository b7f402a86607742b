"""Cover secrets in what a call has shown."""

from collections.abc import Iterable
from typing import Any

from wieldy.core.block import Block, Text, join_text, to_text
from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Outcome

from .secret import redact_text


def covered_content(blocks: Iterable[Block], secrets: tuple[str, ...]) -> tuple[Block, ...]:
    """The blocks with every secret covered, also one that is split over several texts."""
    given = tuple(blocks)
    each = tuple(block.map_text(lambda text: redact_text(text, secrets)) for block in given)
    if join_text(each) == redact_text(join_text(given), secrets):
        return each
    text = "".join(block.text for block in given if isinstance(block, Text))
    others = (block for block, raw in zip(each, given, strict=True) if not isinstance(raw, Text))
    return (Text(redact_text(text, secrets)), *others)


def shown_value(outcome: Outcome) -> Any:
    """The value of an outcome as models and clients see it: without its secrets.

    Where the value has any, what the content says is given in its place: data if that is JSON,
    otherwise its text. Whatever shows a value to somebody reads it here.
    """
    value = outcome.value
    if not outcome.metadata.get("covered"):
        return value
    if isinstance(value, str):
        return outcome.text
    try:
        return parse_json(outcome.text)
    except ValueError:
        return outcome.text


def has_covered(value: Any, secrets: tuple[str, ...]) -> bool:
    """Whether a value has secrets that are covered in the content, so that it must not be shown."""
    if value is None:
        return False
    whole = to_text(value)
    return redact_text(whole, secrets) != whole
