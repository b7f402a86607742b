"""Anthropic's messages API over its SDK."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from wieldy.core.secrets.secret import reveal_secret
from wieldy.wire import anthropic

from .anthropic_body import FORM, write_anthropic
from .api import Api
from .settings import ModelSettings

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


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
    name="anthropic",
    form=FORM,
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
