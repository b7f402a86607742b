"""Run a structured stream over a text in chunks, and tell its story."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from wieldy.wire.structured import Event, StructuredStream


def chunks(text: str, cuts: Iterable[int]) -> list[str]:
    """The text cut at these positions, wherever they fall."""
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    edges = [0, *places, len(text)]
    return [text[start:stop] for start, stop in pairwise(edges)]


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def read(parts: Iterable[str], schema: Any = None, **settings: Any) -> tuple[
    StructuredStream, list[Event]
]:  # fmt: skip
    """The closed stream and all its events."""
    stream = StructuredStream(schema, **settings)
    events = [event for part in parts for event in stream.feed(part)]
    return stream, events + stream.close()


def value_of(text: str, schema: Any = None) -> Any:
    return read([text], schema)[0].value


def completions(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """All that the completing events say, as text so that NaN equals itself."""
    return [
        (e.path, e.wildcard_path, e.indexes, repr(e.value), repr(e.full_data))
        for e in events
        if e.is_complete
    ]


def joined(events: Iterable[Event]) -> dict[str, str]:
    """Per path its deltas, joined."""
    texts: dict[str, list[str]] = {}
    for event in events:
        texts.setdefault(event.path, []).append(event.delta)
    return {path: "".join(parts) for path, parts in texts.items()}


def story(parts: Iterable[str], schema: Any = None) -> tuple[Any, ...]:
    """What must not depend on the chunks."""
    stream, events = read(parts, schema)
    error = stream.error and stream.error.reason
    return completions(events), joined(events), repr(stream.value), stream.complete, error
