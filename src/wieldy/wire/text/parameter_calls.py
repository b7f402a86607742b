"""Read calls with a name in the tag: `<function=…><parameter=…>` and `<invoke name="…">`.

The text of a parameter is used unchanged, except for one line break after the opening tag
and one before the closing tag, which models add.
"""

import re
from typing import Any, NamedTuple

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
from .code_fences import FENCE_IN_BLOCK, IN_TAG, closes_fence
from .text_values import declared_name, property_schema, typed_value
from .xml_elements import Source, unescape_entities
from .xml_sections import CDATA, CDATA_END, OpenSection, mask_sections

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
_TAGS = {form: f"<(?:{tags})>" for form, tags in _FORMS.items()}
_TOKENS = {form: re.compile(tags, re.IGNORECASE) for form, tags in _TAGS.items()}
# The markup to look for while the text streams, including CDATA sections and fences.
_SEARCHED = {
    (form, fenced): re.compile(
        rf"{tags}|(?P<section>{CDATA})" + (f"|{FENCE_IN_BLOCK}" if fenced else ""), re.IGNORECASE
    )
    for form, tags in _TAGS.items()
    for fenced in (False, True)
}
# The text after a closing tag that ends the call even though a parameter is still open.
_REAL_END = re.compile(
    rf"\s{{0,64}}(?:\Z|</?{_PREFIX}(?:tool_calls?|function_calls)[\s>]"
    rf"|<(?:function=|{_PREFIX}invoke\s))",
    re.IGNORECASE,
)
_MAYBE_REAL_END = re.compile(r"\s{0,64}(?:</?[\w:-]{0,40})?\Z")
_ATTRIBUTE = re.compile(r"""([^\s=/"']+)\s{0,16}=\s{0,16}(?:"([^"]*)"|'([^']*)'|([^\s"'/]+))""")
_SECTION = re.compile(rf"\s*+{CDATA}(?P<inside>x*+)\]\]>\s*+", re.IGNORECASE)


class _Parameter(NamedTuple):
    """One parameter: its name, its text, the start of its tag and its end."""

    name: str
    text: str
    at: int
    over: int


class ParameterBlock:
    """A call whose tag contains its name.

    A call inside a parameter is quoted text. CDATA counts as markup only at the start of a
    parameter; its content is quoted text as well.
    """

    def __init__(self, form: str, position: int, fence: str | None) -> None:
        self.position = position
        self.offset = 0
        self._form = form
        self._fence = fence
        self._token = _SEARCHED[form, fence is not None]
        self._section: OpenSection | None = None
        self._sections: list[tuple[int, int]] = []
        self._begun: str | None = None  # the tag of a parameter without text so far
        self._open = 0
        self._quoted = 0
        self._filled = False
        self._started = False

    def defers(self, chunk: str) -> bool:
        return self._section is not None and self._section.defers(chunk)

    def find_end(self, window: str, final: bool) -> BlockEnd | None:
        end = self._search_end(window, final)
        if end is not None or not final:
            return end
        whole = self._filled and not self._open
        return BlockEnd(len(window), BlockEnding.ENDED if whole else BlockEnding.LOST)

    def read_calls(self, raw: str, ending: BlockEnding, lookup: Lookup) -> list[Call]:
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
            arguments[key] = typed_value(parameter.text, property_schema(schema, key), schema)
        return [made_call(name, arguments, tool)]

    def parameters(self, raw: str, start: int, ending: BlockEnding) -> list[_Parameter] | None:
        """The parameters; None if the text only mentions a call.

        A tag that contains only words is a mention. So is a tag that is never closed, unless
        it is followed by parameters and no words.
        """
        closed = ending is BlockEnding.CLOSED
        source = Source(raw, mask_sections(raw, self._sections))
        found = self._balanced_parameters(source, start)
        if found is None:
            return self._one_by_one(source, start)
        if found and closed:
            return found
        end = half_closing(raw) if ending is BlockEnding.ENDED else len(raw)
        mentioned = not (found or closed) or self._has_words(raw, start, end, found)
        return None if mentioned else found

    def _search_end(self, window: str, final: bool) -> BlockEnd | None:
        while self._section is None or self._leave_section(window, self._section, final):
            token = self._token.search(window, self.position)
            if token is None:
                self._go_to(window, undecided_from(window, self.position, self._fence is not None))
                break
            self._go_to(window, token.start())
            if self._is_cut(window, token, final):
                break
            self.position = token.end()
            end = self._pass_token(window, token)
            if end is not None:
                return end
        return None

    def _go_to(self, window: str, position: int) -> None:
        if self._begun and window[self.position : position].strip():
            self._begun = None
        self.position = position

    def _leave_section(self, window: str, section: OpenSection, final: bool) -> bool:
        self.position, over = section.find_end(window, self.position, final)
        if over:
            self._sections.append((section.start, self.offset + self.position))
            self.position += len(CDATA_END)
            self._section = None
        return over

    def _is_cut(self, window: str, token: re.Match[str], final: bool) -> bool:
        if final:
            return False
        if token.lastgroup == "fence":
            return waits_for_line_end(window, token, final)
        if token.lastgroup == "end" and self._open and not self._quoted:
            return _MAYBE_REAL_END.match(window, token.end()) is not None
        return False

    def _pass_token(self, window: str, token: re.Match[str]) -> BlockEnd | None:
        begun, self._begun = self._begun, None
        match token.lastgroup:
            case "section" if begun:
                self._section = OpenSection(begun, self.offset + token.end())
                self._begun = begun
            case "fence":
                if closes_fence(token["fence"], self._fence or ""):
                    return BlockEnd(
                        token.start(), BlockEnding.LOST if self._open else BlockEnding.CUT
                    )
            case "parameter":
                self._filled = True
                if not token[0].endswith("/>"):
                    self._open += 1
                    self._begun = re.split(r"[\s=]", token["parameter"])[0].lower()
            case "end_parameter":
                self._open = max(0, self._open - 1)
                self._quoted *= bool(self._open)
            case "call" | "wrapper" | "end":
                return self._pass_call(window, token)
        return None

    def _pass_call(self, window: str, token: re.Match[str]) -> BlockEnd | None:
        kind = token.lastgroup
        if kind == "call" and not self._started:
            self._started = True
            return BlockEnd(token.end(), BlockEnding.CLOSED) if token[0].endswith("/>") else None
        if not self._open:
            if kind == "end":
                return BlockEnd(token.end(), BlockEnding.CLOSED)
            closed = token[0].startswith("</")
            return BlockEnd(token.start(), BlockEnding.CLOSED if closed else BlockEnding.CUT)
        if kind == "call":
            self._quoted += not token[0].endswith("/>")
        elif kind == "end" and self._quoted:
            self._quoted -= 1
        elif kind == "end" and _REAL_END.match(window, token.end()):
            return BlockEnd(token.end(), BlockEnding.CLOSED)
        return None

    def _balanced_parameters(self, source: Source, start: int) -> list[_Parameter] | None:
        """The parameters; None if an opening tag has no closing one."""
        found: list[_Parameter] = []
        depth, opening = 0, None
        for token in _TOKENS[self._form].finditer(source.masked, start):
            if token.lastgroup == "parameter" and token[0].endswith("/>"):
                found += [] if depth else [_make_parameter(source, token, token.end(), token.end())]
            elif token.lastgroup == "parameter":
                opening = opening if depth else token
                depth += 1
            elif token.lastgroup == "end_parameter" and opening and depth:
                depth -= 1
                if depth == 0:
                    found.append(_make_parameter(source, opening, token.start(), token.end()))
        return found if depth == 0 else None

    def _one_by_one(self, source: Source, start: int) -> list[_Parameter]:
        """The parameters, if each tag of any kind ends the parameter before it."""
        found: list[_Parameter] = []
        opening = None
        for token in _TOKENS[self._form].finditer(source.masked, start):
            if opening is not None:
                found.append(_make_parameter(source, opening, token.start(), token.start()))
            opening = token if token.lastgroup == "parameter" else None
        return found

    def _has_words(self, raw: str, start: int, end: int, parameters: list[_Parameter]) -> bool:
        """Whether there is text other than tags outside the parameters."""
        starts = [start, *(parameter.over for parameter in parameters)]
        ends = [*(parameter.at for parameter in parameters), end]
        between = (raw[one:other] for one, other in zip(starts, ends, strict=True))
        return any(_TOKENS[self._form].sub("", text).strip() for text in between)


def read_back(form: str, text: str) -> tuple[str, list[tuple[str, str]]] | None:
    """The name and the parameter texts if the text is exactly one call; else None."""
    block = ParameterBlock(form, 0, None)
    opening = _TOKENS[form].match(text)
    if opening is None or block.find_end(text, True) != BlockEnd(len(text), BlockEnding.CLOSED):
        return None
    found = block.parameters(text, opening.end(), BlockEnding.CLOSED)
    if found is None or opening.lastgroup != "call":
        return None
    return tag_name(opening["call"]), [(each.name, each.text) for each in found]


def tag_name(tag: str) -> str:
    """The name in `function=…`, or in the attribute `name`."""
    if re.match(r"(?:function|parameter)=", tag, re.IGNORECASE):
        return tag.partition("=")[2].strip().strip("\"'")
    for attribute in _ATTRIBUTE.finditer(tag):
        if attribute[1].lower() == "name":
            return unescape_entities(next(filter(None, attribute.groups()[1:]), "")).strip()
    return ""


def _make_parameter(source: Source, opening: re.Match[str], end: int, over: int) -> _Parameter:
    text = _parameter_text(source, opening.end(), end)
    return _Parameter(tag_name(opening["parameter"]), text, opening.start(), over)


def _parameter_text(source: Source, start: int, end: int) -> str:
    """The text of a parameter: unchanged, or the content of CDATA if there is nothing else."""
    inside: list[str] = []
    at = start
    while (section := _SECTION.match(source.masked, at, end)) is not None:
        inside.append(source.raw[section.start("inside") : section.end("inside")])
        at = section.end()
    whole = bool(inside) and at == end
    return "".join(inside) if whole else _without_line_breaks(source.raw[start:end])


def _without_line_breaks(text: str) -> str:
    text = text.removeprefix("\r\n") if text.startswith("\r") else text.removeprefix("\n")
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")
