"""A request as the body of OpenAI's chat API, which most other servers speak as well."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.call import Call
from wieldy.core.tool import Tool
from wieldy.wire import openai
from wieldy.wire.openai import provider_name

from .model import Answers, ModelRequest, Reply, Said, Turn

FORM = "openai"


class NoTools:
    """What a reader of an answer is given where the request has no tools."""

    def get(self, name: str) -> Tool | None:
        """No tool has this name."""
        return None


def chat_body(model: str, request: ModelRequest) -> dict[str, Any]:
    """The model, the messages, the tools if there are any, and the options."""
    body: dict[str, Any] = {"model": model, "messages": chat_messages(request.turns)}
    tools = [] if request.tools is None else request.tools.schemas("openai")
    if tools:
        body["tools"] = tools
    return {**body, **request.options}


def chat_messages(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """The conversation as messages; a model's own are as they came."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if isinstance(turn, Said):
            messages.append({"role": turn.role, "content": _content(turn)})
        elif isinstance(turn, Answers):
            messages += openai.render(turn.outcomes, turn.calls)
        else:
            messages.append(dict(turn.raw) if turn.provider == FORM else _translated(turn))
    return messages


def argument_text(call: Call) -> str:
    """A call's arguments as JSON text; text that came from a model is left as it is."""
    sent = call.arguments
    if isinstance(sent, str):
        return sent
    return json.dumps(dict(sent or {}), ensure_ascii=False, default=str)


def _content(said: Said) -> Any:
    if isinstance(said.content, str):
        return said.content
    return [dict(part) if isinstance(part, Mapping) else part for part in said.content]


def _translated(reply: Reply) -> dict[str, Any]:
    """What another provider's model said, as far as this API can hold it."""
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
