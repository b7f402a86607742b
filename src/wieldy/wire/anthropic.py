"""Anthropic messages: calls out of content blocks and events, answers as one user message."""

from collections.abc import Iterable, Sequence
from typing import Any

from wieldy.core.block import Block, Resource
from wieldy.core.call import Call, Outcome

from .answers import as_image, blocks, failed, in_order, in_words
from .assembly import Assembly, Event, Finished, TextDelta
from .foreign import field, listed, number, text
from .incoming import Tools, make_call

Message = dict[str, Any]
_CALL = "tool_use"
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def parse_calls(message: Any, box: Tools) -> list[Call]:
    """The calls in a message or in its list of content blocks; server tools are not ours."""
    content = listed(field(message, "content")) or listed(message)
    return [
        make_call(box, text(field(block, "name")), field(block, "input"), text(field(block, "id")))
        for block in content
        if text(field(block, "type")) == _CALL
    ]


def render(outcomes: Iterable[Outcome], calls: Sequence[Call] = ()) -> list[Message]:
    """One user message with a `tool_result` block per call, in order.

    Pictures and PDF files are shown; sound is not taken here and is named in
    words. With `calls`, one that has no outcome is answered as interrupted.
    """
    results = [_result(outcome) for outcome in in_order(outcomes, calls)]
    return [{"role": "user", "content": results}] if results else []


class StreamReader:
    """Reads the events of one streamed message, raw or as the SDK's helper gives them."""

    def __init__(self, box: Tools) -> None:
        self._calls = Assembly(box)
        self._inputs: dict[int | None, Any] = {}
        self._last: int | None = None

    @property
    def calls(self) -> list[Call]:
        """The calls that are whole, in order."""
        return self._calls.calls

    def feed(self, event: Any) -> list[Event]:
        """What one event says. Events of other kinds, or of another shape, say nothing."""
        kind = text(field(event, "type"))
        index = number(field(event, "index"))
        if kind == "content_block_start":
            return self._start(index, field(event, "content_block"))
        if kind == "content_block_delta":
            return self._delta(index, field(event, "delta"))
        if kind == "content_block_stop":
            return self._stop(index)
        if kind == "message_delta":
            reason = text(field(field(event, "delta"), "stop_reason"))
            return [*self.close(), Finished(reason)] if reason else []
        return self.close() if kind == "message_stop" else []

    def close(self) -> list[Event]:
        """Complete what is still open, for a stream that was cut."""
        return [event for index in list(self._inputs) for event in self._stop(index)]

    def _start(self, index: int | None, block: Any) -> list[Event]:
        kind = text(field(block, "type"))
        if kind == "text":
            begun = text(field(block, "text"))
            return [TextDelta(begun)] if begun else []
        if kind != _CALL:
            return []
        # Without an index a block is the one that began last.
        events = self._stop(index) if index in self._inputs else []
        self._last = index
        self._inputs[index] = field(block, "input") or {}
        name, provider_id = text(field(block, "name")), text(field(block, "id"))
        return [*events, *self._calls.start(("block", index), name, provider_id)]

    def _delta(self, index: int | None, delta: Any) -> list[Event]:
        kind = text(field(delta, "type"))
        if kind == "text_delta":
            more = text(field(delta, "text"))
            return [TextDelta(more)] if more else []
        if kind != "input_json_delta":
            return []
        growing = self._calls.find(("block", self._last if index is None else index))
        more = text(field(delta, "partial_json"))
        return [] if growing is None else self._calls.grow(growing, more)

    def _stop(self, index: int | None) -> list[Event]:
        index = self._last if index is None else index
        growing = self._calls.find(("block", index))
        if growing is None or index not in self._inputs:
            return []
        return self._calls.complete(growing, self._inputs.pop(index))


def _result(outcome: Outcome) -> dict[str, Any]:
    content = [_part(block) for block in blocks(outcome)]
    plain = all(part["type"] == "text" for part in content)
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": outcome.call.provider_id or outcome.call.id,
        "content": "\n".join(part["text"] for part in content) if plain else content,
    }
    return {**result, "is_error": True} if failed(outcome) else result


def _part(block: Block) -> dict[str, Any]:
    image = as_image(block)
    if image is not None and image.mime_type in _IMAGES:
        return {"type": "image", "source": _source(image.data, image.mime_type)}
    if isinstance(block, Resource) and block.data and block.mime_type == "application/pdf":
        return {"type": "document", "source": _source(block.data, block.mime_type)}
    return {"type": "text", "text": in_words(block)}


def _source(data: str, mime_type: str) -> dict[str, str]:
    return {"type": "base64", "media_type": mime_type, "data": data}
