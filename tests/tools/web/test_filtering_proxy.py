"""The proxy of the browser, spoken to by whoever finds it."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.openapi.api import Api
from wieldy.core.network.addresses import Reach
from wieldy.tools.web.filtering_proxy import FilteringProxy, ProxyPass

NO_PASS = b"HTTP/1.1 407 "
GET = "GET {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"


async def resolve(host: str, port: int) -> Sequence[str]:
    """Names that stand for the machine itself."""
    return ["127.0.0.1"]


@asynccontextmanager
async def proxy_at(reach: Reach) -> AsyncIterator[tuple[FilteringProxy, int]]:
    """A proxy that serves, and its port."""
    proxy = FilteringProxy(reach)
    port = await proxy.listen()
    try:
        yield proxy, port
    finally:
        await proxy.close()


def show(given: ProxyPass, name: str | None = None, secret: str | None = None) -> str:
    """The line that shows a pass."""
    words = f"{name or given.name}:{secret or given.secret}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(words).decode()}\r\n"


async def ask(port: int, *texts: str | bytes) -> bytes:
    """All that the proxy answers until it ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for text in texts:
            writer.write(text.encode() if isinstance(text, str) else text)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 120)
    finally:
        writer.close()


async def test_a_request_with_a_pass_is_passed_on_without_it(site: Api) -> None:
    site.answer("/whales", 200, "krill")
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        given = proxy.issue(10_000)
        fields = show(given) + "X-Own: 1\r\nConnection: keep-alive\r\n"
        answer = await ask(port, GET.format(url=f"{site.url}/whales?a=b", fields=fields))

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"krill")
    assert (site.last["path"], site.last["query"]) == ("/whales", "a=b")
    assert site.last["headers"]["x-own"] == "1"
    assert site.last["headers"]["connection"] == "close"
    assert not any(name.startswith("proxy") for name in site.last["headers"])


async def test_a_tunnel_carries_what_both_sides_say(site: Api) -> None:
    site.answer("/whales", 200, "krill")
    place = site.url.removeprefix("http://")
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        given = proxy.issue(10_000)
        answer = await ask(
            port,
            f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{show(given)}\r\n",
            "GET /whales HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        )

    assert b" 200 Connection established" in answer
    assert answer.endswith(b"krill")


@pytest.mark.parametrize(
    "fields",
    [
        "",
        "Proxy-Authorization: Basic eDp5\r\n",
        "Proxy-Authorization: Basic ???\r\n",
        "Proxy-Authorization: Basic\r\n",
        "Proxy-Authorization: Bearer x\r\n",
        "NAME_ONLY",
        "SECRET_ONLY",
        "REVOKED",
    ],
)
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
async def test_nobody_without_a_pass_is_served(site: Api, method: str, fields: str) -> None:
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        given, old = proxy.issue(10_000), proxy.issue(10_000)
        proxy.revoke(old)
        fields = {
            "NAME_ONLY": show(given, secret="x"),
            "SECRET_ONLY": show(given, name="x"),
            "REVOKED": show(old),
        }.get(fields, fields)
        url = site.url.removeprefix("http://") if method == "CONNECT" else site.url
        answer = await ask(port, f"{method} {url} HTTP/1.1\r\n{fields}\r\n")

    assert answer.startswith(NO_PASS)
    assert site.asked == []


@pytest.mark.parametrize(
    "place",
    [
        "127.0.0.1:PORT", "localhost:PORT", "2130706433:PORT", "0x7f.1:PORT", "127.1:PORT",
        "[::1]:PORT", "[::ffff:127.0.0.1]:PORT", "[64:ff9b::7f00:1]:PORT", "0:PORT", "0.0.0.0:PORT",
        "169.254.169.254:80", "10.0.0.1:80", "192.168.0.1:443", "[fe80::1]:80", "[fec0::1]:80",
        "rebinding.example:PORT", "LOCALHOST.:PORT", "x.internal:80",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
async def test_a_near_address_is_refused(site: Api, method: str, place: str) -> None:
    place = place.replace("PORT", site.url.rpartition(":")[2])
    async with proxy_at(Reach(resolve)) as (proxy, port):
        given = proxy.issue(10_000)
        url = place if method == "CONNECT" else f"http://{place}/"
        answer = await ask(port, f"{method} {url} HTTP/1.1\r\n{show(given)}\r\n")

        assert answer.startswith(b"HTTP/1.1 403 ")
        assert len(given.refused) == 1
    assert site.asked == []


@pytest.mark.parametrize(
    "text",
    [
        "GET / HTTP/1.1\r\nPASS\r\n",
        "GET //x/ HTTP/1.1\r\nPASS\r\n",
        "GET file:///etc/passwd HTTP/1.1\r\nPASS\r\n",
        "GET ftp://x/ HTTP/1.1\r\nPASS\r\n",
        "GET https://x/ HTTP/1.1\r\nPASS\r\n",
        "GET http:/// HTTP/1.1\r\nPASS\r\n",
        "GET http://x:y/ HTTP/1.1\r\nPASS\r\n",
        "CONNECT x HTTP/1.1\r\nPASS\r\n",
        "CONNECT :80 HTTP/1.1\r\nPASS\r\n",
        "CONNECT x:99999 HTTP/1.1\r\nPASS\r\n",
        "POST URL HTTP/1.1\r\nTransfer-Encoding: chunked\r\nPASS\r\n",
        "POST URL HTTP/1.1\r\nContent-Length: x\r\nPASS\r\n",
        "POST URL HTTP/1.1\r\nContent-Length: -1\r\nPASS\r\n",
        "nonsense\r\n\r\n",
        "\x00\xff\r\n\r\n",
        "GET URL HTTP/1.1\r\n" + "X: y\r\n" * 100_000,
    ],
    ids=lambda text: text[:40],
)
async def test_what_is_no_request_is_refused(site: Api, text: str) -> None:
    async with proxy_at(Reach(resolve, anywhere=True)) as (proxy, port):
        given = proxy.issue(10_000)
        text = text.replace("PASS", show(given)).replace("URL", site.url)
        try:
            answer = await ask(port, text)
        except ConnectionError:
            answer = b""

    assert answer[:10] in (b"", b"HTTP/1.1 4")
    assert site.asked == []


async def test_bytes_end_at_the_limit_of_the_pass(site: Api) -> None:
    site.answer("/large", 200, b"x" * 5_000_000)
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        given = proxy.issue(1_000_000)
        request = GET.format(url=f"{site.url}/large", fields=show(given))
        first = await ask(port, request)
        second = await ask(port, request)

    assert 500_000 < len(first) <= 1_000_000
    assert second.startswith(b"HTTP/1.1 503 ")
    assert len(site.asked) == 1


async def test_a_second_request_does_not_reach_the_first_host(site: Api) -> None:
    site.answer("/one", 200, "one")
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        given = proxy.issue(10_000)
        first = GET.format(url=f"{site.url}/one", fields=show(given))
        await ask(port, first + "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")

    assert not any(each["path"] == "/smuggled" for each in site.asked)


async def test_a_site_can_not_ask_for_the_pass(site: Api) -> None:
    site.answer("/", 407, "give it to me", Proxy_Authenticate="Basic realm=x")
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        answer = await ask(port, GET.format(url=f"{site.url}/", fields=show(proxy.issue(10_000))))

    assert answer.startswith(b"HTTP/1.1 502 ")


async def test_connections_end_with_their_pass(site: Api) -> None:
    place = site.url.removeprefix("http://")
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        given = proxy.issue(10_000)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT {place} HTTP/1.1\r\n{show(given)}\r\n".encode())
        assert b"200" in await reader.readline()

        proxy.revoke(given)

        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(100)
        writer.close()


async def test_a_site_that_is_not_there_is_a_bad_gateway() -> None:
    async with proxy_at(Reach(anywhere=True)) as (proxy, port):
        fields = show(proxy.issue(10_000))
        answer = await ask(port, GET.format(url="http://127.0.0.1:1/", fields=fields))

    assert answer.startswith(b"HTTP/1.1 502 ")
