"""OpenAI responses: read calls from output items and events, render input items."""

from collections.abc import Iterable, Sequence
from typing import Any

from wieldy.core.block import Block, Resource
from wieldy.core.call import Call, Outcome
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.names import provider_name

from .answer_content import answer_blocks, as_image, block_in_words, data_url, in_order
from .assistant_message import plain_copy, read_counts
from .call_assembly import Assembly, Growing
from .incoming_calls import Tools, find_name, make_call
from .loose_fields import as_list, as_number, as_text, get_field
from .stream_events import Event, Finished, TextDelta, ThinkingDelta, Usage
from .text_seam import TextSeam

__all__ = ["StreamReader", "parse_calls", "provider_name", "render", "tool_name"]

Item = dict[str, Any]
_CALL = "function_call"
_SHOWN: dict[str, type[TextDelta] | type[ThinkingDelta]] = {
    "response.output_text.delta": TextDelta,
    "response.reasoning_summary_text.delta": ThinkingDelta,
    "response.reasoning_text.delta": ThinkingDelta,
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def parse_calls(message: Any, box: Tools) -> list[Call]:
    """Read the calls from a response.

    Args:
        message: the SDK's response or a dict, its list of output items, or one item.
        box: the tools that the model was given, such as a `Toolbox`.

    Returns:
        The calls, in the order of the items.

    Example:
        `outcomes = await box.call_many(parse_calls(response, box))`
    """
    items = as_list(get_field(message, "output")) or as_list(message) or [message]
    return [
        make_call(
            box, as_text(get_field(item, "name")), get_field(item, "arguments"), _call_id(item)
        )
        for item in items
        if as_text(get_field(item, "type")) == _CALL
    ]


def render(
    outcomes: Iterable[Outcome], calls: Sequence[Call] = (), max_result: int = MAX_RESULT
) -> list[Item]:
    """Render outcomes as one `function_call_output` item per call.

    The output is text, or a list if there are pictures or files. The API takes no sound, so
    a sound is named in text.

    Args:
        outcomes: the outcomes to answer with.
        calls: the calls of the response, if each has to be answered. A call without an
            outcome is answered as interrupted.
        max_result: how many characters of one result are rendered; 0 for all. The rest is kept
            if the outcomes come from `box.results.for_model`.

    Returns:
        The items to append to the input.

    Example:
        `items += render(outcomes, reader.calls)`
    """
    return [
        {
            "type": "function_call_output",
            "call_id": outcome.call.provider_id or outcome.call.id,
            "output": _call_output(answer_blocks(outcome)),
        }
        for outcome in in_order(outcomes, calls, max_result)
    ]


class StreamReader:
    """Reads the events of one streamed response.

    After the last event, `message` has the items to add to the input, `calls` are the calls
    to run, and `usage` holds the token counts.

    Args:
        box: the tools that the model was given, such as a `Toolbox`.

    Example:
        `for event in stream: shown += reader.feed(event)`
    """

    def __init__(self, box: Tools) -> None:
        self._calls = Assembly(box)
        self._ended: set[int] = set()
        self._items: list[Item] = []
        self._seams = {kind: TextSeam() for kind in _SHOWN}
        self.usage: Usage | None = None

    @property
    def calls(self) -> list[Call]:
        """The complete calls, in order."""
        return self._calls.calls

    @property
    def message(self) -> list[Item]:
        """The output items as they were sent, including reasoning. Extend the input with them."""
        sent = {_call_id(item) for item in self._items}
        # A stream that was cut off may have sent a call's events but not its item.
        cut = [each for each in self._calls.made if each.provider_id not in sent]
        return [*map(dict, self._items), *map(_call_item, cut)]

    def feed(self, event: Any) -> list[Event]:
        """Read one event.

        Args:
            event: the SDK's object or a dict.

        Returns:
            What is new. It is empty for events of unknown kinds or shapes.
        """
        kind = as_text(get_field(event, "type"))
        if kind in _SHOWN:
            delta = self._seams[kind].join(as_text(get_field(event, "delta")))
            return [_SHOWN[kind](delta)] if delta else []
        if kind == "response.output_item.added":
            return self._add_item(event)
        if kind == "response.output_item.done":
            return self._finish_item(event)
        if kind == "response.function_call_arguments.delta":
            growing = self._find_growing(event)
            return (
                []
                if growing is None
                else self._calls.grow(growing, as_text(get_field(event, "delta")))
            )
        if kind == "response.function_call_arguments.done":
            return self._complete_call(event, event)
        return self._end_response(event, kind) if kind in _ENDS else []

    def close(self) -> list[Event]:
        """Complete the open calls of a stream that was cut off; returns their events."""
        return self._calls.finish()

    def _end_response(self, event: Any, kind: str) -> list[Event]:
        response = get_field(event, "response")
        whole = [plain_copy(item) for item in as_list(get_field(response, "output"))]
        # The last event repeats all items. Some compatible servers send them only there.
        self._items = [item for item in whole if isinstance(item, dict)] or self._items
        usage = get_field(response, "usage")
        if usage is not None:
            counts = read_counts(
                usage,
                input_tokens=("input_tokens",),
                output_tokens=("output_tokens",),
                cached_tokens=("input_tokens_details.cached_tokens",),
                thinking_tokens=("output_tokens_details.reasoning_tokens",),
            )
            self.usage = Usage(**counts, raw=plain_copy(usage))
        counted: list[Event] = [] if usage is None or self.usage is None else [self.usage]
        return [*self._calls.finish(), *counted, Finished(_finish_reason(event, kind))]

    def _add_item(self, event: Any) -> list[Event]:
        item = get_field(event, "item")
        if as_text(get_field(item, "type")) != _CALL:
            return []
        return self._calls.start(_item_key(event), as_text(get_field(item, "name")), _call_id(item))

    def _finish_item(self, event: Any) -> list[Event]:
        item = get_field(event, "item")
        sent = plain_copy(item)
        if isinstance(sent, dict) and sent:
            self._items.append(sent)
        if as_text(get_field(item, "type")) != _CALL:
            return []
        growing = self._find_growing(event)
        # A repeated or missing index or item id may belong to a new call.
        another = growing is None or growing.index in self._ended
        if growing is not None and growing.provider_id and _call_id(item):
            another = growing.provider_id != _call_id(item)
        events = self._add_item(event) if another else []
        events += self._complete_call(event, item)
        ended = self._find_growing(event)
        if ended is not None:
            self._ended.add(ended.index)
        return events

    def _complete_call(self, event: Any, source: Any) -> list[Event]:
        growing = self._find_growing(event)
        if growing is None:
            return []
        events = self._calls.name(growing, as_text(get_field(source, "name")), _call_id(source))
        if source is event and not growing.provider_id:
            return [*events, *self._missing_arguments(growing, source)]
        return [*events, *self._calls.complete(growing, get_field(source, "arguments"))]

    def _missing_arguments(self, growing: Growing, source: Any) -> list[Event]:
        """The events of arguments that came in one piece; the next item brings the call's id."""
        whole = as_text(get_field(source, "arguments"))
        return [] if growing.pieces else self._calls.grow(growing, whole)

    def _find_growing(self, event: Any) -> Growing | None:
        key = _item_key(event)
        found = self._calls.find(key)
        return found if found is not None or key is not None else self._calls.find(None)


def _call_item(growing: Growing) -> Item:
    """An item for a call of which only events were received."""
    return {
        "type": _CALL,
        "call_id": growing.provider_id,
        "name": growing.name,
        "arguments": "".join(growing.pieces) or "{}",
    }


def tool_name(name: str, box: Tools) -> str:
    """The tool's own name for a name that the model sent; the same name if there is no tool."""
    return find_name(box, name)


def _item_key(event: Any) -> int | str | None:
    index = as_number(get_field(event, "output_index"))
    return index if index is not None else as_text(get_field(event, "item_id")) or None


def _call_id(item: Any) -> str:
    return as_text(get_field(item, "call_id"))


def _finish_reason(event: Any, kind: str) -> str:
    response = get_field(event, "response")
    why = as_text(get_field(get_field(response, "incomplete_details"), "reason"))
    return why or as_text(get_field(response, "status")) or kind.removeprefix("response.")


def _call_output(shown: list[Block]) -> str | list[Item]:
    parts = [_output_part(block) for block in shown]
    if all(part["type"] == "input_text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _output_part(block: Block) -> Item:
    image = as_image(block)
    if image is not None:
        return {"type": "input_image", "image_url": data_url(image)}
    if isinstance(block, Resource) and block.data and block.mime_type == "application/pdf":
        url = f"data:{block.mime_type};base64,{block.data}"
        return {"type": "input_file", "filename": block.name or "file.pdf", "file_data": url}
    return {"type": "input_text", "text": block_in_words(block)}
