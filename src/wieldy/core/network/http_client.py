"""Send requests over connections that live on a loop of their own.

Callers come from any loop, or from none; the connections stay on the loop on which they were
opened. No other code runs on that loop, so nothing can block it.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

import httpx2
from httpcore2 import AsyncNetworkBackend

from wieldy.core.errors import ServiceError
from wieldy.core.sync import LoopThread
from wieldy.core.task import time_limit
from wieldy.core.timestamps import read_retry_after

from .addresses import Reach, is_near_url
from .bounded_body import ENCODINGS, read_body
from .guarded_transport import GuardedTransport

_HEADERS = {"User-Agent": "wieldy", "Accept-Encoding": ENCODINGS}
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
_FETCH_SECONDS = 120.0
_CLOSE_SECONDS = 5.0
_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_SAFE = ("GET", "HEAD")
CheckTarget = Callable[[str], Awaitable[None]]


class HttpRequest:
    """A request. The `private` headers hold secrets, and are sent to this origin only."""

    __slots__ = ("content", "headers", "method", "private", "url")

    def __init__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        private: Mapping[str, str] | None = None,
    ) -> None:
        self.method = method
        self.url = url
        self.headers = dict(headers or {})
        self.content = content
        self.private = dict(private or {})


class HttpResponse:
    """An answer, with its body decoded; `url` is the address after all redirects."""

    __slots__ = ("content", "headers", "reason", "status", "url")

    def __init__(
        self, status: int, reason: str, headers: Mapping[str, str], content: bytes, url: str
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.content = content
        self.url = url

    @property
    def retry_after(self) -> float | None:
        """The seconds after which the other side asks to be tried again, if it says so."""
        return read_retry_after(self.headers.get("retry-after"))


class Client:
    """A pool of connections that callers on any loop share."""

    kind = "HTTP connections"

    def __init__(
        self,
        seconds: float | None = None,
        reach: Reach | None = None,
        backend: AsyncNetworkBackend | None = None,
    ) -> None:
        self.reach = reach or Reach()
        self._seconds = seconds or _READ_SECONDS
        self._backend = backend
        self._lock = threading.Lock()
        self._pool: _Pool | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What a worker process gets, which opens connections of its own."""
        return {**self.__dict__, "_lock": None, "_pool": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    async def send(
        self, request: HttpRequest, largest: int, check: CheckTarget | None = None
    ) -> HttpResponse:
        """The answer to a request, whatever its status; `ServiceError` if there is none.

        Before a redirect is followed, `check` gets its URL, and may raise a `ServiceError`.
        """
        pool = self._current_pool()
        return await pool.home.perform(pool.follow(request, largest, check))

    def _current_pool(self) -> "_Pool":
        with self._lock:
            if self._pool is None or self._pool.pid != os.getpid():
                # A forked child has its parent's memory, but not its threads.
                self._pool = _Pool(self._seconds, GuardedTransport(self.reach, self._backend))
            return self._pool

    async def notify(self, request: HttpRequest) -> HttpResponse:
        """Send a request of which only the answer's status and headers matter.

        No redirect is followed and the body is not read, whatever its size. `ServiceError` is
        raised if there is no answer.
        """
        pool = self._current_pool()
        return await pool.home.perform(pool.send(request, None))

    def allow(self, url: str) -> None:
        """Allow an address that the user chose, which may be on this machine or its network."""
        with suppress(httpx2.InvalidURL):
            self.reach.allow(httpx2.URL(url).raw_host.decode("ascii"))

    def is_near(self, url: str) -> bool:
        """Whether an address is on this machine or its network, as far as that is known."""
        with suppress(httpx2.InvalidURL):
            if self.reach.is_near(httpx2.URL(url).raw_host.decode("ascii")):
                return True
        return is_near_url(url)

    async def fetch(self, url: str, largest: int) -> HttpResponse:
        """The content of a URL; `ServiceError` if it can't be read."""
        request = HttpRequest("GET", url, {"Accept": "*/*"})
        try:
            async with time_limit(_FETCH_SECONDS):
                response = await self.send(request, largest)
        except TimeoutError:
            raise ServiceError(f"it did not come within {_FETCH_SECONDS:g} s") from None
        if response.status >= 300:
            raise ServiceError(
                f"{response.status} {response.reason}".strip(), status=response.status
            )
        return response

    @property
    def held(self) -> bool:
        """Whether there may be connections."""
        return self._pool is not None

    async def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and pool.pid == os.getpid():
            with suppress(TimeoutError):
                await asyncio.wait_for(pool.home.perform(pool.end()), _CLOSE_SECONDS)
            await asyncio.to_thread(pool.home.stop)


class _Pool:
    """A loop on a thread of its own, and the connections that were opened on it."""

    def __init__(self, seconds: float, transport: GuardedTransport) -> None:
        self.pid = os.getpid()
        self.home = LoopThread("wieldy-http")
        self._timeout = httpx2.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds))
        self._transport = transport
        self._http: httpx2.AsyncClient | None = None

    async def follow(
        self, request: HttpRequest, largest: int, check: CheckTarget | None
    ) -> HttpResponse:
        """The answer to a request and to the redirects that may be followed."""
        for _ in range(_MAX_REDIRECTS + 1):
            response = await self.send(request, largest)
            target = response.headers.get("location")
            if response.status not in _REDIRECTS or not target:
                return response
            request = _redirect_request(request, response.status, target)
            if check is not None:
                await check(request.url)
        raise ServiceError(f"redirected more than {_MAX_REDIRECTS} times")

    async def send(self, request: HttpRequest, largest: int | None) -> HttpResponse:
        """The answer to a request, without its body if no size is given."""
        if self._http is None:
            self._http = httpx2.AsyncClient(
                timeout=self._timeout, headers=_HEADERS, transport=self._transport
            )
        # Cookies of an answer must not be sent for the next caller.
        self._http.cookies.clear()
        try:
            return await _send_anew(self._http, request, largest)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise _unanswered_error(request, error) from None

    async def end(self) -> None:
        """End all running requests, so that nobody waits for a loop that has stopped."""
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._http is not None:
            with suppress(Exception):
                await self._http.aclose()


class _Progress:
    """How far a request got, as its connection tells."""

    __slots__ = ("answered", "connected")

    def __init__(self) -> None:
        self.connected = False
        self.answered = False

    async def note(self, name: str, facts: Mapping[str, object]) -> None:
        """Take what the HTTP library reports."""
        self.connected |= name == "connection.connect_tcp.started"
        self.answered |= name.endswith(".receive_response_headers.complete")


async def _send_anew(
    http: httpx2.AsyncClient, request: HttpRequest, largest: int | None
) -> HttpResponse:
    """Send a request, and again if the connection that was kept for it turns out to be closed.

    The closed connection is dropped, so there is an end to them.
    """
    while True:
        progress = _Progress()
        try:
            return await _send_once(http, request, largest, progress)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if progress.connected or progress.answered or request.method not in _SAFE:
                raise


async def _send_once(
    http: httpx2.AsyncClient, request: HttpRequest, largest: int | None, progress: _Progress
) -> HttpResponse:
    headers = {**request.headers, **request.private}
    async with http.stream(
        request.method,
        # The HTTP library logs this address. In a query there may be a key, so the query is
        # only in the target, which it sends and does not log.
        request.url.partition("?")[0],
        headers=[(name.encode("ascii"), value.encode("utf-8")) for name, value in headers.items()],
        content=request.content,
        extensions={"target": httpx2.URL(request.url).raw_path, "trace": progress.note},
    ) as answer:
        return HttpResponse(
            answer.status_code,
            answer.reason_phrase,
            {name.lower(): value for name, value in answer.headers.items()},
            b"" if largest is None else await read_body(answer, largest),
            request.url,
        )


def _redirect_request(request: HttpRequest, status: int, target: str) -> HttpRequest:
    """The request that a redirect leads to; another origin gets none of our secrets."""
    try:
        url = urljoin(request.url, target)
    except ValueError:
        url = ""
    same = url_origin(url) == url_origin(request.url)
    shown = url_origin(url) or "something that is no address"
    if not shown.startswith("http") or (request.url[:6] == "https:" and url[:6] != "https:"):
        raise ServiceError(f"redirected to {shown}, which is not followed")
    if request.method in _SAFE or status == 303:
        method = request.method if request.method in _SAFE else "GET"
        kept = request.headers if same else {"Accept": request.headers.get("Accept", "*/*")}
        kept = {name: value for name, value in kept.items() if name.lower() != "content-type"}
        return HttpRequest(method, url, kept, None, request.private if same else None)
    if status in (307, 308) and same:
        return HttpRequest(request.method, url, request.headers, request.content, request.private)
    raise ServiceError(
        f"redirected with {status} to {shown}, which is not followed for {request.method}",
        status=status,
    )


def url_origin(url: str) -> str:
    """Scheme, host and port in one spelling; empty if the URL has none or can't be read."""
    try:
        # The URL is parsed by the library that sends the request, so that both use the same host.
        parts = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        return ""
    if not parts.host:
        return ""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{parts.host}:{port}"


def _unanswered_error(request: HttpRequest, error: Exception) -> ServiceError:
    """The error of a request, without its URL, which may contain a key."""
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return ServiceError("its address is not one that can be asked over HTTP")
    kind = "timed out" if isinstance(error, httpx2.TimeoutException) else "failed"
    host = url_origin(request.url)
    words = str(error) or type(error).__name__
    return ServiceError(f"the request to {host} {kind}: {words}", temporary=True)
