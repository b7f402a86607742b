"""How many tokens a request takes, estimated."""

import re
from typing import Any

from wieldy.wire.cost import estimate, stable_json

# A picture or a file costs by what is on it, not by the letters that it is sent in.
_MEDIA = re.compile(r"[A-Za-z0-9+/=_-]{2000,}")
_MEDIA_TOKENS = 1000


def estimate_tokens(body: Any) -> int:
    """Tokens of a request's body by rule of thumb; a file or a picture counts as a thousand."""
    rest, count = _MEDIA.subn("", stable_json(body))
    return estimate(rest) + count * _MEDIA_TOKENS
