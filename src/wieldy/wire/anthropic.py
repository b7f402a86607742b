"""Anthropic messages: read calls from content blocks and events, render one user message."""

from collections.abc import Iterable, Sequence
from typing import Any

from wieldy.core.block import Block, Resource
from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Call, Outcome
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.names import provider_name

from .answer_content import (
    answer_blocks,
    as_image,
    block_in_words,
    in_order,
    is_failure,
    make_encodable,
)
from .assistant_message import Pieces, add_counts, plain_copy, read_counts
from .call_assembly import Assembly
from .incoming_calls import Tools, find_name, make_call
from .loose_fields import as_list, as_number, as_text, get_field
from .stream_events import Event, Finished, TextDelta, ThinkingDelta, Usage
from .text_seam import TextSeam

__all__ = ["StreamReader", "parse_calls", "provider_name", "render", "tool_name"]

Message = dict[str, Any]
_CALL = "tool_use"
# The kinds of content whose text is passed on while it streams.
_SHOWN: dict[str, type[TextDelta] | type[ThinkingDelta]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
}


def parse_calls(message: Any, box: Tools) -> list[Call]:
    """Read the calls from a message. Calls of Anthropic's server tools are skipped.

    Args:
        message: the SDK's message or a dict, or its list of content blocks.
        box: the tools that the model was given, such as a `Toolbox`.

    Returns:
        The calls, in the order of the message.

    Example:
        `outcomes = await box.call_many(parse_calls(message, box))`
    """
    content = as_list(get_field(message, "content")) or as_list(message)
    return [
        make_call(
            box,
            as_text(get_field(block, "name")),
            get_field(block, "input"),
            as_text(get_field(block, "id")),
        )
        for block in content
        if as_text(get_field(block, "type")) == _CALL
    ]


def render(
    outcomes: Iterable[Outcome], calls: Sequence[Call] = (), max_result: int = MAX_RESULT
) -> list[Message]:
    """Render outcomes as one user message with a `tool_result` block per call.

    Pictures and PDF files are included. The API takes no sound, so a sound is named in text.

    Args:
        outcomes: the outcomes to answer with.
        calls: the calls of the message, if each has to be answered. A call without an
            outcome is answered as interrupted.
        max_result: how many characters of one result are rendered; 0 for all. The rest is kept
            if the outcomes come from `box.results.for_model`.

    Returns:
        The messages to append: one, or none if there is nothing to answer.

    Example:
        `messages += render(outcomes, reader.calls)`
    """
    results = [_tool_result(outcome) for outcome in in_order(outcomes, calls, max_result)]
    return [{"role": "user", "content": results}] if results else []


class StreamReader:
    """Reads the events of one streamed message, raw or from the SDK's helper.

    After the last event, `message` is the message to append to the conversation, `calls` are
    the calls to run, and `usage` holds the token counts.

    Args:
        box: the tools that the model was given, such as a `Toolbox`.

    Example:
        `for event in stream: shown += reader.feed(event)`
    """

    def __init__(self, box: Tools) -> None:
        self._calls = Assembly(box)
        self._inputs: dict[int | None, Any] = {}
        self._last: int | None = None
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._used: dict[str, Any] = {}
        self._seams = {kind: TextSeam() for kind in _SHOWN}
        self.usage: Usage | None = None

    @property
    def calls(self) -> list[Call]:
        """The complete calls, in order."""
        return self._calls.calls

    @property
    def message(self) -> Message:
        """The assistant's message as it was sent, including thinking and its signatures."""
        return {"role": "assistant", "content": [block.value() for block in self._blocks]}

    def feed(self, event: Any) -> list[Event]:
        """Read one event.

        Args:
            event: the SDK's object or a dict.

        Returns:
            What is new. It is empty for events of unknown kinds or shapes.
        """
        kind = as_text(get_field(event, "type"))
        index = as_number(get_field(event, "index"))
        if kind == "message_start":
            return self._count_tokens(get_field(get_field(event, "message"), "usage"))
        if kind == "content_block_start":
            return self._start_block(index, get_field(event, "content_block"))
        if kind == "content_block_delta":
            return self._add_delta(index, get_field(event, "delta"))
        if kind == "content_block_stop":
            return self._stop_block(index)
        if kind == "message_delta":
            counted = self._count_tokens(get_field(event, "usage"))
            reason = as_text(get_field(get_field(event, "delta"), "stop_reason"))
            return [*self.close(), *counted, Finished(reason)] if reason else counted
        return self.close() if kind == "message_stop" else []

    def close(self) -> list[Event]:
        """Complete the open calls of a stream that was cut off; returns their events."""
        return [event for index in list(self._inputs) for event in self._stop_block(index)]

    def _start_block(self, index: int | None, block: Any) -> list[Event]:
        kind = as_text(get_field(block, "type"))
        if not kind:
            return []
        begun = _Block(plain_copy(block))
        self._blocks.append(begun)
        if index is not None:
            self._by_index[index] = begun
        if kind in _SHOWN:
            words = as_text(get_field(block, kind))
            return [_SHOWN[kind](words)] if words else []
        if kind != _CALL:
            return []
        # A delta without an index belongs to the block that was started last.
        events = self._stop_block(index) if index in self._inputs else []
        self._last = index
        self._inputs[index] = get_field(block, "input") or {}
        name, provider_id = as_text(get_field(block, "name")), as_text(get_field(block, "id"))
        return [*events, *self._calls.start(("block", index), name, provider_id)]

    def _add_delta(self, index: int | None, delta: Any) -> list[Event]:
        last = self._blocks[-1] if self._blocks else None
        block = last if index is None else self._by_index.get(index)
        kind = as_text(get_field(delta, "type"))
        if block is None or not kind:
            return []
        block.add(kind, delta)
        if kind in ("text_delta", "thinking_delta"):
            name = kind.removesuffix("_delta")
            more = self._seams[name].join(as_text(get_field(delta, name)))
            return [_SHOWN[name](more)] if more else []
        if kind != "input_json_delta":
            return []
        growing = self._calls.find(("block", self._last if index is None else index))
        more = as_text(get_field(delta, "partial_json"))
        return [] if growing is None else self._calls.grow(growing, more)

    def _stop_block(self, index: int | None) -> list[Event]:
        index = self._last if index is None else index
        growing = self._calls.find(("block", index))
        if growing is None or index not in self._inputs:
            return []
        return self._calls.complete(growing, self._inputs.pop(index))

    def _count_tokens(self, usage: Any) -> list[Event]:
        """The token counts so far: the first event has the input, the last one the output."""
        sent = plain_copy(usage)
        if not isinstance(sent, dict):
            return []
        self._used.update({name: value for name, value in sent.items() if value is not None})
        counts = read_counts(
            self._used,
            fresh=("input_tokens",),
            written=("cache_creation_input_tokens",),
            cached_tokens=("cache_read_input_tokens",),
            output_tokens=("output_tokens",),
            thinking_tokens=("output_tokens_details.thinking_tokens",),
        )
        fresh, written = counts.pop("fresh"), counts.pop("written")
        came_in = add_counts(fresh, written, counts["cached_tokens"])
        self.usage = Usage(came_in, **counts, raw=dict(self._used))
        return [self.usage]


class _Block:
    """One content block that grows."""

    def __init__(self, begun: Any) -> None:
        self._begun: dict[str, Any] = begun if isinstance(begun, dict) else {}
        self._grown = Pieces()
        self._input: list[str] = []
        self._citations: list[Any] = []

    def add(self, kind: str, delta: Any) -> None:
        """Add a delta of this kind."""
        if kind == "input_json_delta":
            self._input.append(as_text(get_field(delta, "partial_json")))
        elif kind == "citations_delta":
            self._citations.append(plain_copy(get_field(delta, "citation")))
        else:
            sent = plain_copy(delta)
            sent.pop("type", None)
            self._grown.add(sent)

    def value(self) -> dict[str, Any]:
        """The block as it is sent back."""
        whole = dict(self._begun)
        for name, more in self._grown.value().items():
            before = whole.get(name)
            grows = isinstance(before, str) and isinstance(more, str)
            whole[name] = before + more if grows else more
        if self._citations:
            whole["citations"] = [*(whole.get("citations") or ()), *self._citations]
        if any(self._input):
            whole["input"] = _read_input(make_encodable("".join(self._input)))
        return whole


def tool_name(name: str, box: Tools) -> str:
    """The tool's own name for a name that the model sent; the same name if there is no tool."""
    return find_name(box, name)


def _read_input(sent: str) -> Any:
    """The arguments as the object that the API expects; a cut-off object becomes an empty one."""
    try:
        value = parse_json(sent)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _tool_result(outcome: Outcome) -> dict[str, Any]:
    content = [_content_part(block) for block in answer_blocks(outcome)]
    plain = all(part["type"] == "text" for part in content)
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": outcome.call.provider_id or outcome.call.id,
        "content": "\n".join(part["text"] for part in content) if plain else content,
    }
    return {**result, "is_error": True} if is_failure(outcome) else result


def _content_part(block: Block) -> dict[str, Any]:
    image = as_image(block)
    if image is not None:
        return {"type": "image", "source": _base64_source(image.data, image.mime_type)}
    if isinstance(block, Resource) and block.data and block.mime_type == "application/pdf":
        return {"type": "document", "source": _base64_source(block.data, block.mime_type)}
    return {"type": "text", "text": block_in_words(block)}


def _base64_source(data: str, mime_type: str) -> dict[str, str]:
    return {"type": "base64", "media_type": mime_type, "data": data}
