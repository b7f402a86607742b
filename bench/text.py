"""What it costs to find calls in a model's text."""

import xml.etree.ElementTree as ET
from time import perf_counter

from wieldy.wire.text import TextCallParser

from .clock import interleaved
from .effort import Effort
from .row import Row, ratio

_LINE = "if a < b && c > d: x[0] = 'value' </tag> # a line of what a model writes\n"
_HOSTILE = "<tool_call><name>x</name><params><a>"


def text(effort: Effort) -> list[Row]:
    """Read calls with CDATA, then text that opens calls and never closes them."""
    message = make_message(effort.count(200))
    parser = TextCallParser("xml")
    base, ours = interleaved(
        effort.rounds(25),
        lambda: by_element_tree(message),
        lambda: parser.parse(message),
    )
    small = _HOSTILE * effort.count(10_000)
    started = perf_counter()
    parser.parse(small)
    once = perf_counter() - started
    started = perf_counter()
    parser.parse(small * 4)
    four_times = perf_counter() - started
    size = len(message) / 1e6
    return [
        ratio(
            f"XML calls with CDATA in {size:.1f} MB", ours * 1e3, base * 1e3, "ms",
            "ElementTree", 0.5,
        ),
        ratio(
            "four times the unclosed calls", four_times * 1e3, once * 1e3, "ms",
            "a quarter of them", 6.0,
        ),
    ]  # fmt: skip


def make_message(calls: int) -> str:
    """Prose and calls in turn, about five kilobytes each."""
    content = (_LINE * 70)[:5000]
    call = (
        "Some words before the call.\n<tool_call>\n  <name>write</name>\n  <params>\n"
        "    <path><![CDATA[notes/today.md]]></path>\n"
        f"    <content><![CDATA[{content}]]></content>\n  </params>\n</tool_call>\n"
    )
    return call * calls


def by_element_tree(message: str) -> list[tuple[str | None, dict[str, str | None]]]:
    """The same calls read by the standard library, without streaming or typing."""
    root = ET.fromstring(f"<root>{message}</root>")
    return [
        (call.findtext("name"), {each.tag: each.text for each in call.findall("params/*")})
        for call in root.iter("tool_call")
    ]
