"""The keys with which an issuer signs its tokens, fetched and kept for a while."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jwt

from wieldy.core.bounded_json import parse_json
from wieldy.core.errors import ServiceError, WieldyError
from wieldy.core.network.http_client import Client

# Keys are fetched again when they are this old.
_FRESH_SECONDS = 600.0
# Tokens with unknown keys make us fetch at most this often, with keys at hand and without.
_RETRY_SECONDS = 30.0
_FAILED_SECONDS = 2.0
_MAX_SIZE = 1024 * 1024
_MAX_KEYS = 100
# The paths at which an issuer describes itself: that of OpenID Connect, and that of OAuth.
_DESCRIPTIONS = ("openid-configuration", "oauth-authorization-server")


class IssuerUnavailable(WieldyError):
    """The keys of an issuer can't be read now, so that its tokens can't be checked."""


class SigningKey(NamedTuple):
    """A public key, and the only algorithm that it is for, if the issuer says one."""

    key: Any
    algorithm: str | None


class SigningKeys:
    """The public keys of one issuer, by their ids."""

    def __init__(self, issuer: str, jwks_uri: str | None = None) -> None:
        self._issuer = issuer
        self._jwks_uri = jwks_uri
        self._client = Client(seconds=10.0)
        self._client.allow(issuer)
        if jwks_uri is not None:
            self._client.allow(jwks_uri)
        self._keys: Mapping[str | None, SigningKey] = {}
        self._failure = "nobody has asked for them"
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, key_id: str | None) -> SigningKey | None:
        """The key of this id; None if the issuer has none.

        Raises:
            IssuerUnavailable: No keys are known, and the issuer can't be reached.
        """
        if not self._is_known(key_id):
            async with self._lock:
                # Somebody else may have fetched them meanwhile.
                if not self._is_known(key_id) and self._may_ask():
                    await self._renew()
        if not self._keys:
            raise IssuerUnavailable(f"The keys of {self._issuer} can't be read: {self._failure}")
        return self._keys.get(key_id)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _is_known(self, key_id: str | None) -> bool:
        return key_id in self._keys and time.monotonic() - self._fetched_at < _FRESH_SECONDS

    def _may_ask(self) -> bool:
        """Whether enough time has passed: anybody can send tokens with keys that nobody has."""
        pause = _RETRY_SECONDS if self._keys else _FAILED_SECONDS
        return time.monotonic() - self._tried_at >= pause

    async def _renew(self) -> None:
        """Fetch the keys. If that fails, those of a while ago are better than none."""
        self._tried_at = time.monotonic()
        try:
            self._keys, self._fetched_at = await self._fetch_keys(), time.monotonic()
            self._failure = "it has none"
        except (ServiceError, ValueError) as error:
            self._failure = str(error)

    async def _fetch_keys(self) -> Mapping[str | None, SigningKey]:
        address = self._jwks_uri or await self._find_address()
        listed = (await self._fetch_object(address)).get("keys")
        if not isinstance(listed, list):
            raise ValueError(f"{address} has no list of keys")
        found: dict[str | None, SigningKey] = {}
        for each in listed[:_MAX_KEYS]:
            if not isinstance(each, dict) or each.get("use") not in (None, "sig"):
                continue
            try:
                found[each.get("kid")] = SigningKey(jwt.PyJWK(each).key, each.get("alg"))
            except (jwt.PyJWTError, ValueError, TypeError):
                # Issuers may have keys of kinds that nobody here can use.
                continue
        return found

    async def _find_address(self) -> str:
        """Find the address of the keys in the issuer's description of itself."""
        failures = []
        for address in _find_descriptions(self._issuer):
            try:
                described = await self._fetch_object(address)
            except (ServiceError, ValueError) as error:
                failures.append(f"{address}: {error}")
                continue
            # A description of somebody else must not bring other keys.
            if described.get("issuer") != self._issuer:
                raise ValueError(f"{address} describes the issuer {described.get('issuer')!r:.200}")
            keys = described.get("jwks_uri")
            if not isinstance(keys, str):
                raise ValueError(f"{address} names no jwks_uri")
            return keys
        raise ValueError(f"it does not describe itself ({'; '.join(failures)})")

    async def _fetch_object(self, address: str) -> dict[str, Any]:
        response = await self._client.fetch(address, _MAX_SIZE)
        found = parse_json(response.content)
        if not isinstance(found, dict):
            raise ValueError(f"{address} is no JSON object")
        return found


def _find_descriptions(issuer: str) -> list[str]:
    """The addresses where an issuer may describe itself."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = [f"{origin}/.well-known/{name}{path}" for name in _DESCRIPTIONS]
    return list(dict.fromkeys([f"{origin}{path}/.well-known/{_DESCRIPTIONS[0]}", *inserted]))
