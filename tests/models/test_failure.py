"""What providers say went wrong, and what becomes of it."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from wieldy import ContextTooLong, ModelError, ModelRefused, ModelUnavailable
from wieldy.models.failure import ProviderFault, explain_failure


class Answer:
    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class StatusError(Exception):
    """An exception with the facts that the SDKs' own carry."""

    def __init__(self, status: int, body: Any = None, **headers: str) -> None:
        super().__init__(f"Error code: {status}")
        self.status_code = status
        self.body = body
        self.response = Answer(**headers)


def explain(error: Exception) -> ModelError:
    return explain_failure(error, "openai:m", secrets=["hush-hush"], began=False)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (StatusError(529), ModelUnavailable, "529"),
        (StatusError(408), ModelUnavailable, "408"),
        (StatusError(429, {"code": "insufficient_quota"}), ModelRefused, "429"),
        (StatusError(401, {"message": "bad key"}), ModelRefused, "bad key. Pass the right api_key"),
        (StatusError(403), ModelRefused, "api_key"),
        (StatusError(308), ModelRefused, "Redirects are not followed"),
        (StatusError(413), ModelRefused, "413"),
        (StatusError(200, {"error": {"type": "overloaded_error"}}), ModelUnavailable, "529"),
        (StatusError(200, {"error": {"type": "invalid_request_error"}}), ModelRefused, "400"),
        (StatusError(400, {"code": "context_length_exceeded"}), ContextTooLong, "400"),
        (StatusError(500, {"message": "hush-hush"}), ModelUnavailable, r"\*\*\*"),
        (StatusError(500, [{"error": {"message": "in a list"}}]), ModelUnavailable, "in a list"),
        (StatusError(500, "a page"), ModelUnavailable, "Error code: 500"),
        (ProviderFault({"code": "rate_limit_exceeded"}), ModelUnavailable, "429"),
        (ProviderFault({"message": "odd"}), ModelUnavailable, "odd"),
        (ProviderFault({}), ModelUnavailable, "no reason"),
        (ValueError(""), ModelUnavailable, "ValueError"),
        (OSError("broken pipe"), ModelUnavailable, "OSError: broken pipe"),
    ],
)
def test_an_error_says_what_to_do_about_it(
    error: Exception, kind: type[ModelError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        raise explain(error)


@pytest.mark.parametrize(
    ("message", "tokens", "window"),
    [
        ("prompt is too long: 212345 tokens > 200000 maximum", 212_345, 200_000),
        (
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130,500 tokens.",
            130_500,
            128_000,
        ),
        ("The input token count (1200000) exceeds the maximum (1048576).", 1_200_000, 1_048_576),
        ("the request exceeds the available context size", None, None),
    ],
)
def test_figures_are_read_where_a_provider_gives_them(
    message: str, tokens: int | None, window: int | None
) -> None:
    error = explain(StatusError(400, {"message": message}))
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.window) == (tokens, window)
    assert message in str(error)


def test_an_error_of_ours_is_found_inside_an_sdk_s() -> None:
    ours = ModelRefused("openai:m", "no")
    wrapped = RuntimeError("Connection error.")
    wrapped.__cause__ = ours
    assert explain(wrapped) is ours


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "2.5"}, 2.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": format_datetime(datetime.now(UTC) - timedelta(hours=1))}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
        ({}, None),
    ],
)
def test_the_rest_that_a_provider_wants_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    error = explain(StatusError(429, None, **headers))
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == seconds
