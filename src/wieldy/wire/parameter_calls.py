"""Calls with a name in the tag: `<function=…><parameter=…>` and `<invoke name="…">`.

The text of a parameter is taken as it is, without the line break that models
put after the opening tag and before the closing one.
"""

import re
from typing import Any

from wieldy.core.call import Call

from .text_blocks import End, Ending, Lookup, made_call, undecided, waits_for_line_end
from .text_fences import FENCE_IN_BLOCK, closes
from .text_values import Schema, declared_name, property_schema, typed
from .xml_elements import unescape

_PREFIX = r"(?:[\w-]{1,20}:)?"
_WRAPPER = rf"(?P<wrapper>/?{_PREFIX}(?:tool_calls?|function_calls)\s{{0,16}})"
_FORMS = {
    "function": (
        r"(?P<call>function=[^<>]{1,200})|(?P<parameter>parameter=[^<>]{1,200})"
        rf"|(?P<end_parameter>/parameter\s{{0,16}})|(?P<end>/function\s{{0,16}})|{_WRAPPER}"
    ),
    "invoke": (
        rf"(?P<call>{_PREFIX}invoke\s[^<>]{{1,200}})"
        rf"|(?P<parameter>{_PREFIX}parameter\s[^<>]{{1,200}})"
        rf"|(?P<end_parameter>/{_PREFIX}parameter\s{{0,16}})"
        rf"|(?P<end>/{_PREFIX}invoke\s{{0,16}})|{_WRAPPER}"
    ),
}
_TOKENS = {form: re.compile(f"<(?:{tags})>", re.IGNORECASE) for form, tags in _FORMS.items()}
_FENCED_TOKENS = {
    form: re.compile(f"<(?:{tags})>|{FENCE_IN_BLOCK}", re.IGNORECASE)
    for form, tags in _FORMS.items()
}
# What follows a closing tag that ends the call although a parameter was left open.
_REAL_END = re.compile(
    rf"\s{{0,64}}(?:\Z|</?{_PREFIX}(?:tool_calls?|function_calls)[\s>]"
    rf"|<(?:function=|{_PREFIX}invoke\s))",
    re.IGNORECASE,
)
_MAYBE_REAL_END = re.compile(r"\s{0,64}(?:</?[\w:-]{0,40})?\Z")
_NAME = re.compile(r"""\bname\s{0,16}=\s{0,16}(?:"([^"]*)"|'([^']*)'|([^\s"'/]+))""", re.IGNORECASE)


class ParameterBlock:
    """A call whose tag has its name. A call inside of a parameter is quoted there."""

    def __init__(self, form: str, position: int, fence: str | None) -> None:
        self.position = position
        self._form = form
        self._fence = fence
        self._token = (_FENCED_TOKENS if fence else _TOKENS)[form]
        self._open = 0
        self._quoted = 0
        self._filled = False
        self._started = False

    def find_end(self, window: str, final: bool) -> End | None:
        while (token := self._token.search(window, self.position)) is not None:
            if self._is_cut(window, token, final):
                self.position = token.start()
                return None
            self.position = token.end()
            end = self._pass(window, token)
            if end is not None:
                return end
        if final:
            whole = self._filled and not self._open
            return End(len(window), Ending.ENDED if whole else Ending.LOST)
        self.position = undecided(window, self.position, self._fence is not None)
        return None

    def read_calls(self, raw: str, ending: Ending, lookup: Lookup) -> list[Call]:
        opening = _TOKENS[self._form].match(raw)
        name = tag_name(opening["call"]) if opening else ""
        if opening is None or not name:
            return []
        tool = lookup(name)
        schema = {} if tool is None else tool.input_schema
        arguments: dict[str, Any] = {}
        for key, text in self._parameters(raw, opening.end()):
            key = declared_name(key, schema)
            arguments[key] = _value(text, key, schema)
        return [made_call(name, arguments, tool)]

    def _is_cut(self, window: str, token: re.Match[str], final: bool) -> bool:
        if final:
            return False
        if token.lastgroup == "fence":
            return waits_for_line_end(window, token, final)
        if token.lastgroup == "end" and self._open and not self._quoted:
            return _MAYBE_REAL_END.match(window, token.end()) is not None
        return False

    def _pass(self, window: str, token: re.Match[str]) -> End | None:
        match token.lastgroup:
            case "fence":
                cut = closes(token["fence"], self._fence or "")
                return End(token.start(), Ending.CUT) if cut else None
            case "parameter":
                self._open += not token[0].endswith("/>")
                self._filled = True
            case "end_parameter":
                self._open = max(0, self._open - 1)
                self._quoted *= bool(self._open)
            case "call" | "wrapper" | "end":
                return self._pass_call(window, token)
        return None

    def _pass_call(self, window: str, token: re.Match[str]) -> End | None:
        kind = token.lastgroup
        if kind == "call" and not self._started:
            self._started = True
            return End(token.end(), Ending.CLOSED) if token[0].endswith("/>") else None
        if not self._open:
            ended = kind == "end"
            return End(*((token.end(), Ending.CLOSED) if ended else (token.start(), Ending.CUT)))
        if kind == "call":
            self._quoted += not token[0].endswith("/>")
        elif kind == "end" and self._quoted:
            self._quoted -= 1
        elif kind == "end" and _REAL_END.match(window, token.end()):
            return End(token.end(), Ending.CLOSED)
        return None

    def _parameters(self, raw: str, start: int) -> list[tuple[str, str]]:
        found = self._balanced(raw, start)
        return self._one_by_one(raw, start) if found is None else found

    def _balanced(self, raw: str, start: int) -> list[tuple[str, str]] | None:
        """Names and texts; None if an opening tag has no closing one."""
        found: list[tuple[str, str]] = []
        depth, name, begin = 0, "", 0
        for token in _TOKENS[self._form].finditer(raw, start):
            if token.lastgroup == "parameter" and token[0].endswith("/>"):
                found += [] if depth else [(tag_name(token["parameter"]), "")]
            elif token.lastgroup == "parameter":
                if depth == 0:
                    name, begin = tag_name(token["parameter"]), token.end()
                depth += 1
            elif token.lastgroup == "end_parameter" and depth:
                depth -= 1
                if depth == 0:
                    found.append((name, raw[begin : token.start()]))
        return found if depth == 0 else None

    def _one_by_one(self, raw: str, start: int) -> list[tuple[str, str]]:
        """Names and texts where each tag, of whatever kind, ends the parameter before it."""
        found: list[tuple[str, str]] = []
        name, begin = "", -1
        for token in _TOKENS[self._form].finditer(raw, start):
            if begin >= 0:
                found.append((name, raw[begin : token.start()]))
                begin = -1
            if token.lastgroup == "parameter":
                name, begin = tag_name(token["parameter"]), token.end()
        return found


def tag_name(tag: str) -> str:
    """The name in `function=…`, or in the attribute `name`."""
    if re.match(r"(?:function|parameter)=", tag, re.IGNORECASE):
        return tag.partition("=")[2].strip().strip("\"'")
    found = _NAME.search(tag)
    return unescape(next(filter(None, found.groups()), "")).strip() if found else ""


def _value(text: str, key: str, schema: Schema) -> Any:
    text = _without_line_breaks(text)
    if text.lstrip().startswith("<![CDATA[") and text.rstrip().endswith("]]>"):
        text = text.strip()[9:-3]
    return typed(text, property_schema(schema, key), schema)


def _without_line_breaks(text: str) -> str:
    text = text.removeprefix("\r\n") if text.startswith("\r") else text.removeprefix("\n")
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")
