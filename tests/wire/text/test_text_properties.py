"""What holds for every text: any chunking, any dialect, and nothing lost."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wieldy import Toolbox
from wieldy.core.choices import TextDialect
from wieldy.core.tool import Tool
from wieldy.wire.text import TextCallParser, TextEvent
from wieldy.wire.text.call_dialects import DIALECTS
from wieldy.wire.text.call_text import render_call


def _known(city: str, tags: list[str] | None = None) -> str:
    """A declared tool."""
    return city


BOX = Toolbox()
BOX.add(_known, "known")

# Pieces of every dialect, so that random texts come near to calls and go wrong in all ways.
PIECES = [
    "<tool_call>",
    "</tool_call>",
    "<TOOL_CALL>",
    "<tool_call",
    'id="1">',
    "<tool_calls>",
    "</tool_calls>",
    "<function_calls>",
    "</function_calls>",
    "<name>",
    "</name>",
    "<name>f</name><params>",
    "<name>known</name>",
    "<params>",
    "</params>",
    "<q>",
    "</q>",
    "<city>",
    "</city>",
    "<tags><item>a</item></tags>",
    "<![CDATA[",
    "]]>",
    "<q><![CDATA[",
    "]]></q>",
    "a[b[0]]>1",
    "<params>{",
    '"q":"',
    "<parameter=a><![CDATA[",
    "]]></parameter>",
    "<a/>",
    '{"name":"f","arguments":{"a":"x"}}',
    '{"name":"f","arguments":{"a":"',
    "{'name':'f','arguments':{'a':'",
    '"}}',
    "'}}",
    "don't",
    '\\"',
    "\\<",
    "{",
    "}",
    "[",
    '"',
    "\\",
    "<function=f>",
    "<function=known>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "<invoke",
    'name="f">',
    "<invoke",
    "name='known'>",
    "<invoke",
    'name="known"/>',
    "</invoke>",
    "<parameter",
    'name="city">',
    "<x:invoke",
    'name="f">',
    "</x:invoke>",
    "```",
    "```xml",
    "````",
    "~~~",
    "`",
    "``",
    "~",
    "<",
    ">",
    "&",
    "&lt;",
    "/>",
    "1",
    "true",
    "f",
    "known",
    " words ",
    "'",
    "{'name': 'f'}",
    # Tags that go on over lines, and fences in them.
    "<tool_call\n",
    "<tool_call\n```\n>",
    "<invoke\n",
    "<a\n",
    "<a\n```\n>",
    "<function=\n~~~\n",
    "\n>",
]
INDENTS = [" " * 8, " " * 16, " " * 17, "\t" * 9, f"\n{' ' * 16}```\n", f"\n{' ' * 17}```\n"]
SPACES = [" ", "\n", "\r\n", "\n```\n", "\n~~~\n", "```xml\n", "\t", "   ", *INDENTS]
WHOLE = [
    render_call("f", {"q": "1"}, "xml"),
    render_call("f", {"q": "1"}, "hermes"),
    render_call("known", {"city": "a"}, "qwen"),
    render_call("known", {"city": "a"}, "invoke"),
]
piece = st.sampled_from([*PIECES, *SPACES, *WHOLE]) | st.text(max_size=4)
texts = st.lists(piece, max_size=24).map("".join)
cuts = st.lists(st.integers(1, 30), min_size=1, max_size=40)
dialects = st.sampled_from(sorted(DIALECTS))


def _chunked(text: str, sizes: list[int], dialect: TextDialect) -> list[TextEvent]:
    parser = TextCallParser(dialect, BOX)
    events: list[TextEvent] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        events += parser.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return events + parser.close()


def _story(events: list[TextEvent]) -> list[Any]:
    """Calls with their blocks, and the visible text before, between and after them."""
    story: list[Any] = [""]
    for event in events:
        if event.call is None:
            story[-1] += event.text
        else:
            story += [(event.call.tool, event.call.arguments, event.raw_text), ""]
    return story


@given(texts, cuts, dialects)
def test_every_chunking_tells_the_same_story(
    text: str, sizes: list[int], dialect: TextDialect
) -> None:
    whole = _story(TextCallParser(dialect, BOX).events(text))

    assert _story(_chunked(text, sizes, dialect)) == whole
    assert _story(_chunked(text, [1], dialect)) == whole


# Few pieces, so that fences, indents and tags over lines meet often.
HEADS = [
    "",
    "<tool_call",
    "<tool_call>{",
    "```\n<tool_call><name>known</name>",
    "```\n<tool_call><name>known</name><params>",
    "```\n<function=known>",
]
MIDDLES = ["```\n", "\n```\n", "\n", " " * 9, " " * 17, "<a", "<tool_call", '"', ">"]
TAILS = [
    "",
    "\n```\n",
    "<function=known></function>",
    "<name>known</name><params></params></tool_call>",
    WHOLE[1],
]
middles = st.lists(st.sampled_from(MIDDLES), max_size=5).map("".join)


@given(st.sampled_from(HEADS), middles, st.sampled_from(TAILS))
@settings(max_examples=600, deadline=None)
def test_fences_and_tags_that_meet_tell_the_same_story_cut_anywhere(
    head: str, middle: str, tail: str
) -> None:
    text = head + middle + tail
    whole = _story(TextCallParser("auto", BOX).events(text))
    for size in (1, 2, 5, 11):
        assert _story(_chunked(text, [size], "auto")) == whole


MENTION = "<tool_call\n```\n><name>known</name><params></params></tool_call>"


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize(
    "text",
    [
        f"{' ' * 17}```\n<function=known></function>\nx",
        f"a\n{' ' * 16}```\n<function=known></function>\nx",
        f"{' ' * 9}\t\t{' ' * 9}~~~\n{MENTION}",
        MENTION,
        f"```\n{MENTION}\n```\n",
        '<tool_call>{<tool_call a="1>\n' + WHOLE[1],
        "```\n<tool_call><name>known</name><a\n```\n>",
        "```\n<tool_call><name>known</name><params></params><a\n```\n>",
        "```\n<function=known><parameter=a\n```\n>",
        "```\n<invoke name='known'><parameter\n```\nname='a'>",
        "<tool_call>{don't</tool_call> don't",
        "<tool_call><name>known</name><params>{don't</tool_call> don't",
    ],
)
def test_every_single_cut_tells_the_same_story(text: str, dialect: TextDialect) -> None:
    whole = _story(TextCallParser(dialect, BOX).events(text))
    assert _story(_chunked(text, [1], dialect)) == whole
    for cut in range(1, len(text)):
        parser = TextCallParser(dialect, BOX)
        events = [*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.close()]
        assert _story(events) == whole


@given(texts, cuts, dialects)
def test_nothing_is_lost(text: str, sizes: list[int], dialect: TextDialect) -> None:
    events = _chunked(text, sizes, dialect)

    assert "".join(event.raw_text for event in events) == text
    for event in events:
        assert (event.text is None) is (event.call is not None)
        assert event.text in ("", event.raw_text) or event.call is not None


@pytest.mark.parametrize("dialect", ["xml", "hermes", "qwen", "invoke"])
def test_no_part_of_a_call_is_ever_shown(dialect: TextDialect) -> None:
    call = render_call("known", {"city": "Rome"}, dialect)
    for text in (call, f"```xml\n{call}\n```"):
        for cut in range(len(text)):
            for reader in (dialect, "auto"):
                events = TextCallParser(reader, BOX).feed(f"before\n{text[:cut]}")
                assert "".join(event.text or "" for event in events) == "before\n"


names = st.from_regex(r"[a-z][a-z0-9_]{0,11}", fullmatch=True)
safe = st.characters(exclude_categories=["Cs"])
hostile = st.sampled_from(["]]>", "</tool_call>", "<![CDATA[", "&lt;", *PIECES, *WHOLE])
strings = st.text(safe, max_size=40) | st.lists(hostile, max_size=6).map("".join)
scalars = st.booleans() | st.integers(-(10**6), 10**6) | strings
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
SCHEMAS: list[tuple[type, dict[str, Any]]] = [
    (bool, {"type": "boolean"}),
    (int, {"type": "integer"}),
    (str, {"type": "string"}),
]


def _schema(value: Any) -> dict[str, Any]:
    """A schema that says exactly what the value is."""
    if isinstance(value, list):
        return {"type": "array", "prefixItems": [_schema(item) for item in value]}
    if isinstance(value, dict):
        return {"type": "object", "properties": {k: _schema(v) for k, v in value.items()}}
    return next(schema for kind, schema in SCHEMAS if isinstance(value, kind))


def _tool(name: str, arguments: dict[str, Any]) -> Tool:
    return Tool(_known, name=name, input_schema=_schema(arguments), validation="describe")


@given(names, st.dictionaries(names, values, max_size=4), st.sampled_from(["xml", "auto"]), cuts)
def test_a_rendered_call_is_read_back(
    name: str, arguments: dict[str, Any], dialect: TextDialect, sizes: list[int]
) -> None:
    text = f"before {render_call(name, arguments, dialect)} after"
    parser = TextCallParser(dialect, [_tool(name, arguments)])

    [call] = parser.parse(text)

    assert (call.tool, call.arguments) == (name, arguments)


@given(names, st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_a_call_as_json_is_read_back_without_a_schema(name: str, arguments: dict[str, Any]) -> None:
    [call] = TextCallParser("hermes").parse(render_call(name, arguments, "hermes"))
    assert (call.tool, call.arguments) == (name, arguments)


@given(names, st.dictionaries(st.text(max_size=8) | texts, values | texts, max_size=4))
def test_a_call_as_json_holds_no_tag_but_its_own(name: str, arguments: dict[str, Any]) -> None:
    text = render_call(name, arguments, "hermes")
    assert text.count("<") == 2


def _over_lines(call: Any) -> str:
    """JSON with its line breaks as they are, which is not quite JSON."""
    text = json.dumps(call, ensure_ascii=False, indent=1)
    return re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[0], text)


quotes = st.sampled_from([json.dumps, _over_lines, repr])
AROUND = [("", "\n"), ("words ", ""), ("```json\n", "\n```\n"), ("<tool_calls>", "</tool_calls>")]


@given(texts, quotes, st.sampled_from(AROUND), st.sampled_from(["hermes", "auto"]), cuts)
def test_text_in_a_string_of_json_is_nothing_but_text(
    quoted: str,
    written: Callable[[Any], str],
    around: tuple[str, str],
    dialect: TextDialect,
    sizes: list[int],
) -> None:
    assume(quoted.isprintable() or written is not repr)  # Python escapes others in its own way
    before, after = around
    call = written({"name": "say", "arguments": {"text": quoted}})
    text = f"{before}<tool_call>{call}</tool_call>{after}"

    events = _chunked(text, sizes, dialect)

    [made] = [event.call for event in events if event.call is not None]
    assert (made.tool, made.arguments) == ("say", {"text": quoted})


@pytest.mark.parametrize("dialect", ["qwen", "invoke"])
@given(name=names, arguments=st.dictionaries(names, values, max_size=4))
def test_a_call_with_parameters_is_read_back(
    dialect: TextDialect, name: str, arguments: dict[str, Any]
) -> None:
    text = f"before {render_call(name, arguments, dialect)} after"
    for reader in (dialect, "auto"):
        [call] = TextCallParser(reader, [_tool(name, arguments)]).parse(text)
        assert (call.tool, call.arguments) == (name, arguments)


@pytest.mark.parametrize("dialect", ["qwen", "invoke"])
@given(keys=st.lists(st.sampled_from(PIECES) | texts | st.text(max_size=4), max_size=3))
def test_a_call_that_would_not_be_read_back_is_refused(
    dialect: TextDialect, keys: list[str]
) -> None:
    arguments = dict.fromkeys(keys, "a")
    try:
        text = render_call("f", arguments, dialect)
    except ValueError:
        return
    [call] = TextCallParser(dialect, [_tool("f", arguments)]).parse(text)
    assert call.arguments == arguments


# Few pieces, so that sections, elements and what closes them meet often.
SECTIONS = [
    "<q>", "</q>", "</q >", "<r>", "</r>", "<item>", "</item>", "<![CDATA[", "]]>", "]", "]]", ">",
    "a[b[0]]>1", "</params></tool_call>", "</parameter>", "</function></tool_call>",
    "<parameter=q>", '"', "'", "don't", "{", " ", "\n", "a", "<", "</q", "\n```\n", *WHOLE,
]  # fmt: skip
SECTION_HEADS = [
    "<tool_call><name>f</name><params><q><![CDATA[",
    "```\n<tool_call><name>f</name><params><q><![CDATA[",
    "<tool_call><function=f><parameter=q><![CDATA[",
    '<tool_call><name>f</name><params>{"q": "',
]
section_texts = st.tuples(
    st.sampled_from(SECTION_HEADS), st.lists(st.sampled_from(SECTIONS), max_size=12).map("".join)
).map("".join)


@given(section_texts, cuts, dialects)
def test_every_chunking_ends_a_section_at_the_same_place(
    text: str, sizes: list[int], dialect: TextDialect
) -> None:
    whole = _story(TextCallParser(dialect, BOX).events(text))

    assert _story(_chunked(text, sizes, dialect)) == whole
    assert _story(_chunked(text, [1], dialect)) == whole


inside_cdata = st.lists(st.sampled_from([*PIECES, *WHOLE, *SPACES]), max_size=8).map("".join)


@given(inside_cdata, st.sampled_from(AROUND), st.sampled_from(["xml", "auto"]))
def test_text_in_cdata_is_nothing_but_text(
    quoted: str, around: tuple[str, str], dialect: TextDialect
) -> None:
    """Only the closing tag of the element itself, or another section, after an end mark ends it."""
    before, after = around
    _, marked, rest = quoted.partition("]]>")
    assume(not marked or not ("</text" in rest or "<![CDATA[" in rest))
    call = f"<tool_call><name>say</name><params><text><![CDATA[{quoted}]]></text></params>"
    parser = TextCallParser(dialect, [_tool("say", {"text": quoted})])

    [made] = parser.parse(f"{before}{call}</tool_call>{after}")

    assert (made.tool, made.arguments) == ("say", {"text": quoted})


@given(st.text(), dialects)
def test_any_text_at_all_is_taken(text: str, dialect: TextDialect) -> None:
    events = TextCallParser(dialect).events(text)
    assert "".join(event.raw_text for event in events) == text
    assert all(json.dumps(event.call.arguments) for event in events if event.call is not None)
