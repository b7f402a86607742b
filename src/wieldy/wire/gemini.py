"""Gemini: read calls from the parts of a candidate, render one content of function responses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wieldy.core.block import Audio, Block, Image, Resource
from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Call, Outcome
from wieldy.core.errors import ToolNotFound
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.secrets.covered_content import shown_value
from wieldy.core.tool import Tool

from .answer_content import answer_blocks, block_in_words, in_order, is_failure, make_encodable
from .assistant_message import add_counts, plain_copy, read_counts
from .call_assembly import Assembly, Growing
from .incoming_calls import Tools, find_name, make_call
from .loose_fields import as_list, as_text, get_field
from .schema.target import gemini_name
from .stream_events import Event, Finished, TextDelta, ThinkingDelta, Usage
from .text_seam import TextSeam

__all__ = ["StreamReader", "parse_calls", "provider_name", "render", "tool_name"]
Content = dict[str, Any]
_CHANGED_NAME = re.compile(r"_[0-9-].*_[0-9a-f]{8}\Z")
_HASH_LENGTH = 8
_IMAGES = tuple(f"image/{kind}" for kind in ("png", "jpeg", "webp", "heic", "heif", "gif"))
# The fields of a call that is streamed in pieces. The call is sent back without them.
_IN_PIECES = {"partial_args", "partialArgs", "will_continue", "willContinue"}
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]|\[['\"]([^'\"]*)['\"]\]")
_MAX_ITEMS = 10_000


class _PartialArguments:
    """An object that grows by paths such as `$.order.lines[0].name`."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {}
        self._values: dict[str, Any] = {}

    def add(self, piece: Any) -> str:
        """Add one piece; returns its text if it is part of a string."""
        path = as_text(get_field(piece, "json_path", "jsonPath"))
        words = get_field(piece, "string_value", "stringValue")
        if not path:
            return ""
        if isinstance(words, str):
            self._pieces.setdefault(path, []).append(words)
            self._values.setdefault(path, None)
            return words
        number = get_field(piece, "number_value", "numberValue")
        truth = get_field(piece, "bool_value", "boolValue")
        self._values[path] = number if truth is None else truth
        return ""

    def value(self) -> dict[str, Any]:
        """The object as far as it has arrived."""
        whole: dict[str, Any] = {}
        for path, plain in self._values.items():
            pieces = self._pieces.get(path)
            _put_value(whole, _path_steps(path), plain if pieces is None else "".join(pieces))
        return whole


def _path_steps(path: str) -> list[str | int]:
    found = (match.groups() for match in _STEP.finditer(path))
    return [int(index) if index else name or quoted or "" for name, index, quoted in found]


def _put_value(whole: dict[str, Any], steps: list[str | int], value: Any) -> None:
    here: Any = whole
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        last = following is None
        fresh: Any = value if last else ([] if isinstance(following, int) else {})
        if isinstance(here, list) and isinstance(step, int) and step < _MAX_ITEMS:
            here.extend([None] * (step + 1 - len(here)))
            if last or here[step] is None:
                here[step] = fresh
        elif isinstance(here, dict):
            here[str(step)] = fresh if last else here.get(str(step), fresh)
        else:
            return
        here = here[step if isinstance(here, list) else str(step)]


def parse_calls(message: Any, box: Tools) -> list[Call]:
    """Read the calls from a response. Only its first candidate is read.

    Args:
        message: the SDK's response or a dict, a content of it, or a list of parts.
        box: the tools that the model was given, such as a `Toolbox`.

    Returns:
        The calls, in the order of the parts.

    Example:
        `outcomes = await box.call_many(parse_calls(response, box))`
    """
    tools = _Named(box)
    found = []
    for part in _message_parts(message):
        call = get_field(part, "function_call", "functionCall")
        if call is not None:
            name, sent = as_text(get_field(call, "name")), get_field(call, "args")
            found.append(make_call(tools, name, sent, as_text(get_field(call, "id"))))
    return found


def render(
    outcomes: Iterable[Outcome], calls: Sequence[Call] = (), max_result: int = MAX_RESULT
) -> list[Content]:
    """Render outcomes as one user content with a `functionResponse` part per call.

    Gemini matches responses to calls by order and name, and by id if it sent one. Pictures,
    sound and files are sent as inline data in the response.

    Args:
        outcomes: the outcomes to answer with.
        calls: the calls of the response, if each has to be answered. A call without an
            outcome is answered as interrupted.
        max_result: how many characters of one result are rendered; 0 for all. The rest is kept
            if the outcomes come from `box.results.for_model`.

    Returns:
        The contents to append: one, or none if there is nothing to answer.

    Example:
        `contents += render(outcomes, reader.calls)`
    """
    parts = [
        {"functionResponse": _function_response(outcome)}
        for outcome in in_order(outcomes, calls, max_result)
    ]
    return [{"role": "user", "parts": parts}] if parts else []


class StreamReader:
    """Reads the chunks of one streamed response.

    After the last chunk, `message` is the content to append, `calls` are the calls to run,
    and `usage` holds the token counts. Arguments may arrive complete or in pieces by path.

    Args:
        box: the tools that the model was given, such as a `Toolbox`.

    Example:
        `for chunk in stream: shown += reader.feed(chunk)`
    """

    def __init__(self, box: Tools) -> None:
        self._calls = Assembly(_Named(box))
        self._partial: dict[int, _PartialArguments] = {}
        self._open: Growing | None = None
        self._count = 0
        self._parts: list[_Part] = []
        self._content, self._thought = TextSeam(), TextSeam()
        self.usage: Usage | None = None

    @property
    def calls(self) -> list[Call]:
        """The complete calls, in order."""
        return self._calls.calls

    @property
    def message(self) -> Content:
        """The model's content as it was sent, with its thought signatures."""
        return {"role": "model", "parts": [part.value() for part in self._parts]}

    def feed(self, chunk: Any) -> list[Event]:
        """Read one chunk.

        Args:
            chunk: the SDK's object or a dict.

        Returns:
            What is new. It is empty for a chunk of an unknown shape.
        """
        events: list[Event] = []
        for part in _message_parts(chunk):
            events += self._read_part(part)
        candidate = next(iter(as_list(get_field(chunk, "candidates"))), None)
        reason = as_text(get_field(candidate, "finish_reason", "finishReason"))
        counted = self._count_tokens(get_field(chunk, "usage_metadata", "usageMetadata"))
        if reason:
            return [*events, *self.close(), *counted, Finished(reason)]
        return [*events, *counted]

    def _read_part(self, part: Any) -> list[Event]:
        call = get_field(part, "function_call", "functionCall")
        words = as_text(get_field(part, "text"))
        if call is not None:
            return self._read_call(call, part)
        self._keep_part(part)
        thinks = get_field(part, "thought") is True
        words = (self._thought if thinks else self._content).join(words)
        if not words:
            return []
        return [ThinkingDelta(words) if thinks else TextDelta(words)]

    def _keep_part(self, part: Any) -> None:
        """Keep a part for the message; text that continues the last part is joined to it."""
        sent = plain_copy(part)
        if not isinstance(sent, dict) or not sent:
            return
        last = self._parts[-1] if self._parts else None
        if last is None or not last.takes(sent):
            self._parts.append(_Part(sent))

    def _count_tokens(self, usage: Any) -> list[Event]:
        if usage is None:
            return []
        counts = read_counts(
            usage,
            input_tokens=("prompt_token_count", "promptTokenCount"),
            shown=("candidates_token_count", "candidatesTokenCount"),
            cached_tokens=("cached_content_token_count", "cachedContentTokenCount"),
            thinking_tokens=("thoughts_token_count", "thoughtsTokenCount"),
        )
        given = add_counts(counts.pop("shown"), counts["thinking_tokens"])
        self.usage = Usage(output_tokens=given, **counts, raw=plain_copy(usage))
        return [self.usage]

    def close(self) -> list[Event]:
        """Complete the open call of a stream that was cut off; returns its events."""
        return [] if self._open is None else self._end_call(self._open)

    def _read_call(self, call: Any, part: Any) -> list[Event]:
        name = as_text(get_field(call, "name"))
        events: list[Event] = []
        if name or self._open is None:
            events += self.close()
            self._count += 1
            events += self._calls.start(self._count, name, as_text(get_field(call, "id")))
            self._open = self._calls.find(self._count)
            self._parts.append(_Part(plain_copy(part), self._open))
        growing = self._open
        assert growing is not None
        for piece in as_list(get_field(call, "partial_args", "partialArgs")):
            arguments = self._partial.setdefault(growing.index, _PartialArguments())
            events += self._calls.grow(growing, arguments.add(piece))
        if get_field(call, "will_continue", "willContinue") is True:
            return events
        return [*events, *self._end_call(growing, get_field(call, "args"))]

    def _end_call(self, growing: Growing, sent: Any = None) -> list[Event]:
        self._open = None
        partial = self._partial.pop(growing.index, None)
        if partial is not None:
            growing.pieces = []
            whole = sent if isinstance(sent, Mapping) else {}
            growing.sent = {**partial.value(), **whole}
            return self._calls.complete(growing, growing.sent)
        return self._calls.complete(growing, sent or {})


class _Part:
    """One part of the model's content: text that may grow, or a call."""

    def __init__(self, sent: dict[str, Any], growing: Growing | None = None) -> None:
        self._sent = sent
        self._growing = growing
        self._texts = [as_text(sent.get("text"))]

    def takes(self, sent: dict[str, Any]) -> bool:
        """Join text that continues this part, and say whether it did.

        A part with a signature is not joined, because the signature belongs to that part.
        """
        kinds = {"text", "thought"}
        if not (self._sent.keys() <= kinds and sent.keys() <= kinds and "text" in sent):
            return False
        if self._growing is not None or "text" not in self._sent:
            return False
        if bool(self._sent.get("thought")) != bool(sent.get("thought")):
            return False
        self._texts.append(as_text(sent["text"]))
        return True

    def value(self) -> dict[str, Any]:
        """The part as it is sent back."""
        if len(self._texts) > 1:
            return {**self._sent, "text": make_encodable("".join(self._texts))}
        call = None if self._growing is None else self._growing.sent
        if call is None:
            return self._sent
        key = "functionCall" if "functionCall" in self._sent else "function_call"
        told = {name: value for name, value in self._sent[key].items() if name not in _IN_PIECES}
        return {**self._sent, key: {**told, "args": call}}


class _Named:
    """Tools that are also found by the names that only Gemini sees."""

    def __init__(self, box: Tools) -> None:
        self._box = box

    def get(self, name: str) -> Tool | None:
        """The tool, or None."""
        found = self._box.get(name)
        if found is not None or not _CHANGED_NAME.match(name):
            return found
        # The changed name contains a short name in full, and only the start of a long one.
        tool = self._box.get(name[1 : -_HASH_LENGTH - 1])
        listed = self._box if isinstance(self._box, Iterable) else ()
        return next(
            (each for each in (tool, *listed) if each and gemini_name(each.name) == name), None
        )


def provider_name(name: str) -> str:
    """The name under which Gemini sees a tool."""
    return gemini_name(name)


def tool_name(name: str, box: Tools) -> str:
    """The tool's own name for a name that the model sent; the same name if there is no tool."""
    return find_name(_Named(box), name)


def _message_parts(message: Any) -> list[Any]:
    candidates = get_field(message, "candidates")
    if candidates is not None:
        message = next(iter(as_list(candidates)), None)
    message = get_field(message, "content") or message
    return as_list(get_field(message, "parts")) or as_list(message)


def _function_response(outcome: Outcome) -> dict[str, Any]:
    call, shown = outcome.call, answer_blocks(outcome)
    # The name of an unknown tool is sent back as it was received.
    unknown = isinstance(outcome.error, ToolNotFound)
    words = "\n".join(block_in_words(block) for block in shown if _inline_data(block) is None)
    key, value = (
        ("error", words)
        if is_failure(outcome)
        else ("output", _response_output(outcome, shown, words))
    )
    response: dict[str, Any] = {
        "name": make_encodable(call.tool) if unknown else gemini_name(call.tool),
        "response": {key: value},
    }
    if call.provider_id:
        response["id"] = call.provider_id
    media = [part for part in map(_inline_data, shown) if part is not None]
    return {**response, "parts": media} if media else response


def _response_output(outcome: Outcome, shown: list[Block], words: str) -> Any:
    """The value itself if the text is its JSON, else the text."""
    if not outcome.ok or isinstance(shown_value(outcome), str) or len(shown) > 1:
        return words
    try:
        return make_encodable(parse_json(words))
    except ValueError:
        return words


def _inline_data(block: Block) -> dict[str, Any] | None:
    held = isinstance(block, Image | Audio) or (isinstance(block, Resource) and block.data)
    if not held or not isinstance(block, Image | Audio | Resource):
        return None
    mime_type = block.mime_type or "application/octet-stream"
    if mime_type.startswith("image/") and mime_type not in _IMAGES:
        return None
    return {"inlineData": {"mimeType": mime_type, "data": block.data}}
