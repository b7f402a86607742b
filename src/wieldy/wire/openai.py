"""OpenAI chat completions: read calls from messages and chunks, render tool messages."""

from collections.abc import Iterable, Sequence
from typing import Any

from wieldy.core.block import Audio, Block
from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.call import Call, Outcome
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.names import provider_name

from .answer_content import answer_blocks, as_image, block_in_words, data_url, in_order
from .assistant_message import Pieces, plain_copy, read_counts
from .call_assembly import Assembly, Growing
from .incoming_calls import Tools, find_name, make_call
from .loose_fields import as_list, as_number, as_text, get_field
from .stream_events import Event, Finished, TextDelta, ThinkingDelta, Usage
from .text_seam import TextSeam

__all__ = ["StreamReader", "parse_calls", "provider_name", "render", "tool_name"]

Message = dict[str, Any]
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def parse_calls(message: Any, box: Tools) -> list[Call]:
    """Read the calls from a completion. Only its first choice is read.

    Args:
        message: the SDK's completion or a dict, one of its choices, or an assistant message.
        box: the tools that the model was given, such as a `Toolbox`.

    Returns:
        The calls, in the order of the message.

    Example:
        `outcomes = await box.call_many(parse_calls(completion, box))`
    """
    first = next(iter(as_list(get_field(message, "choices"))), None)
    message = get_field(message if first is None else first, "message") or message
    found = []
    for item in as_list(get_field(message, "tool_calls")):
        name, arguments = _function_fields(item)
        if name or arguments:
            found.append(make_call(box, name, arguments, as_text(get_field(item, "id"))))
    return found


def render(
    outcomes: Iterable[Outcome], calls: Sequence[Call] = (), max_result: int = MAX_RESULT
) -> list[Message]:
    """Render outcomes as one `tool` message per call, and a `user` message for media.

    Tool messages can hold only text, and they must follow the calls without a gap. Pictures
    and sound therefore come in a user message after all of them, labelled with their calls.

    Args:
        outcomes: the outcomes to answer with.
        calls: the calls of the message, if each has to be answered. A call without an
            outcome is answered as interrupted.
        max_result: how many characters of one result are rendered; 0 for all. The rest is kept
            if the outcomes come from `box.results.for_model`.

    Returns:
        The messages to append.

    Example:
        `messages += render(outcomes, reader.calls)`
    """
    messages: list[Message] = []
    media: list[dict[str, Any]] = []
    for outcome in in_order(outcomes, calls, max_result):
        call_id = outcome.call.provider_id or outcome.call.id
        words = []
        for block in answer_blocks(outcome):
            part = _media_part(block)
            if part is None:
                words.append(block_in_words(block))
            else:
                words.append(f"[{block.type} in the next user message]")
                label = f"From {outcome.call.tool} ({call_id}):"
                media += [{"type": "text", "text": label}, part]
        content = "\n".join(words)
        messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
    return [*messages, {"role": "user", "content": media}] if media else messages


class StreamReader:
    """Reads the chunks of one streamed completion. Only the first choice is read.

    After the last chunk, `message` is the message to append to the conversation, `calls` are
    the calls to run, and `usage` holds the token counts.

    Args:
        box: the tools that the model was given, such as a `Toolbox`.

    Example:
        `for chunk in stream: shown += reader.feed(chunk)`
    """

    def __init__(self, box: Tools) -> None:
        self._calls = Assembly(box)
        self._message = Pieces()
        self._items: dict[int, tuple[Growing, Pieces]] = {}
        self._content, self._thought = TextSeam(), TextSeam()
        self.usage: Usage | None = None

    @property
    def calls(self) -> list[Call]:
        """The complete calls, in order. All are complete after the last chunk or `close`."""
        return self._calls.calls

    @property
    def message(self) -> Message:
        """The assistant's message as it was sent, including unknown fields."""
        whole = {"role": "assistant", "content": None, **self._message.value()}
        if self._items:
            whole["tool_calls"] = [_whole_item(*each) for each in self._items.values()]
        elif whole["content"] is None:
            whole["content"] = ""
        return whole

    def feed(self, chunk: Any) -> list[Event]:
        """Read one chunk.

        Args:
            chunk: the SDK's object or a dict.

        Returns:
            What is new. It is empty for a chunk of an unknown shape.
        """
        events: list[Event] = []
        for choice in as_list(get_field(chunk, "choices")):
            if as_number(get_field(choice, "index")) in (None, 0):
                events += self._read_choice(choice)
        return [*events, *self._count_tokens(get_field(chunk, "usage"))]

    def close(self) -> list[Event]:
        """Complete the open calls of a stream that ends without a finish reason."""
        return self._calls.finish()

    def _read_choice(self, choice: Any) -> list[Event]:
        delta = get_field(choice, "delta")
        events = self._read_words(delta)
        for item in as_list(get_field(delta, "tool_calls")):
            events += self._read_piece(item)
        reason = as_text(get_field(choice, "finish_reason"))
        return [*events, *self._calls.finish(), Finished(reason)] if reason else events

    def _read_words(self, delta: Any) -> list[Event]:
        sent = plain_copy(delta)
        if not isinstance(sent, dict):
            return []
        sent.pop("tool_calls", None)
        self._message.add(sent)
        # Servers that send the thinking use one of these names, or both.
        thought = self._thought.join(as_text(get_field(delta, "reasoning_content", "reasoning")))
        content = self._content.join(as_text(get_field(delta, "content")))
        events: list[Event] = [ThinkingDelta(thought)] if thought else []
        return [*events, TextDelta(content)] if content else events

    def _count_tokens(self, usage: Any) -> list[Event]:
        if usage is None:
            return []
        counts = read_counts(
            usage,
            input_tokens=("prompt_tokens",),
            output_tokens=("completion_tokens",),
            cached_tokens=("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
            thinking_tokens=("completion_tokens_details.reasoning_tokens",),
        )
        self.usage = Usage(**counts, raw=plain_copy(usage))
        return [self.usage]

    def _read_piece(self, item: Any) -> list[Event]:
        name, arguments = _function_fields(item)
        provider_id = as_text(get_field(item, "id"))
        key = as_number(get_field(item, "index"))
        growing = self._calls.find(key)
        events: list[Event] = []
        if growing is None or _is_another(growing, name, provider_id, key, bool(arguments)):
            events += self._calls.start(key, name, provider_id)
            growing = self._calls.find(key)
        else:
            events += self._calls.name(growing, name, provider_id)
        assert growing is not None
        _, kept = self._items.setdefault(growing.index, (growing, Pieces()))
        kept.add(plain_copy(item))
        if isinstance(arguments, str):
            return [*events, *self._calls.grow(growing, arguments)]
        return [*events, *self._calls.complete(growing, arguments)] if arguments else events


def tool_name(name: str, box: Tools) -> str:
    """The tool's own name for a name that the model sent; the same name if there is no tool."""
    return find_name(box, name)


def _whole_item(growing: Growing, kept: Pieces) -> dict[str, Any]:
    """A call as it is sent back, with its arguments as the text that was received."""
    item = kept.value()
    item.pop("index", None)
    body = item.get("function")
    if isinstance(body, dict):
        sent = "".join(growing.pieces) if growing.pieces else body.get("arguments") or "{}"
        body["arguments"] = sent if isinstance(sent, str) else dump_json(sent, MAX_WRAPPED)
    return {"type": "function", **item}


def _is_another(
    growing: Growing, name: str, provider_id: str, key: int | None, brings_arguments: bool
) -> bool:
    """Whether a piece starts a new call although its index is missing or was used before.

    Some servers repeat the name or the id in every piece of a call, and some use one index
    or one id for all calls. A name after complete arguments starts a new call.
    """
    if not (name and growing.name):
        return bool(name and provider_id and growing.provider_id not in ("", provider_id))
    if provider_id and growing.provider_id:
        if provider_id != growing.provider_id:
            return True
        return brings_arguments and (name != growing.name or growing.is_whole)
    if key is None:
        return True
    return growing.is_whole or (name != growing.name and bool(growing.pieces))


def _function_fields(item: Any) -> tuple[str, Any]:
    function = get_field(item, "function", "custom")
    return as_text(get_field(function, "name")), get_field(function, "arguments", "input")


def _media_part(block: Block) -> dict[str, Any] | None:
    image = as_image(block)
    if image is not None:
        return {"type": "image_url", "image_url": {"url": data_url(image)}}
    if isinstance(block, Audio) and block.mime_type in _AUDIO:
        sound = {"data": block.data, "format": _AUDIO[block.mime_type]}
        return {"type": "input_audio", "input_audio": sound}
    return None
