"""What it costs to read structured output while it streams."""

import importlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from wieldy.wire.structured import StructuredStream

from .clock import interleaved
from .effort import Effort
from .row import Row, ratio

_CHUNK = 5
_WORDS = ("alpha", "beta", "gamma", "delta", "lorem", "ipsum", "dolor", "sit")


def structured(effort: Effort) -> list[Row]:
    """Read a document in small chunks, with the path of every event; then four times as much.

    Where ijson is not installed, the first row has json.loads of the whole text beside it
    and no target.
    """
    size = effort.count(200_000)
    chunks, longer = cut(document(size)), cut(document(4 * size))
    against, target, reference = _reference(chunks)
    base, ours, more = interleaved(
        effort.rounds(9), reference, lambda: read(chunks), lambda: read(longer)
    )
    return [
        ratio(
            f"structured output of {size:,} characters, {_CHUNK} at a time",
            ours * 1e3, base * 1e3, "ms", against, target,
        ),
        ratio("four times that output", more * 1e3, ours * 1e3, "ms", "once", 8.0),
    ]  # fmt: skip


def document(size: int) -> str:
    """A document of about so many characters: records with text, numbers, flags and lists."""
    items: list[dict[str, Any]] = []
    written = 0
    while written < size:
        number = len(items)
        text = " ".join(_WORDS[(number + place * place) % len(_WORDS)] for place in range(20))
        items.append(
            {
                "id": number,
                "title": text[:30],
                "tags": ["a", "bb"],
                "score": number * 0.5,
                "ok": True,
                "body": text,
            }
        )
        written += len(json.dumps(items[-1])) + 2
    return json.dumps({"items": items})


def cut(text: str) -> list[str]:
    """The text in small chunks."""
    return [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]


def read(chunks: Sequence[str]) -> int:
    """Read the chunks and look at every path; give the number of events."""
    stream = StructuredStream()
    paths = [event.path for chunk in chunks for event in stream.feed(chunk)]
    stream.close()
    return len(paths)


def _reference(chunks: Sequence[str]) -> tuple[str, float | None, Callable[[], Any]]:
    """What stands beside us, and the target."""
    try:
        # A peer, installed only to measure.
        ijson = importlib.import_module("ijson")
        backend = importlib.import_module("ijson.backends.yajl2_c")
    except ImportError:
        text = "".join(chunks)
        return "json.loads of the whole text", None, lambda: json.loads(text)
    encoded = [chunk.encode() for chunk in chunks]

    def parse() -> None:
        events = ijson.sendable_list()
        parser = backend.parse_coro(events)
        for chunk in encoded:
            parser.send(chunk)
            del events[:]
        parser.close()

    return "ijson (C)", 12.0, parse
