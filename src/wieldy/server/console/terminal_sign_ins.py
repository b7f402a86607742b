"""Sign in the person at a server's terminal: links that it prints, and sessions in its memory."""

import secrets
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from wieldy.core.permission.deciders import KnownPerson
from wieldy.mcp.serving.callers import Identity, digest_token
from wieldy.store.access.sign_ins import SESSION_SECONDS

_RANDOM_BYTES = 32


class BegunSession(Protocol):
    """A session in a browser that was just begun."""

    @property
    def key(self) -> str:
        """The key of the session, which only the browser keeps."""

    @property
    def token(self) -> KnownPerson:
        """Who signed in."""


class LinkTaker(Protocol):
    """Begins sessions by links, and ends them."""

    async def use_link(self, key: str) -> BegunSession | None:
        """Begin a session, and let the link not work again; None if it does not work."""

    async def end_session(self, key: str) -> None:
        """End a session; one that has ended already stays so."""


class TerminalSession(NamedTuple):
    """A session of the person at the terminal."""

    key: str
    token: Identity


class TerminalSignIns:
    """The links that one server prints on its terminal, and the sessions that they begin.

    Whoever reads the terminal has started the server, and may do everything. Nothing is stored:
    links and sessions end with the server. Each link works once; then `told` gets the key of the
    next one.

    Args:
        name: The name under which this person decides.
        told: A function that gets the key of each link after the first.

    Example:
        `run(box, deciders=[TerminalSignIns("ann", print)])`
    """

    def __init__(self, name: str, told: Callable[[str], None]) -> None:
        self._person = Identity(name, frozenset(("call", "approve", "administer")))
        self._told = told
        self._link = b""
        self._sessions: dict[bytes, float] = {}

    def make_link(self) -> str:
        """Make the key of a link; the one before no longer works."""
        key = "wieldy_link_" + secrets.token_urlsafe(_RANDOM_BYTES)
        self._link = digest_token(key)
        return key

    async def use_link(self, key: str) -> TerminalSession | None:
        """Begin a session, and make the next link."""
        if not self._link or not secrets.compare_digest(self._link, digest_token(key)):
            return None
        now = time.monotonic()
        self._sessions = {each: ends for each, ends in self._sessions.items() if ends > now}
        session = "wieldy_session_" + secrets.token_urlsafe(_RANDOM_BYTES)
        self._sessions[digest_token(session)] = now + SESSION_SECONDS
        self._told(self.make_link())
        return TerminalSession(session, self._person)

    async def end_session(self, key: str) -> None:
        """End a session; one that has ended already stays so."""
        self._sessions.pop(digest_token(key), None)

    async def identify(self, token: str) -> Identity | None:
        """Nobody: a browser's session is no token."""
        return None

    async def identify_session(self, key: str) -> Identity | None:
        """The person, if this is a session of theirs that has not ended."""
        ends = self._sessions.get(digest_token(key), 0.0)
        return self._person if time.monotonic() < ends else None
