"""Scan what a tool from outside gave: its content, its value, its error and what it noted."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from wieldy.core.block import Block, Resource, Text, to_text
from wieldy.core.call import Outcome

from .suspicious_text import MAX_LENGTH, Finding, find_suspicious

_MAX_FINDINGS = 20
_MAX_PIECES = 50
_LEAST = 10_000
# Metadata in which a tool or its server adds text to the result. A model may be shown it.
_NOTED = ("mcp", "meta", "input")


def scan_outcome(outcome: Outcome, heard: str = "") -> list[dict[str, str]]:
    """What a person should review in a result, each kind at one place, as plain data.

    `heard` is what the call said while it ran.
    """
    found: dict[str, Finding] = {}
    left = MAX_LENGTH
    for place, text in _result_texts(outcome, heard):
        if not text:
            continue
        # Every text gets some of the search, and none can use up that of those after it.
        for finding in find_suspicious(place, _shorten_text(text, max(left, _LEAST)), "result"):
            found.setdefault(finding.kind, finding)
        left -= len(text)
    return [asdict(finding) for finding in islice(found.values(), _MAX_FINDINGS)]


def _result_texts(outcome: Outcome, heard: str) -> Iterator[tuple[str, str]]:
    content = outcome.peek_content()
    pieces = [(f"content[{n}]", each) for n, each in enumerate(map(_text_of, content))]
    yield from islice(pieces, _MAX_PIECES)
    texts = [text for _, text in pieces if text]
    if len(texts) > 1:
        # A phrase may be split over blocks, inside a word or between words.
        yield "content", "".join(texts)
        yield "content", " ".join(texts)
    if outcome.error is not None:
        yield "error", str(outcome.error)
    elif not _is_content(outcome.value):
        # The data beside the content may hold other text.
        yield "value", to_text(outcome.value)
    noted = outcome.metadata
    for name in _NOTED:
        if name in noted:
            yield f"metadata.{name}", to_text(noted[name])
    yield "progress", heard


def _is_content(value: Any) -> bool:
    """Whether a value is nothing but the content."""
    if isinstance(value, list | tuple):
        return all(isinstance(each, Block) for each in value)
    return value is None or isinstance(value, str | Block)


def _text_of(block: Block) -> str:
    """Every text of a block: a picture has none, a resource has a name and an address too."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Resource):
        return "\n".join(filter(None, (block.uri, block.name, block.text)))
    return "\n".join(_inner_strings(block.to_dict()))


def _inner_strings(shape: Mapping[str, Any]) -> Iterator[str]:
    for name, value in shape.items():
        if isinstance(value, str) and name != "data":
            yield value


def _shorten_text(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 5
    return f"{text[: most - tail]}\n{text[-tail:]}"
