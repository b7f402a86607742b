"""The `_meta` that clients and servers send each other through us; what is ours stays ours."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from wieldy.core.bounded_json import dump_json
from wieldy.core.outside.suspicious_text import MAX_LENGTH, Finding, find_suspicious

# Keys that mean something to us, or to the protocol between two neighbours.
_OURS = ("wieldy/", "fastmcp", "io.modelcontextprotocol/", "progressToken")
# The extension for user interfaces is for the client.
_PASSED = ("io.modelcontextprotocol/ui",)
_MAX_SIZE = 65_536
_MAX_FINDINGS = 20


def foreign_meta(meta: Any) -> dict[str, Any]:
    """The part of a `_meta` that may be passed on; nothing if it is too large or no object."""
    if not isinstance(meta, Mapping):
        return {}
    passed = {key: value for key, value in meta.items() if isinstance(key, str) and _may_pass(key)}
    try:
        return passed if not passed or len(dump_json(passed)) <= _MAX_SIZE else {}
    except (TypeError, ValueError):
        return {}


def mark_untrusted(facts: dict[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Say of a result that it comes from outside, and what is suspicious in it."""
    found: dict[str, Finding] = {}
    left = MAX_LENGTH
    for place, text in islice(_walk_texts("", facts), 1000):
        for finding in find_suspicious(place, text[: max(left, 1000)], "result"):
            found.setdefault(finding.kind, finding)
        left -= len(text)
    findings = [asdict(each) for each in islice(found.values(), _MAX_FINDINGS)]
    ours = {"wieldy/untrusted": True, **({"wieldy/suspicious": findings} if findings else {})}
    return {**facts, "_meta": {**meta, **ours}}


def _may_pass(key: str) -> bool:
    return key.startswith(_PASSED) or not key.startswith(_OURS)


def _walk_texts(place: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            # Bytes are not read by a model as text.
            if key not in ("blob", "data"):
                yield from _walk_texts(f"{place}.{key}".lstrip("."), each)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _walk_texts(f"{place}[{number}]", each)
