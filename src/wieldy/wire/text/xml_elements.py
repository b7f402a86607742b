"""Find elements in text that resembles XML: tags, CDATA, and the text between them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .code_fences import attribute_pattern
from .xml_sections import CDATA, CDATA_END

TAG = rf"{CDATA}|<(?P<end>/)?(?P<tag>[^\s<>/!?=&]{{1,64}}){attribute_pattern(160)}/?>"
TOKEN = re.compile(TAG, re.IGNORECASE)

_CDATA = re.compile(CDATA, re.IGNORECASE)
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#x([0-9a-f]{1,6}));", re.IGNORECASE)
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_MAX_UNCLOSED = 8


class Source(NamedTuple):
    """The text of a block, and a copy with CDATA content masked, in which tags are searched."""

    raw: str
    masked: str


class Element(NamedTuple):
    """One element: its tag, the start and end of its content, and its own end."""

    tag: str
    start: int
    end: int
    over: int
    closed: bool


class Region(NamedTuple):
    """The elements in a range of text, and whether the range contains anything else.

    `worded` means words between the elements, `mixed` words or stray closing tags.
    """

    elements: list[Element]
    mixed: bool
    worded: bool


def elements_in(
    source: Source, start: int, end: int, known: Mapping[str, Any] | None = None
) -> Region:
    """The elements between two positions, without nested ones.

    An element that is never closed extends to the end, or to the next known element.
    """
    raw = source.masked
    found: list[Element] = []
    mixed = worded = False
    position, unclosed = start, 0
    while True:
        token = TOKEN.search(raw, position, end)
        if token is None:
            break
        worded = worded or token["tag"] is None or bool(raw[position : token.start()].strip())
        if token["tag"] is None or token["end"]:
            mixed, position = True, _position_after(raw, token, end)
            continue
        element = _read_element(raw, token, end)
        if not element.closed and known and unclosed < _MAX_UNCLOSED:
            unclosed += 1
            element = _cut_element(raw, element, known)
        found.append(element)
        position = element.over
    worded = worded or bool(raw[position:end].strip())
    return Region(found, mixed or worded, worded)


def _read_element(raw: str, opening: re.Match[str], end: int) -> Element:
    tag, start, depth = opening["tag"], opening.end(), 1
    if opening[0].endswith("/>"):
        return Element(tag, start, start, start, True)
    for token in _find_tags(raw, start, end):
        if token["tag"].lower() == tag.lower() and not token[0].endswith("/>"):
            depth += -1 if token["end"] else 1
            if depth == 0:
                return Element(tag, start, token.start(), token.end(), True)
    return Element(tag, start, end, end, False)


def _cut_element(raw: str, element: Element, known: Mapping[str, Any]) -> Element:
    for token in _find_tags(raw, element.start, element.end):
        if not token["end"] and token["tag"] in known:
            return element._replace(end=token.start(), over=token.start())
    return element


def _find_tags(raw: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The tags between two positions, without those in CDATA."""
    while (token := TOKEN.search(raw, start, end)) is not None:
        if token["tag"] is not None:
            yield token
        start = _position_after(raw, token, end)


def _position_after(raw: str, token: re.Match[str], end: int) -> int:
    """The position after a tag, or after the CDATA section that starts here."""
    if token["tag"] is not None:
        return token.end()
    close = raw.find(CDATA_END, token.end(), end)
    return end if close < 0 else close + len(CDATA_END)


def text_of(source: Source, start: int, end: int) -> str:
    """The text of an element: CDATA unchanged, other text stripped and unescaped."""
    content, marked = source.raw[start:end], source.masked[start:end]
    if "<![" not in marked:
        return unescape_entities(content.strip())
    pieces: list[str] = []
    position = 0
    while (opening := _CDATA.search(marked, position)) is not None:
        plain = content[position : opening.start()]
        close = marked.find(CDATA_END, opening.end())
        close = len(content) if close < 0 else close
        pieces.append(unescape_entities(_text_between(plain) if pieces else plain.lstrip()))
        pieces.append(content[opening.end() : close])
        position = close + len(CDATA_END)
    pieces.append(unescape_entities(content[position:].rstrip()))
    return "".join(pieces) if len(pieces) > 1 else pieces[0].lstrip()


def _text_between(plain: str) -> str:
    return "" if plain.isspace() else plain


def unescape_entities(text: str) -> str:
    """Replace the five named entities and numeric ones; other entities stay unchanged."""
    return _ENTITY.sub(_entity_character, text) if "&" in text else text


def _entity_character(entity: re.Match[str]) -> str:
    name, decimal, hexadecimal = entity.groups()
    if name:
        return _NAMED[name.lower()]
    number = int(decimal) if decimal else int(hexadecimal, 16)
    legal = 0 < number < 0xD800 or 0xDFFF < number <= 0x10FFFF
    return chr(number) if legal else entity[0]
