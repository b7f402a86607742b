"""OpenAI's chat API, which most other servers speak as well: a request as its body, and its SDK."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.call import Call
from wieldy.core.secrets.secret import reveal_secret
from wieldy.wire import openai
from wieldy.wire.openai import provider_name
from wieldy.wire.schema.lowering import lower_schema

from .api import Api
from .model import Answers, ModelRequest, Reply, Said, Turn
from .request_body import add_options, is_object_schema, request_tools, sent_options
from .settings import ModelSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NAME = "openai"
# The SDK requires a key even for servers that need none.
_NO_KEY = "none"
_ANSWER_NAME = "answer"
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
    wanted = answer_format(request.output_schema) if official else None
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
            messages.append(dict(turn.raw) if turn.provider == NAME else _translate_reply(turn))
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


def answer_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A schema of the answer with a name, in the form of OpenAI's `json_schema` option.

    It is strict if strict mode leaves the schema unchanged. Strict schemas can't have optional
    fields or free-form objects, so a schema with either is only a hint to the model.
    """
    if not is_object_schema(schema):
        return None
    strict = lower_schema(schema, "openai", strict=True)
    if strict.strict and not strict.changes:
        return {"name": _ANSWER_NAME, "schema": strict.schema, "strict": True}
    return {"name": _ANSWER_NAME, "schema": lower_schema(schema, "openai").schema, "strict": False}


def connect_openai(settings: ModelSettings, http: Any) -> "AsyncOpenAI":
    """A client of the SDK, which both of OpenAI's APIs use."""
    # The SDK takes a second to import, so it is loaded with the first request.
    from openai import AsyncOpenAI  # noqa: PLC0415

    return AsyncOpenAI(
        api_key=reveal_secret(settings.api_key) or _NO_KEY,
        base_url=settings.base_url,
        default_headers=dict(settings.headers),
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
    )


async def post_openai(client: "AsyncOpenAI", path: str, body: dict[str, Any]) -> AsyncIterator[Any]:
    """Send a request, and give the chunks of the answer as plain data."""
    from openai import AsyncStream  # noqa: PLC0415

    # The typed methods refuse unknown fields, in requests and in answers.
    return await client.post(
        path, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
    )


async def _send_chat(client: "AsyncOpenAI", model: str, body: dict[str, Any]) -> AsyncIterator[Any]:
    return await post_openai(client, "/chat/completions", body)


CHAT = Api(
    name=NAME,
    address="https://api.openai.com/v1",
    sdk="openai",
    extra="openai",
    key_variables=("OPENAI_API_KEY",),
    address_variables=("OPENAI_BASE_URL",),
    write=write_chat,
    connect=connect_openai,
    send=_send_chat,
    reader=openai.StreamReader,
)
