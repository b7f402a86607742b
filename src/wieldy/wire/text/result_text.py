"""Write a tool's result as XML for a model, and read it back."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from wieldy.core.block import Block, to_text
from wieldy.core.call import Outcome
from wieldy.core.limits.bounded_result import MAX_RESULT, bound_outcome
from wieldy.core.secrets.covered_content import shown_value

from .text_values import untyped_value
from .xml_elements import unescape_entities

_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE_ESCAPES = str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})
_TAG = re.compile(r'<(/?)([A-Za-z_][\w.-]*)(?: key="([^"]*)")?(?: type="(\w+)")?(/?)>')
_DEPTH = 64
_EMPTY: dict[str, Any] = {"null": None, "string": ""}


def format_result(
    name: str, result: Outcome | Mapping[str, Any], max_result: int = MAX_RESULT
) -> str:
    """Write a result as `<tool_result>` with the name, the success, and the data or the error.

    Args:
        name: the name of the tool.
        result: an outcome, or a dict with the keys `success`, `data` and `error`.
        max_result: how many characters of an outcome are written; 0 for all. A dict is whole.

    Returns:
        The XML text.

    Example:
        `format_result("weather", outcome)`
    """
    if isinstance(result, Outcome):
        result = bound_outcome(result, max_result)
    success, data, error = _result_facts(result)
    told = _write_element("data", data) if success else _write_element("error", error)
    lines = [_write_element("name", name), _write_element("success", success), told]
    return "\n".join(["<tool_result>", *(f"  {line}" for line in lines), "</tool_result>"])


def parse_result(text: str) -> dict[str, Any]:
    """Read text of `format_result` as a dict with `name`, `success`, and `data` or `error`."""
    found = _read_element(text.strip())
    if not isinstance(found, dict) or not {"name", "success"} <= found.keys():
        raise ValueError("This is not a <tool_result>.")
    return found


def _result_facts(result: Outcome | Mapping[str, Any]) -> tuple[bool, Any, str]:
    if not isinstance(result, Outcome):
        error = result.get("error")
        success = bool(result.get("success", error is None))
        return success, result.get("data"), to_text("Unknown error" if error is None else error)
    if not result.ok:
        return False, None, result.text or f"The call is {result.status.value}."
    value = shown_value(result)
    shown = value is None or _has_blocks(value)
    return True, (result.text or None) if shown else value, ""


def _has_blocks(value: Any) -> bool:
    return isinstance(value, Block) or (
        isinstance(value, list | tuple) and any(isinstance(item, Block) for item in value)
    )


def _write_element(tag: str, value: Any) -> str:
    return "".join(_element_parts(tag, _plain_value(value), 0))


def _plain_value(value: Any) -> Any:
    try:
        return to_jsonable_python(value, fallback=to_text, bytes_mode="base64")
    except (ValueError, TypeError):
        return to_text(value)


def _element_parts(tag: str, value: Any, depth: int) -> Iterator[str]:
    """The markup of one value, with its type if the text alone would be read differently."""
    named = _ELEMENT.match(tag)
    element = tag if named else "entry"
    key = "" if named else f' key="{_escape_text(tag).translate(_ATTRIBUTE_ESCAPES)}"'
    if depth > _DEPTH and isinstance(value, dict | list):
        value = to_text(value)
    yield f"<{element}{key}{_type_attribute(value)}>"
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _element_parts(str(name), member, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _element_parts("item", item, depth + 1)
    elif value is not None:
        yield _escape_text(_scalar_word(value))
    yield f"</{element}>"


def _type_attribute(value: Any) -> str:
    if value is None:
        kind = "null"
    elif isinstance(value, str):
        kind = "" if value and untyped_value(value) is value else "string"
    elif isinstance(value, dict):
        kind = "object" if not value or value.keys() == {"item"} else ""
    else:
        kind = "array" if value == [] else ""
    return f' type="{kind}"' if kind else ""


def _scalar_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escape_text(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text).translate(_ESCAPES)


class _Open:
    """An element that is being read."""

    __slots__ = ("kind", "members", "name", "tag", "text_from")

    def __init__(self, tag: str, key: str | None, kind: str | None, text_from: int) -> None:
        self.tag = tag
        self.name = tag if key is None else unescape_entities(key)
        self.kind = kind
        self.text_from = text_from
        self.members: list[tuple[str, Any]] = []

    def value(self, text: str) -> Any:
        """The value of the element, given the text before its closing tag."""
        if self.kind == "object" or (self.members and {n for n, _ in self.members} != {"item"}):
            return dict(self.members)
        if self.kind == "array" or self.members:
            return [value for _, value in self.members]
        words = unescape_entities(text)
        if self.kind in _EMPTY:
            return words if self.kind == "string" else None
        return untyped_value(words)


def _read_element(text: str) -> Any:
    stack: list[_Open] = []
    for tag in _TAG.finditer(text):
        closing, name, key, kind, _ = tag.groups()
        if not closing:
            stack.append(_Open(name, key, kind, tag.end()))
            continue
        if not stack or stack[-1].tag != name:
            break
        element = stack.pop()
        value = element.value(text[element.text_from : tag.start()])
        if not stack:
            return value if name == "tool_result" and tag.end() == len(text) else None
        stack[-1].members.append((element.name, value))
    return None
