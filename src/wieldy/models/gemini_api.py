"""Gemini's API over Google's SDK."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from wieldy.core.bounded_json import MAX_WRAPPED, parse_json
from wieldy.core.secrets.secret import reveal_secret
from wieldy.wire import gemini
from wieldy.wire.loose_fields import as_text, get_field

from .api import Api
from .failure import ProviderFault
from .gemini_body import FORM, write_gemini
from .settings import ModelSettings

if TYPE_CHECKING:
    from google.genai import Client

# The SDK's default version lacks tools and thinking.
_VERSION = "v1beta"


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
    name="gemini",
    form=FORM,
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
