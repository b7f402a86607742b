"""Sign-in links, each good for one session in a browser, and these sessions. Digests are kept."""

import hashlib
import secrets
import time
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from wieldy.core.errors import NotKept
from wieldy.store.access_tokens import StoredToken
from wieldy.store.databases.tables import access_tokens, sign_ins
from wieldy.store.store_access import StoreAccess

LINK_SECONDS = 600.0
MAX_LINK = 86_400.0
SESSION_SECONDS = 12 * 3600.0
_REMEMBERED_SECONDS = 30 * 86_400.0
_RANDOM_BYTES = 32
_LINK_PREFIX = "wieldy_link_"
_SESSION_PREFIX = "wieldy_session_"
_OF_A_SIGN_IN = sign_ins.c


class SignedIn(NamedTuple):
    """A session that was begun.

    Attributes:
        key: The key of the session, which only the browser keeps.
        token: The token whose owner signed in.
        expires_at: When the session ends, in seconds since the epoch.
    """

    key: str
    token: StoredToken
    expires_at: float


class SignIns:
    """The sign-in links and sessions of a store. They end when their token does."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def make_link(
        self, name: str, *, seconds: float = LINK_SECONDS, by: str | None = None
    ) -> str:
        """Make the key of a link that signs the owner of a token in, once.

        Args:
            name: Whose token it is.
            seconds: For how long the link works, a day at most.
            by: Who makes it, for the record.

        Returns:
            The key. It is not kept, and can't be shown again.

        Raises:
            NotKept: The store has no token of this name that works.
            ValueError: The link would work too long, or not at all.

        Example:
            `key = await box.store.sign_ins.make_link("ann")`
        """
        if not 0 < seconds <= MAX_LINK:
            raise ValueError("A sign-in link works for a day at most.")
        key = _LINK_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)

        def write(connection: Connection) -> bool:
            named = access_tokens.c.name == name
            row = connection.execute(select(access_tokens).where(named)).first()
            if row is None or StoredToken(row).state != "valid":
                return False
            _forget_old(connection)
            _put_row(connection, key, "link", row.digest, seconds, by)
            return True

        if not await self._store.write(write):
            raise NotKept("token that works", name)
        return key

    async def use_link(self, key: str, *, seconds: float = SESSION_SECONDS) -> SignedIn | None:
        """Begin a session, and let the link not work again.

        Args:
            key: The key of the link.
            seconds: For how long the session lasts.

        Returns:
            The session, or None if the link is unknown, used or expired, or its token is.
        """
        session = _SESSION_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)

        def write(connection: Connection) -> Any:
            begun = _find_row(connection, session, "session")
            if begun is not None:
                # An earlier attempt of ours was committed before the connection was lost.
                return begun
            link = _find_row(connection, key, "link")
            own = (_OF_A_SIGN_IN.digest == _digest_key(key), _OF_A_SIGN_IN.kind == "link")
            used = connection.execute(delete(sign_ins).where(*own))
            # Of two who use it at once, one has removed it.
            if link is None or used.rowcount != 1:
                return None
            _forget_old(connection)
            _put_row(connection, session, "session", link.digest, seconds, link.made_by)
            return _find_row(connection, session, "session")

        row = await self._store.write(write)
        return None if row is None else SignedIn(session, StoredToken(row), row.session_ends)

    async def find_session(self, key: str) -> StoredToken | None:
        """Find whose session this is.

        Args:
            key: The key of the session, as it came with a request.

        Returns:
            The token of its owner as it is now, or None if the session or the token has ended.
        """
        row = await self._store.read(lambda connection: _find_row(connection, key, "session"))
        return None if row is None else StoredToken(row)

    async def had_session(self, key: str) -> bool:
        """Whether there is or was a session of this key; ended ones are known for a month.

        Args:
            key: The key of the session, as it came with a request.
        """
        own = (_OF_A_SIGN_IN.digest == _digest_key(key), _OF_A_SIGN_IN.kind == "session")
        query = select(sign_ins.c.digest).where(*own)
        row = await self._store.read(lambda connection: connection.execute(query).first())
        return row is not None

    async def end_session(self, key: str) -> None:
        """End a session; one that has ended already stays so.

        Args:
            key: The key of the session.
        """
        own = (_OF_A_SIGN_IN.digest == _digest_key(key), _OF_A_SIGN_IN.kind == "session")
        await self._store.write(lambda connection: connection.execute(delete(sign_ins).where(*own)))


def _find_row(connection: Connection, key: str, kind: str) -> Any:
    """The token of a link or session that works, or None."""
    columns = (_OF_A_SIGN_IN.expires_at.label("session_ends"), _OF_A_SIGN_IN.made_by)
    query = (
        select(access_tokens, *columns)
        .join(sign_ins, _OF_A_SIGN_IN.token == access_tokens.c.digest)
        .where(
            _OF_A_SIGN_IN.digest == _digest_key(key),
            _OF_A_SIGN_IN.kind == kind,
            _OF_A_SIGN_IN.expires_at > time.time(),
        )
    )
    row = connection.execute(query).first()
    # To a file a damaged time is later than any other, but such a row lets nobody in.
    return row if row is not None and StoredToken(row).state == "valid" else None


def _put_row(
    connection: Connection, key: str, kind: str, token: str, seconds: float, by: str | None
) -> None:
    now = time.time()
    digest = _digest_key(key)
    if connection.execute(select(sign_ins).where(_OF_A_SIGN_IN.digest == digest)).first() is None:
        row = {"digest": digest, "kind": kind, "token": token, "made_at": now, "made_by": by}
        connection.execute(insert(sign_ins).values({**row, "expires_at": now + seconds}))


def _forget_old(connection: Connection) -> None:
    """Remove what has not worked for a while; until then its owner is told from somebody else."""
    over = _OF_A_SIGN_IN.expires_at <= time.time() - _REMEMBERED_SECONDS
    connection.execute(delete(sign_ins).where(over))


def _digest_key(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
