"""Calls as XML: `<tool_call><name>…</name><params>…</params></tool_call>`, CDATA or not.

This is no XML parser. Entities beyond the five and the numeric ones are text, and
so are document types, comments and whatever else is no plain tag.
"""

import re
from typing import Any

from wieldy.core.call import Call

from .text_blocks import (
    End,
    Ending,
    Lookup,
    half_closing,
    made_call,
    undecided,
    waits_for_line_end,
)
from .text_fences import FENCE_IN_BLOCK, closes
from .text_values import (
    Schema,
    branch_of,
    declared_name,
    kinds_of,
    property_schema,
    read_json,
    typed,
)
from .xml_elements import CDATA_END, TAG, TOKEN, Element, elements_in, text_of

_FENCED_TOKEN = re.compile(f"{TAG}|{FENCE_IN_BLOCK}", re.IGNORECASE)
_PARAMS = ("params", "parameters", "arguments")
_DEPTH = 32


class XmlBlock:
    """A `<tool_call>` with tags in it.

    A closing tag inside CDATA is text. A `<tool_call>` inside an open parameter
    is quoted there and must be closed there; anywhere else it means that this
    block was never closed.
    """

    def __init__(self, position: int, fence: str | None) -> None:
        self.position = position
        self._fence = fence
        self._token = _FENCED_TOKEN if fence else TOKEN
        self._in_cdata = False
        self._in_params = False
        self._open: str | None = None
        self._same = 0
        self._depth = 1

    def find_end(self, window: str, final: bool) -> End | None:
        end = self._search(window, final)
        if end is not None or not final:
            return end
        return End(len(window), Ending.LOST if self._open or self._in_cdata else Ending.ENDED)

    def read_calls(self, raw: str, ending: Ending, lookup: Lookup) -> list[Call]:
        top = elements_in(raw, raw.index(">") + 1, _body_end(raw, ending))
        name = next((e for e in top.elements if e.tag.lower() == "name"), None)
        params = next((e for e in top.elements if e.tag.lower() in _PARAMS), None)
        closed = ending is Ending.CLOSED
        if name is None or not name.closed or (params is None and not closed):
            return []
        if top.worded and (params is None or not closed):
            return []
        called = text_of(raw, name.start, name.end).strip()
        if not called:
            return []
        tool = lookup(called)
        schema = {} if tool is None else tool.input_schema
        if params is None:
            members = [element for element in top.elements if element is not name]
            return [made_call(called, _members(raw, members, schema, schema, 0), tool)]
        if not closed and _is_prose(raw, params, schema):
            return []
        return [made_call(called, _read_params(raw, params, schema), tool)]

    def _search(self, window: str, final: bool) -> End | None:
        while True:
            if self._in_cdata and not self._leave_cdata(window):
                return None
            token = self._token.search(window, self.position)
            if token is None:
                break
            if token.lastgroup == "fence":
                if waits_for_line_end(window, token, final):
                    self.position = token.start()
                    return None
                if closes(token["fence"], self._fence or ""):
                    return End(token.start(), Ending.LOST if self._open else Ending.CUT)
            self.position = token.end()
            end = self._pass_tag(token)
            if end is not None:
                return end
        self.position = undecided(window, self.position, self._fence is not None)
        return None

    def _leave_cdata(self, window: str) -> bool:
        end = window.find(CDATA_END, self.position)
        self._in_cdata = end < 0
        self.position = max(self.position, len(window) - 2) if end < 0 else end + 3
        return end >= 0

    def _pass_tag(self, token: re.Match[str]) -> End | None:
        tag = token["tag"]
        if tag is None:
            self._in_cdata = token.lastgroup != "fence"
            return None
        name, closing = tag.lower(), token["end"] is not None
        if name == "tool_call":
            return self._pass_call(token, closing)
        if self._open is None:
            self._pass_part(name, closing, token[0].endswith("/>"))
        elif name == self._open and not token[0].endswith("/>"):
            self._same += -1 if closing else 1
            if self._same == 0:
                self._open = None
        return None

    def _pass_call(self, token: re.Match[str], closing: bool) -> End | None:
        if closing:
            self._depth -= 1
            return None if self._depth else End(token.end(), Ending.CLOSED)
        if self._open is None:
            return End(token.start(), Ending.CUT)
        self._depth += 1
        return None

    def _pass_part(self, name: str, closing: bool, empty: bool) -> None:
        if name in _PARAMS and self._in_params is closing:
            self._in_params = not closing
        elif not closing and not empty:
            self._open, self._same = name, 1


def _is_prose(raw: str, params: Element, schema: Schema) -> bool:
    """Whether words stand where only parameters, or an object as JSON, should."""
    region = elements_in(raw, params.start, params.end, schema.get("properties") or {})
    if not region.worded or region.elements:
        return region.worded
    try:
        return not isinstance(read_json(text_of(raw, params.start, params.end)), dict)
    except ValueError:
        return True


def _read_params(raw: str, params: Element, schema: Schema) -> dict[str, Any]:
    region = elements_in(raw, params.start, params.end, schema.get("properties") or {})
    if not region.elements:
        try:
            value = read_json(text_of(raw, params.start, params.end))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}
    return _members(raw, region.elements, schema, schema, 0)


def _members(
    raw: str, elements: list[Element], schema: Schema, root: Schema, depth: int
) -> dict[str, Any]:
    """Elements as a dict. Where an array is declared, a repeated one adds to it."""
    members: dict[str, Any] = {}
    for element in elements:
        name = declared_name(element.tag, schema)
        declared = property_schema(schema, name)
        value = _value(raw, element, declared, root, depth)
        if name in members and isinstance(members[name], list) and isinstance(value, list):
            members[name].extend(value)
        else:
            members[name] = value
    return members


def _value(raw: str, element: Element, schema: Any, root: Schema, depth: int) -> Any:
    if raw.startswith("<![CDATA[", element.start):
        return typed(text_of(raw, element.start, element.end), schema, root)
    kinds = kinds_of(schema, root)
    if depth < _DEPTH and (not kinds or kinds & {"array", "object"}):
        region = elements_in(raw, element.start, element.end)
        if region.elements and not region.mixed:
            if _are_items(region.elements, kinds):
                return _items(raw, region.elements, branch_of(schema, root, "array"), root, depth)
            if "object" in kinds:
                inner = branch_of(schema, root, "object")
                return _members(raw, region.elements, inner, root, depth + 1)
    return typed(text_of(raw, element.start, element.end), schema, root)


def _are_items(elements: list[Element], kinds: frozenset[str]) -> bool:
    tags = {element.tag.lower() for element in elements}
    if "array" in kinds:
        return tags == {"item"} or (len(tags) == 1 and "object" not in kinds)
    return not kinds and tags == {"item"}


def _items(
    raw: str, elements: list[Element], schema: Schema, root: Schema, depth: int
) -> list[Any]:
    first = schema.get("prefixItems", ())
    rest = schema.get("items", {})
    return [
        _value(raw, element, first[i] if i < len(first) else rest, root, depth + 1)
        for i, element in enumerate(elements)
    ]


def _body_end(raw: str, ending: Ending) -> int:
    if ending is Ending.CLOSED:
        return raw.rindex("<")
    return half_closing(raw) if ending is Ending.ENDED else len(raw)
