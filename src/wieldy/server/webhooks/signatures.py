"""Sign messages as the Standard Webhooks specification says, so that any receiver can verify them.

The signature is an HMAC-SHA256 of the message's id, its time and its body, joined by dots.
"""

import base64
import binascii
import hashlib
import hmac

_PREFIX = "whsec_"
# Keys of the signatures with key pairs, which the specification knows too.
_KEY_PAIR = ("whsk_", "whpk_")
_SHORTEST, _MAX_LENGTH = 24, 64
_MAKE = "Make one with: echo whsec_$(openssl rand -base64 32)"


def read_secret(text: str) -> bytes:
    """The key that a secret stands for.

    Args:
        text: `whsec_` and a key in base64, or any other text of 24 characters or more.

    Returns:
        The key.

    Raises:
        ValueError: It is too short or can't be read.
    """
    if text.startswith(_KEY_PAIR):
        raise ValueError(f"a key pair can't be used, only a shared secret. {_MAKE}")
    if not text.startswith(_PREFIX):
        if len(text) < _SHORTEST:
            raise ValueError(f"a secret has {_SHORTEST} characters or more. {_MAKE}")
        return text.encode("utf-8", "surrogatepass")
    encoded = text.removeprefix(_PREFIX).rstrip("=")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"after {_PREFIX} comes a key in base64. {_MAKE}") from None
    if not _SHORTEST <= len(key) <= _MAX_LENGTH:
        raise ValueError(f"a key has {_SHORTEST} to {_MAX_LENGTH} bytes, not {len(key)}. {_MAKE}")
    return key


def sign_message(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of a message, as it stands in the header `webhook-signature`."""
    signed = b".".join((message_id.encode("ascii"), str(timestamp).encode("ascii"), body))
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode('ascii')}"
