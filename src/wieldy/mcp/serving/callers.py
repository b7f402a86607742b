"""Find out who calls, by the identity that belongs to a bearer token."""

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from wieldy.core.choices import Role

from .refusals import Refusal

if TYPE_CHECKING:
    from wieldy.store.access_tokens import StoredToken
    from wieldy.store.store import Store

# A token that was revoked in another process is refused after this time.
_FRESH_SECONDS = 1.0
_MAX_REMEMBERED = 10_000
# These claims are lists that are written as words.
WORD_CLAIMS = ("scope", "scp")
_WELL_KNOWN = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of an accepted client.

    Attributes:
        name: The name, which is the caller of the calls.
        roles: What they may do: `call`, `approve` and `administer`.
        view: The name of the view that they see, or None for the default.
        claims: What else is known of them, such as the claims of an OAuth token.
        chosen_by: The names of the claims that chose the roles and the view.
    """

    name: str
    roles: frozenset[Role] = frozenset(("call", "approve"))
    view: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)
    chosen_by: tuple[str, ...] = ()


Look = Callable[[], Awaitable[Identity | Refusal | None]]


class Identifier(Protocol):
    """Knows the owners of some tokens."""

    async def identify(self, token: str) -> Identity | None:
        """The owner of a token, or None if the token is not known here."""


@runtime_checkable
class SessionIdentifier(Protocol):
    """Knows the owners of some sessions in browsers."""

    async def identify_session(self, key: str) -> Identity | None:
        """The owner of a session, or None if the session is not known here or has ended."""


@runtime_checkable
class SessionMemory(Protocol):
    """Knows sessions in browsers that have ended."""

    async def had_session(self, key: str) -> bool:
        """Whether there was a session of this key, so that whoever sends it guesses nothing."""


@runtime_checkable
class OAuthIdentifier(Protocol):
    """A verifier of the tokens of an OAuth issuer, which tells clients where to get one."""

    metadata: "ResourceMetadata"


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """The document that tells OAuth clients where to get a token for this server (RFC 9728).

    Attributes:
        resource: The address of the MCP endpoint, as clients write it.
        issuer: The issuer, exactly as its tokens spell it.
    """

    resource: str
    issuer: str

    @property
    def path(self) -> str:
        """The path of the document."""
        return _WELL_KNOWN + urlsplit(self.resource).path.rstrip("/")

    @property
    def challenge(self) -> str:
        """What a caller without a valid token is told."""
        parts = urlsplit(self.resource)
        return f'Bearer resource_metadata="{parts.scheme}://{parts.netloc}{self.path}"'

    def to_dict(self) -> dict[str, Any]:
        """Convert it for clients.

        Returns:
            The document.
        """
        return {
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }


class IdentifiedUser(AuthenticatedUser):
    """A user as the SDK knows them, with their identity."""

    def __init__(self, identity: Identity, look: Look) -> None:
        super().__init__(AccessToken(token="", client_id=identity.name, scopes=[]))
        self.who = identity
        # Looks up again whom the request comes from.
        self.look = look


def current_identity() -> Identity | None:
    """The caller that sent the current request, if tokens are used."""
    user = auth_context_var.get()
    if user is None or isinstance(user, IdentifiedUser):
        return None if user is None else user.who
    # An application around ours has authenticated the client.
    return Identity(user.access_token.client_id)


async def look_up_again() -> None:
    """Have the current request's sender do no more than they may do now.

    A request that waits for a person may be old when they answer.
    """
    user = auth_context_var.get()
    if not isinstance(user, IdentifiedUser):
        return
    now = await user.look()
    if isinstance(now, Identity):
        user.who = now
    elif not has_expired(user.who):
        user.who = replace(user.who, roles=frozenset())


def has_expired(identity: Identity) -> bool:
    """Whether an OAuth token was good for its time, which is over."""
    expires = identity.claims.get("exp")
    return isinstance(expires, int | float) and expires <= time.time()


def caller_name() -> str | None:
    """The name of the current request's sender, if tokens are used."""
    identity = current_identity()
    return None if identity is None else identity.name


def may_do(role: Role) -> bool:
    """Whether the current request's sender has a role; somebody unknown calls, and no more."""
    identity = current_identity()
    return role == "call" if identity is None else role in identity.roles


class GivenTokens:
    """The owners of bearer tokens. The tokens themselves are not kept."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        for name, token in tokens.items():
            if not name or not token or not token.isascii() or not token.isprintable():
                raise ValueError(f"The token of {name!r} must be printable ASCII text.")
        self._digests = {name: digest_token(token) for name, token in tokens.items()}
        if not tokens or len(set(self._digests.values())) < len(tokens):
            raise ValueError("Tokens: at least one is needed, and each name needs its own.")

    async def identify(self, token: str) -> Identity | None:
        """The owner of a token. Every known token is compared, each in the same time."""
        given, found = digest_token(token), None
        for name, digest in self._digests.items():
            if hmac.compare_digest(digest, given):
                found = name
        return None if found is None else Identity(found)


class KeptTokens:
    """The tokens and browser sessions of a store; a token is looked up again after a second."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._known: OrderedDict[bytes, tuple[float, Identity]] = OrderedDict()

    async def identify(self, token: str) -> Identity | None:
        """The owner of a token, or None if the token is unknown, expired or revoked."""
        digest = digest_token(token)
        at, known = self._known.get(digest, (0.0, None))
        if known is not None and time.monotonic() - at < _FRESH_SECONDS:
            return known
        self._known.pop(digest, None)
        found = await self._store.tokens.find(token)
        if found is None:
            # Wrong tokens are not cached, because there may be any number of them.
            return None
        identity = _identity_of(found)
        self._known[digest] = (time.monotonic(), identity)
        if len(self._known) > _MAX_REMEMBERED:
            self._known.popitem(last=False)
        return identity

    async def identify_session(self, key: str) -> Identity | None:
        """The owner of a session in a browser, with the roles that their token has now."""
        found = await self._store.sign_ins.find_session(key)
        return None if found is None else _identity_of(found)

    async def had_session(self, key: str) -> bool:
        """Whether there was a session of this key in the last weeks."""
        return await self._store.sign_ins.had_session(key)


def _identity_of(token: "StoredToken") -> Identity:
    return Identity(token.name, token.roles, token.view)


def read_bearer(header: bytes) -> str | None:
    """The token in an Authorization header, or None if it has another scheme."""
    scheme, _, sent = header.partition(b" ")
    return sent.strip().decode("latin-1") if scheme.lower() == b"bearer" else None


def digest_token(token: str) -> bytes:
    """The digest by which a token is known, since tokens themselves are not kept."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
