"""OpenAI's two APIs over its SDK: responses, and chat completions of any server."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from wieldy.core.secrets.secret import reveal_secret
from wieldy.wire import openai, openai_responses
from wieldy.wire.assistant_message import plain_copy
from wieldy.wire.loose_fields import as_text, get_field

from .api import Api
from .chat_body import FORM as CHAT_FORM
from .chat_body import write_chat
from .failure import ProviderFault
from .responses_body import FORM as RESPONSES_FORM
from .responses_body import write_responses
from .settings import ModelSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

# The SDK requires a key even for servers that need none.
_NO_KEY = "none"


def _connect_sdk(settings: ModelSettings, http: Any) -> "AsyncOpenAI":
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


async def _send_chat(client: "AsyncOpenAI", model: str, body: dict[str, Any]) -> AsyncIterator[Any]:
    return await _send_request(client, "/chat/completions", body)


async def _send_responses(
    client: "AsyncOpenAI", model: str, body: dict[str, Any]
) -> AsyncIterator[Any]:
    return await _send_request(client, "/responses", body)


async def _send_request(
    client: "AsyncOpenAI", path: str, body: dict[str, Any]
) -> AsyncIterator[Any]:
    from openai import AsyncStream  # noqa: PLC0415

    # The typed methods refuse unknown fields, in requests and in answers.
    return await client.post(
        path, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
    )


def _check_response(event: Any) -> None:
    """Raise if the stream reports that there will be no answer."""
    kind = as_text(get_field(event, "type"))
    if kind == "error":
        raise ProviderFault(plain_copy(get_field(event, "error") or event))
    if kind == "response.failed":
        raise ProviderFault(plain_copy(get_field(get_field(event, "response"), "error")) or {})


CHAT = Api(
    name="openai",
    form=CHAT_FORM,
    address="https://api.openai.com/v1",
    sdk="openai",
    extra="openai",
    key_variables=("OPENAI_API_KEY",),
    address_variables=("OPENAI_BASE_URL",),
    write=write_chat,
    connect=_connect_sdk,
    send=_send_chat,
    reader=openai.StreamReader,
)
RESPONSES = Api(
    name="openai-responses",
    form=RESPONSES_FORM,
    address=CHAT.address,
    sdk="openai",
    extra="openai",
    key_variables=CHAT.key_variables,
    address_variables=CHAT.address_variables,
    write=write_responses,
    connect=_connect_sdk,
    send=_send_responses,
    reader=openai_responses.StreamReader,
    check=_check_response,
)
