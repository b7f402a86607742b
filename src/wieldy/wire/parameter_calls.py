"""Calls with a name in the tag: `<function=…><parameter=…>` and `<invoke name="…">`.

The text of a parameter is taken as it is, without the line break that models
put after the opening tag and before the closing one.
"""

import re
from typing import Any, NamedTuple

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
from .text_fences import FENCE_IN_BLOCK, IN_TAG, closes
from .text_values import declared_name, property_schema, typed
from .xml_elements import unescape

_PREFIX = r"(?:[\w-]{1,20}:)?"
_WRAPPER = rf"(?P<wrapper>/?{_PREFIX}(?:tool_calls?|function_calls)\s{{0,16}})"
_FORMS = {
    "function": (
        rf"(?P<call>function={IN_TAG}{{1,200}})|(?P<parameter>parameter={IN_TAG}{{1,200}})"
        rf"|(?P<end_parameter>/parameter\s{{0,16}})|(?P<end>/function\s{{0,16}})|{_WRAPPER}"
    ),
    "invoke": (
        rf"(?P<call>{_PREFIX}invoke(?=\s){IN_TAG}{{2,201}})"
        rf"|(?P<parameter>{_PREFIX}parameter(?=\s){IN_TAG}{{2,201}})"
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


class _Parameter(NamedTuple):
    """One parameter: its name, its text, where its tag starts and where it is over."""

    name: str
    text: str
    at: int
    over: int


def _parameter(opening: re.Match[str], end: int, over: int) -> _Parameter:
    text = opening.string[opening.end() : end]
    return _Parameter(tag_name(opening["parameter"]), text, opening.start(), over)


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
        parameters = self.parameters(raw, opening.end(), ending)
        if parameters is None:
            return []
        tool = lookup(name)
        schema = {} if tool is None else tool.input_schema
        arguments: dict[str, Any] = {}
        for parameter in parameters:
            key = declared_name(parameter.name, schema)
            arguments[key] = typed(_text(parameter.text), property_schema(schema, key), schema)
        return [made_call(name, arguments, tool)]

    def parameters(self, raw: str, start: int, ending: Ending) -> list[_Parameter] | None:
        """The parameters; None if this is a mention of a call and not one.

        A tag around words and nothing else is one, and so is a tag that was never closed,
        unless parameters follow it and no words.
        """
        closed = ending is Ending.CLOSED
        found = self._balanced(raw, start)
        if found is None:
            return self._one_by_one(raw, start)
        if found and closed:
            return found
        end = half_closing(raw) if ending is Ending.ENDED else len(raw)
        mentioned = not (found or closed) or self._has_words(raw, start, end, found)
        return None if mentioned else found

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
                if closes(token["fence"], self._fence or ""):
                    return End(token.start(), Ending.LOST if self._open else Ending.CUT)
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
            if kind == "end":
                return End(token.end(), Ending.CLOSED)
            closed = token[0].startswith("</")
            return End(token.start(), Ending.CLOSED if closed else Ending.CUT)
        if kind == "call":
            self._quoted += not token[0].endswith("/>")
        elif kind == "end" and self._quoted:
            self._quoted -= 1
        elif kind == "end" and _REAL_END.match(window, token.end()):
            return End(token.end(), Ending.CLOSED)
        return None

    def _balanced(self, raw: str, start: int) -> list[_Parameter] | None:
        """The parameters; None if an opening tag has no closing one."""
        found: list[_Parameter] = []
        depth, opening = 0, None
        for token in _TOKENS[self._form].finditer(raw, start):
            if token.lastgroup == "parameter" and token[0].endswith("/>"):
                found += [] if depth else [_parameter(token, token.end(), token.end())]
            elif token.lastgroup == "parameter":
                opening = opening if depth else token
                depth += 1
            elif token.lastgroup == "end_parameter" and opening and depth:
                depth -= 1
                found += [] if depth else [_parameter(opening, token.start(), token.end())]
        return found if depth == 0 else None

    def _one_by_one(self, raw: str, start: int) -> list[_Parameter]:
        """The parameters where each tag, of whatever kind, ends the one before it."""
        found: list[_Parameter] = []
        opening = None
        for token in _TOKENS[self._form].finditer(raw, start):
            if opening is not None:
                found.append(_parameter(opening, token.start(), token.start()))
            opening = token if token.lastgroup == "parameter" else None
        return found

    def _has_words(self, raw: str, start: int, end: int, parameters: list[_Parameter]) -> bool:
        """Whether anything but tags stands outside of the parameters."""
        starts = [start, *(parameter.over for parameter in parameters)]
        ends = [*(parameter.at for parameter in parameters), end]
        between = (raw[one:other] for one, other in zip(starts, ends, strict=True))
        return any(_TOKENS[self._form].sub("", text).strip() for text in between)


def read_back(form: str, text: str) -> tuple[str, list[tuple[str, str]]] | None:
    """The name and the texts of a call that is nothing but this text; None if it is not one."""
    block = ParameterBlock(form, 0, None)
    opening = _TOKENS[form].match(text)
    if opening is None or block.find_end(text, True) != End(len(text), Ending.CLOSED):
        return None
    found = block.parameters(text, opening.end(), Ending.CLOSED)
    if found is None or opening.lastgroup != "call":
        return None
    return tag_name(opening["call"]), [(each.name, _text(each.text)) for each in found]


def tag_name(tag: str) -> str:
    """The name in `function=…`, or in the attribute `name`."""
    if re.match(r"(?:function|parameter)=", tag, re.IGNORECASE):
        return tag.partition("=")[2].strip().strip("\"'")
    found = _NAME.search(tag)
    return unescape(next(filter(None, found.groups()), "")).strip() if found else ""


def _text(text: str) -> str:
    text = _without_line_breaks(text)
    cdata = text.lstrip().startswith("<![CDATA[") and text.rstrip().endswith("]]>")
    return text.strip()[9:-3] if cdata else text


def _without_line_breaks(text: str) -> str:
    text = text.removeprefix("\r\n") if text.startswith("\r") else text.removeprefix("\n")
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")
