"""Estimate the tokens of a request, and check them against the model's context."""

import re
from typing import Any

from wieldy.wire.cost import estimate_text_tokens, stable_json

from .model_errors import ContextTooLong

# The cost of a picture or a file does not depend on the length of its base64 text.
_MEDIA = re.compile(r"[A-Za-z0-9+/=_-]{2000,}")
_MEDIA_TOKENS = 1000


def estimate_tokens(body: Any) -> int:
    """A rough count of the tokens in a request's body; a file or picture counts as a thousand."""
    rest, count = _MEDIA.subn("", stable_json(body))
    return estimate_text_tokens(rest) + count * _MEDIA_TOKENS


def check_length(model: str, body: Any, window: int | None) -> None:
    """Raise `ContextTooLong` if a request has more tokens than the model's window, if one is known.

    `model` is the model's name for the error message.
    """
    if window is not None and (tokens := estimate_tokens(body)) > window:
        raise ContextTooLong(model, tokens, window)
