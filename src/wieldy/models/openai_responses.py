"""OpenAI's responses API: a request as its body, sent over its SDK."""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from wieldy.wire import openai_responses
from wieldy.wire.assistant_message import plain_copy
from wieldy.wire.loose_fields import as_text, get_field
from wieldy.wire.openai_responses import provider_name

from .api import Api
from .content_parts import Media, Part, plain_text, translate_parts
from .failure import ProviderFault
from .model import Answers, ModelRequest, Reply, Said, Turn
from .openai import CHAT, answer_format, argument_text, connect_openai, post_openai
from .request_body import add_options, request_tools, sent_options

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NAME = "openai-responses"
_NAMES = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}


def write_responses(model: str, request: ModelRequest, official: bool) -> dict[str, Any]:
    """The body of a streamed request.

    The provider stores reasoning items for the next round, unless the options turn that off
    with `store=False` and `include=["reasoning.encrypted_content"]`, which not every model
    supports.
    """
    body: dict[str, Any] = {"model": model, "input": response_items(request.turns)}
    tools = request_tools(request, "openai-responses")
    if tools:
        body["tools"] = tools
    wanted = answer_format(request.output_schema) if official else None
    if wanted is not None:
        body["text"] = {"format": {"type": "json_schema", **wanted}}
    return {**add_options(body, sent_options(request), _NAMES), "stream": True}


def response_items(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """The conversation as input items; a model's own items are unchanged."""
    items: list[dict[str, Any]] = []
    for turn in turns:
        if isinstance(turn, Said):
            items.append({"role": turn.role, "content": _message_content(turn)})
        elif isinstance(turn, Answers):
            items += openai_responses.render(turn.outcomes, turn.calls, max_result=0)
        elif turn.provider == NAME:
            items += [dict(item) for item in turn.raw]
        else:
            items += _translate_reply(turn)
    return items


def _message_content(said: Said) -> str | list[Part]:
    if isinstance(said.content, str):
        return said.content
    if said.role == "assistant":
        return plain_text(said.content)
    return translate_parts(
        said.content, lambda text: {"type": "input_text", "text": text}, _media_part
    )


def _media_part(media: Media) -> Part:
    if media.kind == "image":
        part: Part = {"type": "input_image", "image_url": media.url}
        return {**part, "detail": media.detail} if media.detail else part
    if media.kind == "audio":
        sound = {"data": media.data, "format": media.mime_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": sound}
    if media.file_id:
        return {"type": "input_file", "file_id": media.file_id}
    if media.uri:
        return {"type": "input_file", "file_url": media.uri}
    return {"type": "input_file", "filename": media.name or "file.pdf", "file_data": media.url}


def _translate_reply(reply: Reply) -> list[dict[str, Any]]:
    """A message of another provider's model, translated as far as this API allows."""
    said = [{"role": "assistant", "content": reply.text}] if reply.text else []
    calls = [
        {
            "type": "function_call",
            "call_id": call.provider_id or call.id,
            "name": provider_name(call.tool),
            "arguments": argument_text(call),
        }
        for call in reply.calls
    ]
    return [*said, *calls]


async def _send_responses(
    client: "AsyncOpenAI", model: str, body: dict[str, Any]
) -> AsyncIterator[Any]:
    return await post_openai(client, "/responses", body)


def _check_response(event: Any) -> None:
    """Raise if the stream reports that there will be no answer."""
    kind = as_text(get_field(event, "type"))
    if kind == "error":
        raise ProviderFault(plain_copy(get_field(event, "error") or event))
    if kind == "response.failed":
        raise ProviderFault(plain_copy(get_field(get_field(event, "response"), "error")) or {})


RESPONSES = Api(
    name=NAME,
    address=CHAT.address,
    sdk="openai",
    extra="openai",
    key_variables=CHAT.key_variables,
    address_variables=CHAT.address_variables,
    write=write_responses,
    connect=connect_openai,
    send=_send_responses,
    reader=openai_responses.StreamReader,
    check=_check_response,
)
