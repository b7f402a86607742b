"""Gemini's streamGenerateContent: a request as its body, sent over Google's SDK."""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from wieldy.core.bounded_json import MAX_WRAPPED, parse_json
from wieldy.core.secrets.secret import reveal_secret
from wieldy.wire import gemini
from wieldy.wire.gemini import provider_name
from wieldy.wire.loose_fields import as_text, get_field
from wieldy.wire.schema.lowering import lower_schema

from .api import Api
from .content_parts import Media, Part, translate_parts
from .failure import ProviderFault
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
    from google.genai import Client

NAME = "gemini"
# The SDK's default version lacks tools and thinking.
_VERSION = "v1beta"
_SYSTEM = ("system", "developer")
# These options are fields of the body; all others belong to its generationConfig.
_TOP = frozenset(
    {"cachedContent", "generationConfig", "labels", "safetySettings", "serviceTier", "store"}
    | {"systemInstruction", "toolConfig", "tools"}
)
_NAMES = {
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "stop": "stopSequences",
}


def write_gemini(model: str, request: ModelRequest, official: bool) -> dict[str, Any]:
    """The body of a streamed request. The model is not in it: it is in the address."""
    system, contents = gemini_contents(request.turns)
    body: dict[str, Any] = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": system}
    tools = request_tools(request, "gemini")
    if tools:
        body["tools"] = [{"functionDeclarations": tools}]
    options = {_NAMES.get(name) or to_camel(name): v for name, v in sent_options(request).items()}
    top = {name: value for name, value in options.items() if name in _TOP}
    settings = {**_format_options(request), **(top.pop("generationConfig", None) or {})}
    rest = {name: value for name, value in options.items() if name not in _TOP}
    settings = add_options(settings, rest)
    if "stopSequences" in settings:
        settings["stopSequences"] = wrap_in_list(settings["stopSequences"])
    body = add_options(body, top)
    return {**body, "generationConfig": settings} if settings else body


def gemini_contents(turns: Iterable[Turn]) -> tuple[list[Part], list[dict[str, Any]]]:
    """The system text, and the conversation as contents; a model's own contents are unchanged."""
    system: list[Part] = []
    contents: list[dict[str, Any]] = []
    for turn in turns:
        if isinstance(turn, Said):
            parts = translate_parts(turn.content, _text_part, _media_part)
            if turn.role in _SYSTEM:
                system += parts
            elif parts:
                role = "model" if turn.role == "assistant" else "user"
                contents.append({"role": role, "parts": parts})
        elif isinstance(turn, Answers):
            contents += gemini.render(turn.outcomes, turn.calls, max_result=0)
        else:
            content = dict(turn.raw) if turn.provider == NAME else _translate_reply(turn)
            # The API refuses a content without parts, which has nothing to say anyway.
            contents += [content] if content["parts"] else []
    return system, contents


def _format_options(request: ModelRequest) -> dict[str, Any]:
    """The options that enforce a schema, which older models don't accept together with tools."""
    schema = request.output_schema
    if not is_object_schema(schema) or request.tools is not None:
        return {}
    # Without the keywords that Gemini does not support.
    lowered = lower_schema(schema, "gemini").schema
    return {"responseMimeType": "application/json", "responseJsonSchema": lowered}


def _text_part(text: str) -> Part:
    return {"text": text}


def _media_part(media: Media) -> Part:
    if media.data:
        return {"inlineData": {"mimeType": media.mime_type, "data": media.data}}
    file: Part = {"fileUri": media.file_id or media.uri}
    return {"fileData": {**file, "mimeType": media.mime_type} if media.mime_type else file}


def _translate_reply(reply: Reply) -> dict[str, Any]:
    """A message of another provider's model, translated as far as this API allows."""
    parts: list[Part] = [_text_part(reply.text)] if reply.text else []
    for call in reply.calls:
        made: Part = {"name": provider_name(call.tool), "args": argument_object(call)}
        if call.provider_id:
            made["id"] = call.provider_id
        parts.append({"functionCall": made})
    return {"role": "model", "parts": parts}


def _connect_sdk(settings: ModelSettings, http: Any) -> "Client":
    # The SDK takes a second to import, so it is loaded with the first request.
    from google.genai import Client, types  # noqa: PLC0415

    return Client(
        vertexai=False,
        api_key=reveal_secret(settings.api_key) or "none",
        http_options=types.HttpOptions(
            base_url=settings.base_url,
            api_version=_VERSION,
            headers=dict(settings.headers),
            httpx_async_client=http,
            retry_options=types.HttpRetryOptions(attempts=1),
        ),
    )


async def _send_request(client: "Client", model: str, body: dict[str, Any]) -> AsyncIterator[Any]:
    path = model if "/" in model else f"models/{model}"
    # The typed methods drop unknown fields, rewrite thought signatures, and may send requests of
    # their own, but the API refuses parts that are not sent back unchanged. Only this method of
    # the SDK gives the raw data.
    answer = await client._api_client.async_request_streamed(
        "post", f"{path}:streamGenerateContent?alt=sse", body
    )
    return _chunk_bodies(answer)


async def _chunk_bodies(answer: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for chunk in answer:
        yield parse_json(chunk.body, MAX_WRAPPED)


def _check_chunk(chunk: Any) -> None:
    """Raise if the prompt was blocked, in which case there is no candidate."""
    feedback = get_field(chunk, "promptFeedback", "prompt_feedback")
    reason = as_text(get_field(feedback, "blockReason", "block_reason"))
    if reason:
        told = f"the prompt was blocked: {reason}"
        raise ProviderFault({"type": "invalid_request_error", "message": told})


GEMINI = Api(
    name=NAME,
    address="https://generativelanguage.googleapis.com",
    sdk="google.genai",
    extra="gemini",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    address_variables=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
    write=write_gemini,
    connect=_connect_sdk,
    send=_send_request,
    reader=gemini.StreamReader,
    check=_check_chunk,
)
