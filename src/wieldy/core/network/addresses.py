"""Decide which addresses are near: this machine and private networks, however they are written.

Text from others (a document, a redirect, an address that a server names) must not lead our
requests to places that only we can reach. This module decides which places these are, from
a host as it is written and from the addresses that its name resolves to.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from pydantic_core import Url, ValidationError

from wieldy.core.errors import ServiceError

Address = IPv4Address | IPv6Address
# Resolves a host's name and a port to addresses, as text.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_NEAR_NAMES = (
    "localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan",
    "home.arpa", "ip6-localhost", "ip6-loopback",
)  # fmt: skip
_GLOBAL = ipaddress.IPv6Network("2000::/3")
# IPv6 networks whose addresses contain an IPv4 address, and its distance from the right in bits.
_EMBEDDING = (
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("64:ff9b:1::/48"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
# The prefix for translators of a network's own, and where an IPv4 address may begin in it, in bits
# from the left. The eight bits from 64 on are skipped (RFC 6052).
_TRANSLATED = ipaddress.IPv6Network("64:ff9b:1::/48")
_STARTS = (48, 56, 64)
# Networks for protocols, relays and examples, on which Python's versions disagree, and the
# public address at which Azure's machines find their own host.
_SET_ASIDE = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32"),
            *("2001::/23", "3fff::/20", "64:ff9b:1::/48"),
        ),
    )
)
# The middle of an ISATAP address, whose last part is an IPv4 address, in any network.
_ISATAP = (0x00005EFE, 0x02005EFE)


class Reach:
    """The addresses that connections may go to: every far one, and the near ones that are allowed.

    With `leads_on`, a host that the user chose and that turns out to be near may lead to other
    near hosts. Otherwise only hosts with the same addresses as the chosen one are reached.
    With `anywhere`, every near address is allowed.
    """

    def __init__(
        self, resolve: Resolve | None = None, leads_on: bool = False, anywhere: bool = False
    ) -> None:
        self._resolve = resolve or resolve_host
        self._anywhere = anywhere
        self._leads_on = leads_on
        self._own: dict[str, set[Address]] = {}

    def allow(self, host: str) -> None:
        """Allow a host that the user chose, which may be near."""
        self._own.setdefault(_plain_host(host), set())

    def is_own(self, host: str) -> bool:
        """Whether the user chose a host."""
        return self._anywhere or _plain_host(host) in self._own

    def is_near(self, host: str) -> bool:
        """Whether a host is near, as it is written or by the addresses found for it."""
        return is_near_host(host) or any(map(is_near_address, self._own.get(_plain_host(host), ())))

    async def find(self, host: str, port: int) -> list[str]:
        """The checked addresses to connect to; `ServiceError` if one of them is near."""
        spelled = read_address(host)
        found = [str(spelled)] if spelled is not None else await self._resolve(host, port)
        addresses = [ipaddress.ip_address(each) for each in found]
        own = self._own.get(_plain_host(host))
        if own is not None:
            own.update(addresses)
        elif not self._anywhere and (is_near_host(host) or any(map(is_near_address, addresses))):
            await self._check_same(host, port, addresses)
        return [str(each) for each in addresses]

    async def _check_same(self, host: str, port: int, addresses: list[Address]) -> None:
        for each, known in list(self._own.items()):
            if not known:
                with suppress(OSError):
                    await self.find(each, port)
        near = {a for known in self._own.values() for a in known if is_near_address(a)}
        same = addresses and all(a in near for a in addresses if is_near_address(a))
        if not (near if self._leads_on else same):
            raise near_error(host)


def near_error(host: str) -> ServiceError:
    """The error for a document or a server that would lead a request to a near host."""
    return ServiceError(
        f"{host} is on this machine or its network, where requests go only if you say so yourself"
    )


def is_near_host(host: str) -> bool:
    """Whether a host, as it is written, is this machine or in a network that is not public."""
    readings = list(read_spellings(host))
    if readings:
        return any(map(is_near_address, readings))
    name = _plain_host(host)
    return (
        not name
        or name.endswith(tuple(f".{each}" for each in _NEAR_NAMES))
        or (name in _NEAR_NAMES)
    )


def is_near_url(url: str) -> bool:
    """Whether the host of a URL is near, in either of the two standard readings of a URL."""
    try:
        hosts = [urlsplit(url).hostname or ""]
        hosts.append(Url(url).host or "")
    except (ValueError, ValidationError):
        return True
    return any(map(is_near_host, hosts))


def is_near_address(address: Address) -> bool:
    """Whether an address is not public, or contains an IPv4 address that is not."""
    if any(address in network for network in _SET_ASIDE):
        return True
    if isinstance(address, IPv4Address):
        return not address.is_global or address.is_multicast or address.is_reserved
    if any(map(is_near_address, embedded_addresses(address))):
        return True
    if any(address in network for network, _ in _EMBEDDING) and int(address) > 1:
        # Beyond the IPv4 address that it contains, nothing is near.
        return False
    return address not in _GLOBAL or not address.is_global or address.scope_id is not None


def embedded_addresses(address: Address | None) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address contains, in every form that somebody reads."""
    if not isinstance(address, IPv6Address) or int(address) <= 1:
        # `::` and `::1` contain none.
        return
    number = int(address)
    for network, shift in _EMBEDDING:
        if address in network:
            yield IPv4Address(number >> shift & 0xFFFFFFFF)
    if address in _TRANSLATED:
        digits = f"{number:0128b}"
        unskipped = digits[:64] + digits[72:]
        yield from (IPv4Address(int(unskipped[start : start + 32], 2)) for start in _STARTS)
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)
    yield from address.teredo or ()


def read_address(host: str) -> Address | None:
    """The address that a host spells, in any spelling; None for a name."""
    return next(read_spellings(host), None)


async def resolve_host(host: str, port: int) -> list[str]:
    """The addresses of a host, from the system's resolver."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host!r:.100} is no name of a host") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def read_spellings(host: str) -> Iterator[Address]:
    """The addresses that a host spells, as browsers, C and Python read it."""
    bare = host.strip("[]")
    with suppress(ValueError):
        yield ipaddress.ip_address(bare)
    with suppress(ValueError, ValidationError):
        # Decimal, octal, hexadecimal and short forms, and Unicode's digits and dots.
        yield ipaddress.ip_address((Url(f"http://{host}/").host or "").strip("[]"))
    with suppress(OSError, ValueError):
        yield IPv4Address(socket.inet_aton(bare.rstrip(".")))


def _plain_host(host: str) -> str:
    spelled = read_address(host)
    return str(spelled) if spelled is not None else host.rstrip(".").lower()
