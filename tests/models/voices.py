"""How each of the four APIs streams an answer, as the bytes that a server sends."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Calls = Sequence[tuple[str, dict[str, Any]]]


def pieces_of(data: bytes, size: int) -> list[bytes]:
    """The bytes in pieces of a size, through characters and all."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def _event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]


def _chat(text: str, calls: Calls, thinking: str, end: bool) -> bytes:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    sent = [chunk({"role": "assistant", "content": ""})]
    sent += [chunk({"reasoning_content": part}) for part in _halves(thinking)]
    sent += [chunk({"content": part}) for part in _halves(text)]
    for index, (name, arguments) in enumerate(calls):
        named = {"index": index, "id": f"call_{index}", "type": "function"}
        sent.append(chunk({"tool_calls": [{**named, "function": {"name": name, "arguments": ""}}]}))
        for part in _halves(json.dumps(arguments, ensure_ascii=False)):
            piece = {"index": index, "function": {"arguments": part}}
            sent.append(chunk({"tool_calls": [piece]}))
    if end:
        sent.append(chunk({}, "tool_calls" if calls else "stop"))
        usage = {"prompt_tokens": 12, "completion_tokens": 3}
        sent += [_event({"choices": [], "usage": usage}), b"data: [DONE]\n\n"]
    return b"".join(sent)


def _responses(text: str, calls: Calls, thinking: str, end: bool) -> bytes:
    def event(kind: str, **facts: Any) -> bytes:
        return _event({"type": kind, **facts}, kind)

    sent = [event("response.created", response={"id": "r", "status": "in_progress"})]
    items: list[dict[str, Any]] = []
    if thinking:
        sent += [
            event("response.reasoning_summary_text.delta", delta=part) for part in _halves(thinking)
        ]
        summary = [{"type": "summary_text", "text": thinking}]
        items.append({"type": "reasoning", "id": "rs", "summary": summary, "signature": "s=="})
        sent.append(event("response.output_item.done", output_index=0, item=items[-1]))
    if text:
        sent += [event("response.output_text.delta", delta=part) for part in _halves(text)]
        content = [{"type": "output_text", "text": text}]
        items.append({"type": "message", "role": "assistant", "content": content})
        sent.append(event("response.output_item.done", output_index=len(items) - 1, item=items[-1]))
    for number, (name, arguments) in enumerate(calls):
        index = len(items)
        item = {"type": "function_call", "id": f"fc{number}", "call_id": f"call_{number}"}
        begun = {**item, "name": name, "arguments": ""}
        sent.append(event("response.output_item.added", output_index=index, item=begun))
        words = json.dumps(arguments, ensure_ascii=False)
        kind = "response.function_call_arguments.delta"
        sent += [event(kind, output_index=index, delta=part) for part in _halves(words)]
        items.append({**begun, "arguments": words, "status": "completed"})
        sent.append(event("response.output_item.done", output_index=index, item=items[-1]))
    if end:
        usage = {"input_tokens": 12, "output_tokens": 3}
        whole = {"id": "r", "status": "completed", "output": items, "usage": usage}
        sent.append(event("response.completed", response=whole))
    return b"".join(sent)


def _anthropic(text: str, calls: Calls, thinking: str, end: bool) -> bytes:
    def event(kind: str, **facts: Any) -> bytes:
        return _event({"type": kind, **facts}, kind)

    def block(index: int, begun: dict[str, Any], deltas: list[dict[str, Any]]) -> bytes:
        sent = [event("content_block_start", index=index, content_block=begun)]
        sent += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        return b"".join([*sent, event("content_block_stop", index=index)])

    usage = {"input_tokens": 12, "output_tokens": 0}
    sent = [event("message_start", message={"id": "m", "usage": usage}), event("ping")]
    index = 0
    if thinking:
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _halves(thinking)]
        deltas.append({"type": "signature_delta", "signature": "s=="})
        sent.append(block(index, {"type": "thinking", "thinking": "", "signature": ""}, deltas))
        index += 1
    if text:
        deltas = [{"type": "text_delta", "text": part} for part in _halves(text)]
        sent.append(block(index, {"type": "text", "text": ""}, deltas))
        index += 1
    for number, (name, arguments) in enumerate(calls):
        words = json.dumps(arguments, ensure_ascii=False)
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in _halves(words)]
        begun = {"type": "tool_use", "id": f"call_{number}", "name": name, "input": {}}
        sent.append(block(index + number, begun, deltas))
    if end:
        delta = {"stop_reason": "tool_use" if calls else "end_turn"}
        sent.append(event("message_delta", delta=delta, usage={"output_tokens": 3}))
        sent.append(event("message_stop"))
    return b"".join(sent)


def _gemini(text: str, calls: Calls, thinking: str, end: bool) -> bytes:
    def chunk(*parts: dict[str, Any], **facts: Any) -> bytes:
        content = {"role": "model", "parts": list(parts)}
        return _event({"candidates": [{"content": content, "index": 0, **facts}]})

    sent = [chunk({"text": part, "thought": True}) for part in _halves(thinking)]
    sent += [chunk({"text": part}) for part in _halves(text)]
    for name, arguments in calls:
        made = {"name": name, "args": arguments}
        sent.append(chunk({"functionCall": made, "thoughtSignature": "s/+=", "later": 1}))
    if end:
        usage = {"promptTokenCount": 12, "candidatesTokenCount": 3}
        last = {"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": usage}
        sent.append(_event(last))
    return b"".join(sent)


@dataclass(frozen=True)
class Voice:
    """One API: what `find_model` calls it, the address it is asked at, and how it answers."""

    name: str
    base: str
    path: str
    key_header: str
    _speak: Callable[[str, Calls, str, bool], bytes]
    # What comes in the middle of a stream where something goes wrong.
    error: bytes
    # A delta, again and again.
    more: bytes
    # Something that says nothing, sent to keep a connection open.
    idle: bytes

    def speak(
        self, text: str = "", calls: Calls = (), thinking: str = "", end: bool = True
    ) -> bytes:
        """A whole answer, or one that lacks its end."""
        return self._speak(text, calls, thinking, end)

    def __str__(self) -> str:
        return self.name


_OPENAI_ERROR = {"error": {"message": "The server had an error", "type": "server_error"}}
_ANTHROPIC_ERROR = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "The server had an error"},
}
_FAILED = {
    "type": "response.failed",
    "response": {"error": {"code": "server_error", "message": "The server had an error"}},
}
_GEMINI_ERROR = {
    "error": {"code": 503, "message": "The server had an error", "status": "UNAVAILABLE"}
}
_TEXT_BEGUN = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "text", "text": "more "},
}
VOICES = [
    Voice(
        "openai",
        "/v1",
        "/v1/chat/completions",
        "authorization",
        _chat,
        _event(_OPENAI_ERROR),
        _event({"choices": [{"index": 0, "delta": {"content": "more "}}]}),
        b": still here\n\n",
    ),
    Voice(
        "openai-responses",
        "/v1",
        "/v1/responses",
        "authorization",
        _responses,
        _event(_FAILED, "response.failed"),
        _event({"type": "response.output_text.delta", "delta": "more "}),
        _event({"type": "response.in_progress", "response": {}}),
    ),
    Voice(
        "anthropic",
        "",
        "/v1/messages",
        "authorization",
        _anthropic,
        _event(_ANTHROPIC_ERROR, "error"),
        _event(_TEXT_BEGUN, "content_block_start"),
        _event({"type": "ping"}, "ping"),
    ),
    Voice(
        "gemini",
        "",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        "x-goog-api-key",
        _gemini,
        _event(_GEMINI_ERROR),
        _event({"candidates": [{"content": {"role": "model", "parts": [{"text": "more "}]}}]}),
        _event({"responseId": "r"}),
    ),
]
