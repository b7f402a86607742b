"""The tokens with which people and programs come in: only their digests are kept."""

import hashlib
import secrets
import time
from collections.abc import Iterable
from typing import Any, get_args

from sqlalchemy import Connection, delete, insert, or_, select, update

from wieldy.core.bounded_json import dump_json, parse_json
from wieldy.core.call import check_id
from wieldy.core.choices import Role
from wieldy.core.errors import NotKept, WieldyError
from wieldy.core.names import shorten_name

from .databases.damaged_values import show_value
from .databases.tables import access_tokens
from .row_values import refuse_damaged
from .store_access import StoreAccess

# Scanners of code and logs recognise a leaked token by its beginning.
_PREFIX = "wieldy_"
_RANDOM_BYTES = 32
# The names of people of an issuer begin with this, and no token of ours may pass for theirs.
ISSUED = "oauth:"
_OF_A_TOKEN = access_tokens.c
ROLES: tuple[Role, ...] = get_args(Role)


class TokenTaken(WieldyError, ValueError):
    """Somebody of this name has a token that works; nothing was changed.

    Attributes:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{shorten_name(name)} has a token that works. Revoke it first, or use another name."
        )
        self.name = name


class StoredToken:
    """The facts about a token: its owner and what it allows, but not the token itself.

    Attributes:
        name: Whose token it is. Calls that come with it have this name as their caller.
        roles: What its owner may do: `call`, `approve` and `administer`.
        view: The name of the view that its owner sees, or None for the default.
        created_at: When it was made, in seconds since the epoch.
        created_by: Who made it.
        expires_at: When it stops working, or None.
        revoked_at: When it was revoked, or None.
        error: Why its row can't be read, so that it lets nobody in, or None.
    """

    __slots__ = (
        "created_at",
        "created_by",
        "error",
        "expires_at",
        "name",
        "revoked_at",
        "roles",
        "view",
    )

    def __init__(self, row: Any) -> None:
        self.name: str = show_value(row.name)
        self.roles = _read_roles(row.roles)
        self.view: str | None = show_value(row.view)
        self.created_at: float = row.created_at
        self.created_by: str | None = show_value(row.created_by)
        self.expires_at: float | None = row.expires_at
        self.revoked_at: float | None = row.revoked_at
        self.error: str | None = None
        try:
            refuse_damaged(row._mapping)
        except ValueError as error:
            self.error = str(error)

    @property
    def state(self) -> str:
        """Whether it is `valid`, `expired`, `revoked`, or `unreadable` in a damaged store."""
        if self.error is not None:
            return "unreadable"
        if self.revoked_at is not None:
            return "revoked"
        expired = self.expires_at is not None and time.time() >= self.expires_at
        return "expired" if expired else "valid"

    def to_dict(self) -> dict[str, Any]:
        """Convert it for programs.

        Returns:
            Plain JSON, with times in seconds since the epoch.
        """
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {**facts, "roles": sorted(self.roles), "state": self.state}

    def __repr__(self) -> str:
        return f"StoredToken({self.name!r}, {sorted(self.roles)}, {self.state})"


class StoredTokens:
    """The tokens of a store, one for each name."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def make(
        self,
        name: str,
        roles: Iterable[Role] = ("call",),
        *,
        view: str | None = None,
        expires_at: float | None = None,
        by: str | None = None,
    ) -> str:
        """Make a token. A name whose token was revoked or has expired can be used again.

        Args:
            name: Whose token it is.
            roles: What its owner may do: `call`, `approve` and `administer`.
            view: The name of the view that its owner sees.
            expires_at: When it stops working, in seconds since the epoch.
            by: Who makes it, for the record.

        Returns:
            The token. It is not kept, and can't be shown again.

        Raises:
            TokenTaken: The name has a token that works.
            ValueError: The name or a role can't be used.

        Example:
            `token = await box.store.tokens.make("ann", ["call", "approve"])`
        """
        check_id("the name of a token", name)
        if name.startswith(ISSUED):
            raise ValueError(f"the name of a token can't begin with {ISSUED}, like an issuer's")
        if view is not None:
            check_id("the name of a view", view)
        token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        row = {
            "name": name,
            "digest": _digest_token(token),
            "roles": dump_json(_check_roles(roles)),
            "view": view,
            "created_at": time.time(),
            "created_by": by,
            "expires_at": expires_at,
        }
        await self._store.write(lambda connection: _put_token(connection, row))
        return token

    async def revoke(self, name: str) -> StoredToken:
        """Let a token be refused from now on.

        Args:
            name: Whose token it is.

        Returns:
            The token as it is now.

        Raises:
            NotKept: The store has no token of this name.
        """

        def write(connection: Connection) -> Any:
            own = _OF_A_TOKEN.name == name
            ended = update(access_tokens).where(own, _OF_A_TOKEN.revoked_at.is_(None))
            connection.execute(ended.values(revoked_at=time.time()))
            return connection.execute(select(access_tokens).where(own)).first()

        row = await self._store.write(write)
        if row is None:
            raise NotKept("token", name)
        return StoredToken(row)

    async def list(self) -> list[StoredToken]:
        """List the tokens by name, also those that no longer work.

        Returns:
            What is known of each.
        """
        query = select(access_tokens).order_by(_OF_A_TOKEN.name)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [StoredToken(row) for row in rows]

    async def find(self, token: str) -> StoredToken | None:
        """Find whose token this is.

        Args:
            token: The token, as it came with a request.

        Returns:
            What is known of it, or None if it is unknown, expired or revoked.
        """
        # Looking a digest up tells nobody, by its time, how much of a guessed token is right.
        query = select(access_tokens).where(_OF_A_TOKEN.digest == _digest_token(token))
        row = await self._store.read(lambda connection: connection.execute(query).first())
        found = None if row is None else StoredToken(row)
        return found if found is not None and found.state == "valid" else None


def _put_token(connection: Connection, row: dict[str, Any]) -> None:
    """Insert a token in place of one of its name that no longer works."""
    over = or_(_OF_A_TOKEN.revoked_at.is_not(None), _OF_A_TOKEN.expires_at <= row["created_at"])
    connection.execute(delete(access_tokens).where(_OF_A_TOKEN.name == row["name"], over))
    there = connection.execute(select(access_tokens).where(_OF_A_TOKEN.name == row["name"])).first()
    if there is not None:
        # An earlier attempt of ours may have been committed before the connection was lost.
        if there.digest == row["digest"]:
            return
        raise TokenTaken(row["name"])
    connection.execute(insert(access_tokens).values(row))


def _read_roles(stored: str) -> frozenset[Role]:
    """The roles of a token; none if they can't be read."""
    try:
        return frozenset(parse_json(stored)).intersection(ROLES)
    except (ValueError, TypeError):
        return frozenset()


def _check_roles(roles: Iterable[str]) -> list[str]:
    given = [roles] if isinstance(roles, str) else list(roles)
    unknown = [role for role in given if role not in ROLES]
    if unknown or not given:
        known = ", ".join(ROLES)
        raise ValueError(f"The roles of a token are some of {known}, not {unknown or 'none'}.")
    return sorted(set(given))


def _digest_token(token: str) -> str:
    # The token is random and long, so that a slow digest would protect nothing more.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
