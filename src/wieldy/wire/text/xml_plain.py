"""Read complete, regular XML calls in one step, which is the common case."""

import re
from typing import Any, NamedTuple

from wieldy.core.call import Call

from .call_blocks import Lookup
from .text_values import declared_name, property_schema, typed_value, untyped_value
from .xml_sections import CDATA_END

_HEAD = re.compile(r"\s{0,256}<name>([^<>&]*+)</name>\s*+<params>", re.IGNORECASE)
_PART = re.compile(
    r"\s*+<((?!tool_call>)[^\s<>/!?=&]{1,64})>(?:<!\[CDATA\[|([^<&]*+)</\1>)", re.IGNORECASE
)
_TAIL = re.compile(r"\s*+</params>\s*+</tool_call>", re.IGNORECASE)


class PlainCall(NamedTuple):
    """A complete, regular block: its name, its texts and its end."""

    name: str
    texts: dict[str, str]
    end: int


def read_plain(window: str, start: int) -> PlainCall | None:
    """Read the most common form in one step; None for other forms, which `XmlBlock` reads."""
    head = _HEAD.match(window, start)
    if head is None or not head[1].strip():
        return None
    position = head.end()
    texts: dict[str, str] = {}
    count = 0
    while (part := _PART.match(window, position)) is not None:
        tag, text = part.groups()
        position = part.end()
        if text is None:
            close = window.find(CDATA_END, position)
            if close < 0 or not window.startswith(f"</{tag}>", close + 3):
                return None
            text = window[position:close]
            position = close + len(tag) + 6
        else:
            text = text.strip()
        texts[tag] = text
        count += 1
    tail = _TAIL.match(window, position)
    repeated = len({tag.lower() for tag in texts}) < count
    return None if tail is None or repeated else PlainCall(head[1].strip(), texts, tail.end())


def plain_call(plain: PlainCall, lookup: Lookup) -> Call:
    """The call, with its values converted to the declared types."""
    tool = lookup(plain.name)
    if tool is None:
        return Call(plain.name, {tag: untyped_value(text) for tag, text in plain.texts.items()})
    schema = tool.input_schema
    arguments: dict[str, Any] = {}
    for tag, text in plain.texts.items():
        name = declared_name(tag, schema)
        arguments[name] = typed_value(text, property_schema(schema, name), schema)
    return Call(tool.name, arguments)
