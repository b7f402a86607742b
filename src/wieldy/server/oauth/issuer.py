"""Check the tokens of an OAuth issuer, and say who their owners are here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from wieldy.core.choices import Role
from wieldy.mcp.serving.callers import WORD_CLAIMS, Identity, ResourceMetadata
from wieldy.store.access_tokens import ISSUED

from .signing_keys import SigningKeys

# Only keys that the issuer alone has: with a shared one, whoever checks could also sign.
_ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
_LEEWAY_SECONDS = 30
_MAX_TOKEN = 16 * 1024
_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class ClaimGrant:
    """What the owner of a token may do and see, if a claim of it fits.

    Attributes:
        claim: The name of the claim, such as `groups` or `scope`.
        has: What the claim is, or has among its values or words.
        roles: The roles.
        view: The name of the view, or None for the default.
    """

    claim: str
    has: str
    roles: frozenset[Role]
    view: str | None = None

    def fits(self, claims: Mapping[str, Any]) -> bool:
        """Whether a token's claims fit."""
        value = claims.get(self.claim)
        values = value.split() if isinstance(value, str) and self.claim in WORD_CLAIMS else value
        return self.has in values if isinstance(values, list) else self.has == values


class OAuthIssuer:
    """Knows the tokens of one issuer that are meant for this server.

    Args:
        issuer: The issuer, exactly as its tokens spell it.
        audience: Whom the tokens are for: the address of this server's MCP endpoint.
        grants: What owners may do; the first that fits counts. Without any, all may call.
        name_claim: The claim with the owner's name.
        jwks_uri: Where the keys are; by default where the issuer says.
    """

    def __init__(
        self,
        issuer: str,
        audience: str,
        grants: Sequence[ClaimGrant] = (),
        name_claim: str = "sub",
        jwks_uri: str | None = None,
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._grants = tuple(grants)
        self._name_claim = name_claim
        self._keys = SigningKeys(issuer, jwks_uri)
        self.metadata = ResourceMetadata(audience, issuer)

    async def identify(self, token: str) -> Identity | None:
        """Find the owner of a token; None if it is not this issuer's, not for us, or not valid.

        Raises:
            IssuerUnavailable: The issuer's keys can't be read.
        """
        claims = await self._read_claims(token)
        name = None if claims is None else claims.get(self._name_claim)
        if claims is None or not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
            return None
        if not self._grants:
            return Identity(ISSUED + name, frozenset(("call",)), claims=claims)
        for number, grant in enumerate(self._grants, 1):
            if grant.fits(claims):
                # The grants before it had a say too, because they did not fit.
                chosen_by = tuple(dict.fromkeys(each.claim for each in self._grants[:number]))
                return Identity(ISSUED + name, grant.roles, grant.view, claims, chosen_by)
        return Identity(ISSUED + name, frozenset(), claims=claims)

    async def close(self) -> None:
        """Close the connections to the issuer."""
        await self._keys.close()

    async def _read_claims(self, token: str) -> dict[str, Any] | None:
        if len(token) > _MAX_TOKEN or token.count(".") != 2:
            return None
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if algorithm not in _ALGORITHMS or not isinstance(key_id, str | None):
                return None
            key = await self._keys.find(key_id)
            if key is None or (key.algorithm not in (None, algorithm)):
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            # PyJWT reads the JSON in a token without a bound.
            return None
        return claims
