"""Values on their way into a program and out of it: plain JSON in both directions."""

from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from pydantic_core import to_jsonable_python

from wieldy.core.block import Image, Text, join_text
from wieldy.core.bounded_json import MAX_DEPTH, NestedTooDeep
from wieldy.core.call import Outcome
from wieldy.core.secrets.covered_content import shown_value
from wieldy.store.row_values import from_column, to_column

# Python refuses to write longer numbers in decimal.
_MAX_BITS = 10_000
_PLAIN = (bool, float, type(None))
_DATA = (*_PLAIN, int, str, dict)


def value_for_program(outcome: Outcome) -> Any:
    """What a call gives to the program: its value as JSON, or its text.

    It is the same whether the call has just been made or is read from a store. A value with
    secrets, which are covered in the text, is not given, nor one that is no data but blocks.
    """
    value = shown_value(outcome)
    if value is None or "covered" in outcome.metadata or _is_shown(outcome):
        return replace_surrogates(describe_content(outcome)) if outcome.content else None
    if type(value) is str:
        return replace_surrogates(value)
    try:
        return _clean_value(
            value if type(value) in (*_PLAIN, int) else from_column(to_column(value))
        )
    except ValueError:
        return replace_surrogates(outcome.text)


def describe_content(outcome: Outcome) -> str:
    """The text of a call's content, with a note for each block that is no text."""
    if all(isinstance(block, Text) for block in outcome.content):
        return outcome.text
    parts = [
        join_text([block]) or f"[{block.type}{_describe_block(block)}, shown to the user]"
        for block in outcome.content
    ]
    return "\n".join(parts)


def plain_value(value: Any, depth: int = 0) -> Any:
    """A value of the sandbox as JSON; what JSON has no form for becomes text.

    Raises:
        ValueError: It is nested too deeply.
    """
    if type(value) is str or isinstance(value, _PLAIN):
        return value
    if isinstance(value, int):
        bits = value.bit_length()
        return value if bits <= _MAX_BITS else f"[an integer of {bits:,} bits]"
    if depth >= MAX_DEPTH:
        raise NestedTooDeep
    if isinstance(value, Mapping):
        return {_plain_key(key): plain_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        # The order of a set differs from process to process.
        return [plain_value(item, depth + 1) for item in sorted(value, key=repr)]
    return _plain_leaf(value, depth)


def replace_surrogates(text: str) -> str:
    """A text without halves of characters, which the sandbox refuses."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _plain_leaf(value: Any, depth: int) -> Any:
    members = getattr(value, "attributes", None)
    if isinstance(members, dict):
        # An object of a class that the program has defined.
        return plain_value(members, depth + 1) if members else repr(value)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, date | time | datetime):
        return value.isoformat()
    return to_jsonable_python(value, fallback=repr, bytes_mode="base64")


def _plain_key(key: Any) -> str:
    return key if isinstance(key, str) else str(plain_value(key))


def _clean_value(value: Any, depth: int = 0) -> Any:
    if type(value) is str:
        return replace_surrogates(value)
    if depth >= MAX_DEPTH and type(value) in (dict, list):
        raise NestedTooDeep
    if type(value) is dict:
        return {
            replace_surrogates(key): _clean_value(item, depth + 1) for key, item in value.items()
        }
    if type(value) is list:
        return [_clean_value(item, depth + 1) for item in value]
    return value


def _is_shown(outcome: Outcome) -> bool:
    """Whether the value is shown as a block that is no text, such as a picture."""
    if type(shown_value(outcome)) in _DATA and outcome._content is None:
        return False
    return bool(outcome.content) and not isinstance(outcome.content[-1], Text)


def _describe_block(block: Any) -> str:
    kind = f" {block.mime_type}" if isinstance(block, Image) else ""
    data = getattr(block, "data", None)
    return f"{kind}, {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else kind
