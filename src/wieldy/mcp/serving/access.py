"""Decide who may reach the server, by address, host, origin and bearer token."""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from wieldy.core.errors import WieldyError

from .callers import (
    Identifier,
    Identity,
    OAuthIdentifier,
    SessionIdentifier,
    SessionMemory,
    read_bearer,
)
from .cookie_sessions import SESSION_OVER, identify_session, read_session_key
from .refusals import Refusal
from .wrong_tokens import WrongTokens

# A browser's session counts below this path; programs that call tools have tokens.
_FOR_SESSIONS = "/api/"
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Access:
    """The rules for requests, made once.

    A web page can make a browser call any address under a host name of its choice. So the name
    in the Host header and the origin of the page must both be expected ones.

    Without identifiers everybody on this machine may call and read. So they may with
    `open_to_all`: the identifiers then only know the people who decide.
    """

    def __init__(
        self,
        identifiers: Sequence[Identifier] = (),
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        anonymous: bool = False,
        wrong_tokens: WrongTokens | None = None,
        open_to_all: bool = False,
    ) -> None:
        if isinstance(hosts, str) or isinstance(origins, str):
            raise TypeError("hosts and origins are lists of names, not one text")
        self._identifiers = tuple(identifiers)
        self._is_open = open_to_all or not self._identifiers
        self._session_keepers = [
            each for each in self._identifiers if isinstance(each, SessionIdentifier)
        ]
        self.metadata = [
            each.metadata for each in self._identifiers if isinstance(each, OAuthIdentifier)
        ]
        # Documents that tell clients where to get a token are for those who have none.
        described = [each.path for each in self.metadata]
        self.open_paths = frozenset(("/ready", "/health", "/health/live", *described))
        # Paths that are open to unknown callers, if host and origin are right.
        self.is_public: Callable[[str], bool] = lambda path: False
        self._hosts = _LOCAL | {host.lower() for host in hosts}
        self._origins = frozenset(origin.lower() for origin in origins)
        self._anonymous = anonymous
        self.wrong_tokens = wrong_tokens or WrongTokens()

    @property
    def uses_tokens(self) -> bool:
        """Whether callers need tokens."""
        return not self._is_open

    @property
    def keeps_sessions(self) -> bool:
        """Whether people can sign in with a browser."""
        return bool(self._session_keepers)

    def check_address(self, host: str) -> None:
        """Refuse to listen on an address that anybody could call without a token."""
        if self._is_open and not self._anonymous and not is_loopback(host):
            raise ValueError(
                f"Without tokens only this machine is served, and {host} is open to others. "
                'Pass tokens={"name": "…"}, or anonymous=True to let everybody in.'
            )

    def refusal(self, headers: Iterable[tuple[bytes, bytes]], peer: str | None) -> Refusal | None:
        """The reason why the origin of a request is refused, or None."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_expected_host(_host_name(hosts[0])):
            return Refusal(421, "This host name is not served here. The setting is `hosts`.")
        for name, value in headers:
            if name == b"origin" and not self._is_trusted_origin(value.decode("latin-1").lower()):
                return Refusal(403, "This origin is not allowed. The setting is `origins`.")
        if self._is_open and not self._anonymous and not is_local_peer(peer):
            return Refusal(403, "Without tokens only this machine is served.")
        return None

    async def identify(
        self,
        headers: Iterable[tuple[bytes, bytes]],
        path: str = "",
        method: str = "GET",
        peer: str | None = None,
    ) -> Identity | Refusal | None:
        """The owner of the request's token or session; None for anybody on an open server."""
        if not self._identifiers:
            return None
        sent = [value for name, value in headers if name == b"authorization"]
        if not sent and self._session_keepers and path.startswith(_FOR_SESSIONS):
            found = await self._identify_session(headers, method, peer)
            # Where anybody reads, a browser whose session has ended is nobody in particular.
            if found is not None and not (self._is_open and found is SESSION_OVER):
                return found
        token = read_bearer(sent[0]) if len(sent) == 1 else None
        if token is None and self._is_open:
            return None
        if token is None:
            return Refusal(401, "A bearer token is needed.")
        refused = self.wrong_tokens.refuse(peer, token)
        return refused or await self._identify_token(token, peer)

    async def _identify_session(
        self, headers: Iterable[tuple[bytes, bytes]], method: str, peer: str | None
    ) -> Identity | Refusal | None:
        key = read_session_key(headers)
        refused = None if key is None else self.wrong_tokens.refuse(peer, key)
        if key is None or refused is not None:
            return refused
        found = await identify_session(self._session_keepers, headers, method)
        if isinstance(found, Identity):
            self.wrong_tokens.note_right(key)
        elif found is SESSION_OVER and not await self._had_session(key):
            self.wrong_tokens.note_wrong(peer, key)
        return found

    async def _had_session(self, key: str) -> bool:
        """Whether a session has ended, which is not guessed then."""
        if self.wrong_tokens.was_right(key):
            return True
        try:
            kept = [each for each in self._session_keepers if isinstance(each, SessionMemory)]
            return any([await each.had_session(key) for each in kept])
        except WieldyError:
            return True

    async def _identify_token(self, token: str, peer: str | None) -> Identity | Refusal:
        try:
            for each in self._identifiers:
                identity = await each.identify(token)
                if identity is not None:
                    self.wrong_tokens.note_right(token)
                    return identity
        except WieldyError:
            # The store or an issuer does not answer. Nobody comes in whose token can't be checked.
            return Refusal(503, "The token can't be checked now. Try again.")
        self.wrong_tokens.note_wrong(peer, token)
        return Refusal(401, "A bearer token is needed, and this one is not valid.")

    @property
    def challenge(self) -> str:
        """What a caller without a valid token is told about the ways to get one."""
        return ", ".join(each.challenge for each in self.metadata) or "Bearer"

    def _is_expected_host(self, host: str) -> bool:
        return host in self._hosts or "*" in self._hosts

    def _is_trusted_origin(self, origin: str) -> bool:
        if origin in self._origins or "*" in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        # Pages from this machine and from expected hosts may call.
        return parts.scheme in ("http", "https") and _host_name(parts.netloc.encode()) in (
            self._hosts - {"*"}
        )


def _host_name(host: bytes) -> str:
    """The host of a Host header without its port, in a uniform spelling."""
    text = host.decode("latin-1").strip().lower()
    name, colon, port = text.rpartition(":")
    if colon and (not port or port.isdecimal()) and not text.endswith("]"):
        text = name
    return text.removesuffix(".")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_local_peer(peer: str | None) -> bool:
    """Whether the client is on this machine; a Unix socket has no address.

    A proxy may pass on what its client has written, so a name such as localhost is no address.
    """
    if peer is None:
        return True
    return peer != "localhost" and is_loopback(peer.removeprefix("::ffff:"))
