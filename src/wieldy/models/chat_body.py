"""A request as the body of OpenAI's chat API, which most other servers speak as well."""

from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.call import Call
from wieldy.wire import openai
from wieldy.wire.openai import provider_name

from .model import Answers, ModelRequest, Reply, Said, Turn
from .output_format import openai_format
from .request_body import add_options, request_tools, sent_options

FORM = "openai"
# Newer OpenAI models refuse `max_tokens`. Other servers know only that name.
_OPENAI_NAMES = {"max_tokens": "max_completion_tokens"}


def write_chat(model: str, request: ModelRequest, official: bool) -> dict[str, Any]:
    """The body of a streamed request; `official` says that it goes to OpenAI itself.

    Other servers get only what all of them support: no schema of the answer unless the
    options contain one, and developer messages as system messages.
    """
    body = chat_body(model, request)
    if not official:
        for message in body["messages"]:
            if message.get("role") == "developer":
                message["role"] = "system"
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    wanted = openai_format(request.output_schema) if official else None
    if wanted is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    body = add_options(body, sent_options(request), _OPENAI_NAMES if official else None)
    return {**body, "stream": True}


def chat_body(model: str, request: ModelRequest) -> dict[str, Any]:
    """The model, the messages, and the tools if there are any."""
    body: dict[str, Any] = {"model": model, "messages": chat_messages(request.turns)}
    tools = request_tools(request, "openai")
    return {**body, "tools": tools} if tools else body


def chat_messages(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """The conversation as messages; a model's own messages are unchanged."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if isinstance(turn, Said):
            messages.append({"role": turn.role, "content": _message_content(turn)})
        elif isinstance(turn, Answers):
            messages += openai.render(turn.outcomes, turn.calls, max_result=0)
        else:
            messages.append(dict(turn.raw) if turn.provider == FORM else _translate_reply(turn))
    return messages


def argument_text(call: Call) -> str:
    """A call's arguments as JSON text; text that came from a model is left as it is."""
    sent = call.arguments
    if isinstance(sent, str):
        return sent
    return dump_json(dict(sent or {}), MAX_WRAPPED, ensure_ascii=False, default=str)


def _message_content(said: Said) -> Any:
    if isinstance(said.content, str):
        return said.content
    return [dict(part) if isinstance(part, Mapping) else part for part in said.content]


def _translate_reply(reply: Reply) -> dict[str, Any]:
    """A message of another provider's model, translated as far as this API allows."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.provider_id or call.id,
                "type": "function",
                "function": {"name": provider_name(call.tool), "arguments": argument_text(call)},
            }
            for call in reply.calls
        ]
    elif message["content"] is None:
        message["content"] = ""
    return message
