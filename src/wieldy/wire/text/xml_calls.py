"""Read calls as XML: `<tool_call><name>…</name><params>…</params></tool_call>`.

This is not an XML parser. Only the five named entities and numeric ones are decoded. Document
types, comments and everything else that is not a plain tag or CDATA are text.
"""

import re
from typing import Any

from wieldy.core.call import Call

from .call_blocks import (
    BlockEnd,
    BlockEnding,
    Lookup,
    half_closing,
    made_call,
    undecided_from,
    waits_for_line_end,
)
from .code_fences import FENCE_IN_BLOCK, closes_fence
from .json_strings import ANY_QUOTE, BEFORE_APOSTROPHE, JsonStrings
from .text_values import (
    Schema,
    branch_of,
    declared_name,
    kinds_of,
    property_schema,
    read_loose_json,
    typed_value,
)
from .xml_elements import TAG, TOKEN, Element, Source, elements_in, text_of
from .xml_sections import CDATA_END, OpenElements, OpenSection, mask_sections

_FENCED_TOKEN = re.compile(f"{TAG}|{FENCE_IN_BLOCK}", re.IGNORECASE)
_JSON = f"{ANY_QUOTE}|{TAG}"
_JSON_TOKENS = {
    TOKEN: re.compile(_JSON, re.IGNORECASE),
    _FENCED_TOKEN: re.compile(f"{_JSON}|{FENCE_IN_BLOCK}", re.IGNORECASE),
}
_FIRST = re.compile(r"\s*+(?P<first>[\s\S]|\Z)")
# This much space is kept, because a fence may start in it.
_KEPT = 32
_PARAMS = ("params", "parameters", "arguments")
_DEPTH = 32


class XmlBlock:
    """A `<tool_call>` that contains tags.

    A closing tag inside CDATA is text, and so is one inside a string if the parameters are
    JSON. A `<tool_call>` inside an open parameter is quoted text and must be closed there.
    Anywhere else it means that this block was never closed.
    """

    def __init__(self, position: int, fence: str | None) -> None:
        self.position = position
        self.offset = 0
        self._fence = fence
        self._token = self._tag_token = _FENCED_TOKEN if fence else TOKEN
        self._section: OpenSection | None = None
        self._strings = JsonStrings()
        self._string_start: int | None = None
        self._hidden: list[tuple[int, int]] = []
        self._elements = OpenElements("tool_call")
        self._in_params = False
        self._part_begins = False  # whether only space has followed a part or `<params>`
        self._open: str | None = None
        self._same = 0
        self._depth = 1

    def defers(self, chunk: str) -> bool:
        return self._section is not None and self._section.defers(chunk)

    def find_end(self, window: str, final: bool) -> BlockEnd | None:
        end = self._search_end(window, final)
        if end is not None or not final:
            return end
        half = self._open or self._section or self._strings.unfinished
        return BlockEnd(len(window), BlockEnding.LOST if half else BlockEnding.ENDED)

    def read_calls(self, raw: str, ending: BlockEnding, lookup: Lookup) -> list[Call]:
        source = Source(raw, mask_sections(raw, self._hidden))
        top = elements_in(source, raw.index(">") + 1, _body_end(source.masked, ending))
        name = next((e for e in top.elements if e.tag.lower() == "name"), None)
        params = next((e for e in top.elements if e.tag.lower() in _PARAMS), None)
        closed = ending is BlockEnding.CLOSED
        if name is None or not name.closed or (params is None and not closed):
            return []
        if top.worded and (params is None or not closed):
            return []
        called = text_of(source, name.start, name.end).strip()
        if not called:
            return []
        tool = lookup(called)
        schema = {} if tool is None else tool.input_schema
        if params is None:
            members = [element for element in top.elements if element is not name]
            return [made_call(called, _read_members(source, members, schema, schema, 0), tool)]
        if not closed and _is_prose(source, params, schema):
            return []
        return [made_call(called, _read_params(source, params, schema), tool)]

    def _search_end(self, window: str, final: bool) -> BlockEnd | None:
        while self._is_outside(window, final):
            token = self._token.search(window, self.position)
            if token is None:
                self._keep_undecided(window)
                break
            if token.lastgroup == "fence" and waits_for_line_end(window, token, final):
                self.position = token.start()
                break
            self.position = token.end()
            end = self._pass_token(token)
            if end is not None:
                return end
        return None

    def _is_outside(self, window: str, final: bool) -> bool:
        """Leave the CDATA section or string that is open; False if more text is needed."""
        if self._section is not None:
            return self._leave_section(window, self._section, final)
        if self._string_start is not None:
            return self._leave_string(window, self._string_start, final)
        return not self._part_begins or self._look_for_json(window, final)

    def _keep_undecided(self, window: str) -> None:
        keep = undecided_from(window, self.position, self._fence is not None)
        if self._token is not self._tag_token:
            keep = min(keep, len(window) - BEFORE_APOSTROPHE)
        self.position = max(self.position, keep)

    def _leave_section(self, window: str, section: OpenSection, final: bool) -> bool:
        self.position, over = section.find_end(window, self.position, final)
        if over:
            self._hidden.append((section.start, self.offset + self.position))
            self.position += len(CDATA_END)
            self._section = None
        return over

    def _leave_string(self, window: str, start: int, final: bool) -> bool:
        self.position, over = self._strings.leave(window, self.position, final)
        if over:
            self._hidden.append((start, self.offset + self.position - 1))
            self._string_start = None
        return over

    def _look_for_json(self, window: str, final: bool) -> bool:
        """Check whether JSON starts where a part may start; quotes matter inside JSON."""
        found = _FIRST.match(window, self.position)
        first = "" if found is None else found["first"]
        if not first and not final:
            self.position = max(self.position, len(window) - _KEPT)
            return False
        self._part_begins = False
        if first == "{":
            self._token = _JSON_TOKENS[self._tag_token]
        return True

    def _pass_token(self, token: re.Match[str]) -> BlockEnd | None:
        match token.lastgroup:
            case "tag":
                self._token = self._tag_token
                end = self._pass_tag(token)
                self._part_begins = self._open is None
                return end
            case "fence":
                if closes_fence(token["fence"], self._fence or ""):
                    return BlockEnd(
                        token.start(), BlockEnding.LOST if self._open else BlockEnding.CUT
                    )
            case "quote":
                self._strings.enter(token[0])
                self._string_start = self.offset + token.end()
            case None:
                start = self.offset + token.end()
                self._section = OpenSection(self._elements.innermost, start)
        return None

    def _pass_tag(self, token: re.Match[str]) -> BlockEnd | None:
        name, closing = token["tag"].lower(), token["end"] is not None
        empty = token[0].endswith("/>")
        if closing:
            self._elements.leave(name)
        elif not empty:
            self._elements.enter(name)
        if name == "tool_call":
            return self._pass_call(token, closing)
        if self._open is None:
            self._pass_part(name, closing, empty)
        elif name == self._open and not empty:
            self._same += -1 if closing else 1
            if self._same == 0:
                self._open = None
        return None

    def _pass_call(self, token: re.Match[str], closing: bool) -> BlockEnd | None:
        if closing:
            self._depth -= 1
            return None if self._depth else BlockEnd(token.end(), BlockEnding.CLOSED)
        if self._open is None:
            return BlockEnd(token.start(), BlockEnding.CUT)
        self._depth += 1
        return None

    def _pass_part(self, name: str, closing: bool, empty: bool) -> None:
        if name in _PARAMS and self._in_params is closing:
            self._in_params = not closing
        elif not closing and not empty:
            self._open, self._same = name, 1


def _is_prose(source: Source, params: Element, schema: Schema) -> bool:
    """Whether there is prose where only parameters or a JSON object are allowed."""
    region = elements_in(source, params.start, params.end, schema.get("properties") or {})
    if not region.worded or region.elements:
        return region.worded
    return _read_object(source, params) is None


def _read_params(source: Source, params: Element, schema: Schema) -> dict[str, Any]:
    region = elements_in(source, params.start, params.end, schema.get("properties") or {})
    if not region.elements:
        return _read_object(source, params) or {}
    return _read_members(source, region.elements, schema, schema, 0)


def _read_object(source: Source, params: Element) -> dict[str, Any] | None:
    """The parameters, if they are a JSON object."""
    try:
        values = read_loose_json(text_of(source, params.start, params.end))
    except ValueError:
        return None
    return values[0] if len(values) == 1 and isinstance(values[0], dict) else None


def _read_members(
    source: Source, elements: list[Element], schema: Schema, root: Schema, depth: int
) -> dict[str, Any]:
    """Elements as a dict. A repeated element is added to its array if one is declared."""
    members: dict[str, Any] = {}
    for element in elements:
        name = declared_name(element.tag, schema)
        declared = property_schema(schema, name)
        value = _read_value(source, element, declared, root, depth)
        if name in members and isinstance(members[name], list) and isinstance(value, list):
            members[name].extend(value)
        else:
            members[name] = value
    return members


def _read_value(source: Source, element: Element, schema: Any, root: Schema, depth: int) -> Any:
    if source.raw.startswith("<![CDATA[", element.start):
        return typed_value(text_of(source, element.start, element.end), schema, root)
    kinds = kinds_of(schema, root)
    if depth < _DEPTH and (not kinds or kinds & {"array", "object"}):
        region = elements_in(source, element.start, element.end)
        if region.elements and not region.mixed:
            if _are_items(region.elements, kinds):
                return _read_items(
                    source, region.elements, branch_of(schema, root, "array"), root, depth
                )
            if "object" in kinds:
                inner = branch_of(schema, root, "object")
                return _read_members(source, region.elements, inner, root, depth + 1)
    return typed_value(text_of(source, element.start, element.end), schema, root)


def _are_items(elements: list[Element], kinds: frozenset[str]) -> bool:
    tags = {element.tag.lower() for element in elements}
    if "array" in kinds:
        return tags == {"item"} or (len(tags) == 1 and "object" not in kinds)
    return not kinds and tags == {"item"}


def _read_items(
    source: Source, elements: list[Element], schema: Schema, root: Schema, depth: int
) -> list[Any]:
    first = schema.get("prefixItems", ())
    rest = schema.get("items", {})
    return [
        _read_value(source, element, first[i] if i < len(first) else rest, root, depth + 1)
        for i, element in enumerate(elements)
    ]


def _body_end(raw: str, ending: BlockEnding) -> int:
    if ending is BlockEnding.CLOSED:
        return raw.rindex("<")
    return half_closing(raw) if ending is BlockEnding.ENDED else len(raw)
