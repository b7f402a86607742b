"""A request as the body of Gemini's streamGenerateContent."""

from collections.abc import Iterable
from typing import Any

from pydantic.alias_generators import to_camel

from wieldy.wire import gemini
from wieldy.wire.gemini import provider_name

from .content_parts import Media, Part, translate_parts
from .model import Answers, ModelRequest, Reply, Said, Turn
from .output_format import gemini_format
from .request_body import add_options, argument_object, request_tools, sent_options, wrap_in_list

FORM = "gemini"
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
            content = dict(turn.raw) if turn.provider == FORM else _translate_reply(turn)
            # The API refuses a content without parts, which has nothing to say anyway.
            contents += [content] if content["parts"] else []
    return system, contents


def _format_options(request: ModelRequest) -> dict[str, Any]:
    """The options that enforce a schema, which older models don't accept together with tools."""
    schema = gemini_format(request.output_schema)
    if schema is None or request.tools is not None:
        return {}
    return {"responseMimeType": "application/json", "responseJsonSchema": schema}


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
