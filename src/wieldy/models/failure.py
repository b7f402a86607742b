"""Convert errors of an SDK or the HTTP library to the `ModelError` that says what to do.

The exceptions are recognised by their attributes, so that this module loads neither library.
"""

import re
from collections.abc import Mapping
from typing import Any

from wieldy.core.secrets.secret import redact_text
from wieldy.core.timestamps import read_retry_after

from .model_errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable

_TEMPORARY = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LOGIN = {401, 403}
_MAX_MESSAGE = 2_000
# The phrases with which providers report a request that exceeds the model's context.
_TOO_LONG = re.compile(
    r"context_length_exceeded|prompt is too long|maximum context length|"
    r"input token count.{0,40} exceeds|exceeds the (?:model's )?(?:available )?context",
    re.IGNORECASE,
)
_FIGURES = re.compile(r"\d[\d,]{3,}")
# These errors are permanent, although their status usually means "try later".
_FINAL_CODES = {"insufficient_quota", "billing_not_active", "billing_error"}
_FAULT_STATUS = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    # The names of the responses API.
    "server_error": 500,
    "rate_limit_exceeded": 429,
    "invalid_prompt": 400,
}


class ProviderFault(Exception):
    """An error that a chunk of the answer reports."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(body.get("message") or "the provider gave no reason")
        self.body = dict(body)


def explain_failure(
    error: Exception, model: str, *, secrets: list[str], began: bool, address: str = ""
) -> ModelError:
    """The `ModelError` for an exception; `address` is the address of the request."""
    ours = _find_own(error)
    if ours is not None:
        return ours
    body = _error_body(error)
    found = _error_status(error, body)
    message = redact_text(_error_message(error, body), secrets)[:_MAX_MESSAGE]
    if _TOO_LONG.search(f"{body.get('code')} {message}"):
        return _too_long(model, message)
    if found is None or found < 300:
        where = f" ({address})" if address and not (began or found) else ""
        return ModelUnavailable(model, message + where, status=found, began=began)
    told = f"{found}: {message}"
    if found in _TEMPORARY and body.get("code") not in _FINAL_CODES:
        pause = _retry_after(error)
        return ModelUnavailable(model, told, status=found, retry_after=pause, began=began)
    if found in _LOGIN:
        told += ". Pass the right api_key=, or set it in the environment."
    elif found < 400:
        told += ". Redirects are not followed, because the key would go with them; check base_url."
    return ModelRefused(model, told, found)


def _find_own(error: BaseException | None) -> ModelError | None:
    """A `ModelError` in the chain of causes, in case an SDK has wrapped it."""
    while error is not None and not isinstance(error, ModelError):
        error = error.__cause__
    return error


def _error_body(error: Exception) -> Mapping[str, Any]:
    """The provider's description of the error: the innermost object named `error`."""
    body = getattr(error, "body", None) or getattr(error, "details", None)
    if isinstance(body, list) and body:
        body = body[0]
    while isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    return body if isinstance(body, Mapping) else {}


def _error_status(error: Exception, body: Mapping[str, Any]) -> int | None:
    named = _FAULT_STATUS.get(str(body.get("type"))) or _FAULT_STATUS.get(str(body.get("code")))
    given = getattr(error, "status_code", None) or getattr(error, "code", None) or body.get("code")
    status = given if isinstance(given, int) else None
    # An error in the middle of a stream has the successful status of the stream.
    return named if status is None or status < 300 else status


def _error_message(error: Exception, body: Mapping[str, Any]) -> str:
    told = body.get("message")
    if isinstance(told, str) and told.strip():
        return told.strip()
    # For a broken connection, the cause says more than the SDK's own message.
    source = error.__cause__ or error
    words = str(source).strip() or type(source).__name__
    return words if type(source).__name__ in words else f"{type(source).__name__}: {words}"


def _too_long(model: str, message: str) -> ContextTooLong:
    figures = [int(each.replace(",", "")) for each in _FIGURES.findall(message)]
    if len(figures) < 2:
        return ContextTooLong(model, None, None, message)
    return ContextTooLong(model, max(figures), min(figures), message)


def _retry_after(error: Exception) -> float | None:
    """The number of seconds after which the provider asks to be tried again."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    milliseconds = _read_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return read_retry_after(headers.get("retry-after"))


def _read_number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if 0 <= found < float("inf") else None
