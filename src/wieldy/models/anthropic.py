"""Anthropic's messages API: a request as its body, sent over its SDK."""

import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wieldy.core.secrets.secret import reveal_secret
from wieldy.wire import anthropic
from wieldy.wire.anthropic import provider_name
from wieldy.wire.schema.lowering import lower_schema

from .api import Api
from .content_parts import Media, Part, plain_text, translate_parts
from .model import Answers, ModelRequest, Reply, Said, Turn
from .request_body import (
    add_options,
    argument_object,
    is_object_schema,
    request_tools,
    sent_options,
    wrap_in_list,
)
from .settings import ModelSettings

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

NAME = "anthropic"
# The API requires a limit in every request.
DEFAULT_MAX_TOKENS = 8192
_NAMES = {"stop": "stop_sequences", "max_completion_tokens": "max_tokens"}
_SYSTEM = ("system", "developer")


def write_anthropic(model: str, request: ModelRequest, official: bool) -> dict[str, Any]:
    """The body of a streamed request."""
    system, messages = anthropic_messages(request.turns)
    body: dict[str, Any] = {"model": model, "max_tokens": DEFAULT_MAX_TOKENS, "messages": messages}
    if system:
        body["system"] = system
    tools = request_tools(request, "anthropic")
    if tools:
        body["tools"] = tools
    elif not request.options.get("tools") and (called := _called_tools(messages)):
        body.update(tools=called, tool_choice={"type": "none"})
    wanted = _answer_format(request.output_schema) if official else None
    if wanted is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": wanted}}
    body = add_options(body, sent_options(request), _NAMES)
    if "stop_sequences" in body:
        body["stop_sequences"] = wrap_in_list(body["stop_sequences"])
    return {**body, "stream": True}


def _called_tools(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A definition of each tool that was called: without them the API refuses the messages."""
    blocks = (block for each in messages for block in each["content"] if isinstance(block, dict))
    names = dict.fromkeys(block["name"] for block in blocks if block.get("type") == "tool_use")
    return [{"name": name, "input_schema": {"type": "object"}} for name in names]


def anthropic_messages(turns: Iterable[Turn]) -> tuple[Any, list[dict[str, Any]]]:
    """The system text, and the conversation as messages; a model's own messages are unchanged."""
    system: list[Said] = []
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if isinstance(turn, Said):
            if turn.role in _SYSTEM:
                system.append(turn)
            else:
                messages += _plain_message(turn)
        elif isinstance(turn, Answers):
            messages += anthropic.render(turn.outcomes, turn.calls, max_result=0)
        else:
            message = dict(turn.raw) if turn.provider == NAME else _translate_reply(turn)
            # The API refuses a message without content, which has nothing to say anyway.
            messages += [message] if message["content"] else []
    return _system_text(system), messages


def _system_text(said: list[Said]) -> Any:
    """Text, or blocks if some have more than text, such as the end of a cached prefix."""
    if all(isinstance(each.content, str) for each in said):
        return "\n\n".join(plain_text(each.content) for each in said if each.content)
    return [
        part for each in said for part in translate_parts(each.content, _text_part, _media_part)
    ]


def _plain_message(said: Said) -> list[dict[str, Any]]:
    if isinstance(said.content, str):
        content: Any = said.content
    else:
        content = translate_parts(said.content, _text_part, _media_part)
    return [{"role": said.role, "content": content}] if content else []


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def _media_part(media: Media) -> Part:
    if media.kind == "audio":
        raise ValueError("Anthropic's models take no sound")
    block = "image" if media.kind == "image" else "document"
    part: Part = {"type": block, "source": _media_source(media)}
    return {**part, "title": media.name} if block == "document" and media.name else part


def _media_source(media: Media) -> dict[str, str]:
    if media.file_id:
        return {"type": "file", "file_id": media.file_id}
    if not media.data:
        return {"type": "url", "url": media.uri}
    if media.kind == "file" and media.mime_type.startswith("text/"):
        words = base64.b64decode(media.data).decode("utf-8", "replace")
        return {"type": "text", "media_type": "text/plain", "data": words}
    return {"type": "base64", "media_type": media.mime_type, "data": media.data}


def _translate_reply(reply: Reply) -> dict[str, Any]:
    """A message of another provider's model, translated as far as this API allows."""
    said = [_text_part(reply.text)] if reply.text.strip() else []
    calls = [
        {
            "type": "tool_use",
            "id": call.provider_id or call.id,
            "name": provider_name(call.tool),
            "input": argument_object(call),
        }
        for call in reply.calls
    ]
    return {"role": "assistant", "content": [*said, *calls]}


def _answer_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema for Anthropic; None if Anthropic's strict mode would change it."""
    if not is_object_schema(schema):
        return None
    lowered = lower_schema(schema, "anthropic", strict=True)
    return lowered.schema if lowered.strict and not lowered.changes else None


def _connect_sdk(settings: ModelSettings, http: Any) -> "AsyncAnthropic":
    # The SDK takes a second to import, so it is loaded with the first request.
    from anthropic import AsyncAnthropic  # noqa: PLC0415

    return AsyncAnthropic(
        api_key=reveal_secret(settings.api_key) or "none",
        base_url=settings.base_url,
        default_headers=dict(settings.headers),
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
    )


async def _send_request(
    client: "AsyncAnthropic", model: str, body: dict[str, Any]
) -> AsyncIterator[Any]:
    from anthropic import AsyncStream  # noqa: PLC0415

    # The typed methods refuse unknown fields, in requests and in answers.
    return await client.post(
        "/v1/messages", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
    )


ANTHROPIC = Api(
    name=NAME,
    address="https://api.anthropic.com",
    sdk="anthropic",
    extra="anthropic",
    key_variables=("ANTHROPIC_API_KEY",),
    address_variables=("ANTHROPIC_BASE_URL",),
    write=write_anthropic,
    connect=_connect_sdk,
    send=_send_request,
    reader=anthropic.StreamReader,
)
