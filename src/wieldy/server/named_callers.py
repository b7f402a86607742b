"""Give callers what a gateway's file says about them by name."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wieldy.core.choices import Role
from wieldy.core.permission.deciders import DECIDING
from wieldy.mcp.serving.callers import (
    Identifier,
    Identity,
    OAuthIdentifier,
    SessionIdentifier,
    SessionMemory,
)
from wieldy.store.access_tokens import ISSUED

from .config.gateway_file import CallerTable
from .known_callers import KnownCallers


class NamedCallers:
    """Identifies callers as another does, and changes the roles and views of those it knows."""

    def __init__(
        self,
        identifier: Identifier,
        callers: Mapping[str, CallerTable],
        known: KnownCallers | None = None,
    ) -> None:
        self._identifier = identifier
        self._callers = callers
        self._known = known
        if isinstance(identifier, OAuthIdentifier):
            # Clients are told where to get a token, as by the issuer itself.
            self.metadata = identifier.metadata
        if isinstance(identifier, SessionIdentifier):
            # Only identifiers with sessions have this method: nobody else is offered to sign in.
            self.identify_session = self._identify_session
        if isinstance(identifier, SessionMemory):
            self.had_session = identifier.had_session

    async def identify(self, token: str) -> Identity | None:
        """Find the owner of a token; None if it is not known here."""
        return self._with_table(await self._identifier.identify(token))

    async def _identify_session(self, key: str) -> Identity | None:
        """Find the owner of a session in a browser; None if it is not known here."""
        assert isinstance(self._identifier, SessionIdentifier)
        return self._with_table(await self._identifier.identify_session(key))

    def _with_table(self, identity: Identity | None) -> Identity | None:
        if identity is not None and self._known is not None:
            self._known.note(identity)
        table = None if identity is None else self._callers.get(identity.name)
        if identity is None or table is None:
            return identity
        roles = identity.roles if table.roles is None else _allowed_roles(identity, table.roles)
        return replace(identity, roles=roles, view=table.view or identity.view)


def _allowed_roles(identity: Identity, given: Iterable[Role]) -> frozenset[Role]:
    """The roles that the file gives somebody.

    Who may decide is in a token of ours itself: anybody makes one of any name that only calls. The
    names of an issuer are its own.
    """
    if identity.name.startswith(ISSUED) or "administer" in identity.roles:
        return frozenset(given)
    return frozenset(given) - (DECIDING - identity.roles)
