"""Who calls: the name that belongs to a bearer token."""

import hashlib
import hmac
from collections.abc import Mapping

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken


def caller_name() -> str | None:
    """The name of the token that the current request came with, if tokens are used."""
    token = get_access_token()
    return None if token is None else token.client_id


class Tokens:
    """Bearer tokens and whom they belong to. The tokens themselves are not kept."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        for name, token in tokens.items():
            if not name or not token or not token.isascii() or not token.isprintable():
                raise ValueError(f"The token of {name!r} must be printable ASCII text.")
        self._digests = {name: _digest(token.encode()) for name, token in tokens.items()}
        if not tokens or len(set(self._digests.values())) < len(tokens):
            raise ValueError("Tokens: at least one is needed, and each name needs its own.")

    def user(self, header: bytes | None) -> AuthenticatedUser | None:
        """Whom an Authorization header belongs to.

        Every token is looked at, and each in the same time, whichever fits.
        """
        scheme, _, sent = (header or b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        given = _digest(sent.strip())
        found = None
        for name, digest in self._digests.items():
            if hmac.compare_digest(digest, given):
                found = name
        if found is None:
            return None
        return AuthenticatedUser(AccessToken(token="", client_id=found, scopes=[]))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
