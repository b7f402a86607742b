"""HTTP that connects only to allowed addresses: a name is resolved once, and the result is used.

If a name were resolved twice, once to check it and once to connect, the two answers could
differ.
"""

from collections.abc import Iterable
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2

from wieldy.core.task import time_limit

from .addresses import Reach, is_near_host, near_error
from .server_trust import trusted_context

# One of several addresses must not use up the time for all of them.
_SECONDS_FOR_ONE = 3.0


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport for clients whose requests may be led by text from others.

    Proxies that the environment names are the user's own choice, and are used. The proxy then
    resolves the host's name, and only the host as it is written is checked here.
    """

    def __init__(self, reach: Reach, backend: httpcore2.AsyncNetworkBackend | None = None) -> None:
        trusted = trusted_context()
        super().__init__(verify=trusted)
        self._reach = reach
        limits = httpx2.Limits(max_connections=100, max_keepalive_connections=20)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trusted,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=GuardedBackend(reach, backend or httpcore2.AnyIOBackend()),
        )
        self._named = getproxies()
        self._proxies: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, directly or through a proxy."""
        proxy = self._proxy_for(request.url)
        if proxy is None:
            return await super().handle_async_request(request)
        await self._check_reach(request.url)
        return await proxy.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        await super().aclose()
        for each in self._proxies.values():
            await each.aclose()

    def _proxy_for(self, url: httpx2.URL) -> httpx2.AsyncHTTPTransport | None:
        named = self._named.get(url.scheme) or self._named.get("all")
        if not named or proxy_bypass(url.host):
            return None
        if named not in self._proxies:
            address = named if "://" in named else f"http://{named}"
            self._proxies[named] = httpx2.AsyncHTTPTransport(
                verify=trusted_context(), proxy=address
            )
        return self._proxies[named]

    async def _check_reach(self, url: httpx2.URL) -> None:
        host = url.raw_host.decode("ascii")
        try:
            await self._reach.find(host, url.port or 443)
        except OSError:
            # The name can't be resolved here; the proxy may know it.
            if is_near_host(host) and not self._reach.is_own(host):
                raise near_error(host) from None


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that were checked, and to nothing else."""

    def __init__(self, reach: Reach, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._reach = reach
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a host by one of its checked addresses."""
        try:
            async with time_limit(timeout):
                addresses = await self._reach.find(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host} was not found in time") from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        for number, address in enumerate(addresses, start=1):
            last = number == len(addresses)
            patience = timeout if last else min(timeout or _SECONDS_FOR_ONE, _SECONDS_FOR_ONE)
            try:
                return await self._inner.connect_tcp(
                    address, port, patience, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if last:
                    raise
        raise httpcore2.ConnectError(f"{host} has no address")

    async def sleep(self, seconds: float) -> None:
        """Wait between tries."""
        await self._inner.sleep(seconds)
