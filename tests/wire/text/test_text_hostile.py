"""Text that is made to be slow: four times as much takes about four times as long."""

from time import process_time

import pytest

from wieldy import Toolbox
from wieldy.core.choices import TextDialect
from wieldy.wire.text import TextCallParser

BOX = Toolbox()
BOX.add(lambda city, tags: city, "known", input_schema={
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "tags": {"type": "array", "items": {"$ref": "#/properties/tags"}},
    },
})  # fmt: skip

_OPEN = "<tool_call><name>known</name><params>"
FLOODS = {
    "openings": ("", "<tool_call>", ""),
    "named openings": ("", "<tool_call><name>x</name><params>", ""),
    "open parameters": ("", "<tool_call><name>x</name><params><a>", ""),
    "open sections": ("", "<tool_call><name>x</name><![CDATA[", ""),
    "sections of lost elements": ("", "<tool_call><name>x</name><a><![CDATA[b]]>", ""),
    "a section without an end": (f"{_OPEN}<city><![CDATA[]]>", "</tags>]]", ""),
    "a section with many end marks": (f"{_OPEN}<city><![CDATA[", "]]>", ""),
    "a section before calls": (f"{_OPEN}<city><![CDATA[a]]>", "<tool_call><name>x</name>", ""),
    "elements before a section": (_OPEN, "<a><b></a>", "<![CDATA[a]]></city>"),
    "open elements before sections": (f"{_OPEN}{'<a>' * 2000}", "<![CDATA[a]]></b>", ""),
    "sections in a parameter": ("<function=known><parameter=a>", "<![CDATA[]]>", ""),
    "a section in a parameter": ("<function=known><parameter=a><![CDATA[]]>", "</city>]]", ""),
    "space in a parameter": ("<function=known><parameter=a>", " ", ""),
    "space before json": (_OPEN, " ", ""),
    "strings in parameters": (f"{_OPEN}{{", '"<tool_call>",', ""),
    "half names": ("", "<tool_call><name>x", ""),
    "one long name": ("<tool_call><name>", "x", ""),
    "angles": ("", "<", ""),
    "closings": ("", "</tool_call>", ""),
    "fences": ("", "```\n", ""),
    "nested fences": ("", "```x\n````\n", ""),
    "fences with open sections": ("", "```\n<tool_call><name>a</name><![CDATA[\n```\n", ""),
    "marks": ("", "`", ""),
    "marks in a line": ("", "``` ", ""),
    "waves": ("", "~x", ""),
    "quotes": ("", '<tool_call>{"', ""),
    "escaped quotes": ("", '<tool_call>{\\"', ""),
    "open json": ("", '<tool_call>{"a":', ""),
    "tags in a string": ('<tool_call>{"', "</tool_call><", ""),
    "tags in strings": ("<tool_call>{", '"<tool_call>",', ""),
    "strings that are never closed": ("", '<tool_call>{"</tool_call>', ""),
    "space after a string": ('<tool_call>{"<tool_call>"', " \n", ""),
    "values one after the other": ("<tool_call>", "{} ", "</tool_call>"),
    "escaped single quotes": ("<tool_call>{ '", "\\'", "</tool_call>"),
    "single quotes": ("<tool_call>{ ", "'", "'</tool_call>"),
    "deep json": ("<tool_call>", "[", "</tool_call>"),
    "commas": ("<tool_call>[", ",   ", "</tool_call>"),
    "functions": ("", "<function=known>", ""),
    "functions cut short": ("", "<function=known><parameter=a></function>", ""),
    "open invocations": ("", '<invoke name="known"><parameter name="a">', ""),
    "wrappers": ("", "<function_calls>", ""),
    "prefixes": ("", "<a:", ""),
    "spaces": ("<tool_call>", " ", ""),
    "tags over lines": ("", "<tool_call\n", ""),
    "lines in a tag": ("<tool_call ", "\n ", ">"),
    "mentions": ("", "<function=known> words ", ""),
    "words between parameters": (
        "<tool_call><function=known>",
        "<parameter=a>1</parameter> words ",
        "</function>",
    ),
    "attributes": ("", "<tool_call a", ""),
    "deep elements": (_OPEN + "<tags>", "<item>", "</tags></params></tool_call>"),
    "same elements": (_OPEN, "<city>", "</params></tool_call>"),
    "repeated elements": (_OPEN, "<city>a</city>", "</params></tool_call>"),
    "sections": (_OPEN + "<city>", "<![CDATA[]]>", "</city></params></tool_call>"),
    "entities": (_OPEN + "<city>", "&#1;", "</city></params></tool_call>"),
    "parameters": ("<tool_call><function=known>", "<parameter=a>", "</function></tool_call>"),
}
SMALL = 20_000


def _seconds(flood: tuple[str, str, str], size: int, chunk: int) -> float:
    before, repeated, after = flood
    text = before + repeated * (size // len(repeated)) + after
    parser = TextCallParser("auto", BOX)
    started = process_time()
    raw = 0
    for at in range(0, len(text), chunk):
        raw += sum(len(event.raw_text) for event in parser.feed(text[at : at + chunk]))
    raw += sum(len(event.raw_text) for event in parser.close())
    assert raw == len(text)
    return process_time() - started


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("chunk", [7, 1_000_000])
def test_hostile_text_takes_time_in_step_with_its_length(name: str, chunk: int) -> None:
    def is_in_step() -> bool:
        small = _seconds(FLOODS[name], SMALL, chunk)
        return _seconds(FLOODS[name], 4 * SMALL, chunk) < 10 * small + 0.2

    # Another process may have disturbed the first measurement.
    assert any(is_in_step() for _ in range(3))


@pytest.mark.parametrize("dialect", ["xml", "auto"])
def test_a_call_after_a_flood_of_openings_is_found(dialect: TextDialect) -> None:
    call = "<tool_call><name>f</name><params><q>1</q></params></tool_call>"
    for flood in ("<tool_call>", "<tool_call><name>x</name><params> ", "<", "```\n```\n"):
        calls = TextCallParser(dialect).parse(f"{flood * 10_000}\n{call}")
        assert calls[-1].tool == "f"
