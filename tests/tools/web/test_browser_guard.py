"""Whatever a page tries in the browser, it reaches no near address that was not allowed."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from tests.openapi.api import Api, serving
from tests.tools.web.browser_pages import browsers, put, script_page
from wieldy import Toolbox
from wieldy.core.network.addresses import Reach
from wieldy.core.network.http_client import Client
from wieldy.tools.web.page_reader import FetchedPage, PageReader

# The site is at 127.0.0.1, which is allowed to it; what it must not reach is at another address.
NEAR = "127.0.0.2"

# The ways in which one page tries to reach NEAR_URL, by its HTML and by its scripts.
BODIES = {
    "iframe": '<iframe src="NEAR_URL"></iframe>',
    "script": '<script src="NEAR_URL"></script>',
    "style": '<link rel="stylesheet" href="NEAR_URL">',
    "object": '<object data="NEAR_URL"></object>',
    "redirect": '<script src="/moved"></script>',
    "preconnect": '<link rel="preconnect" href="NEAR_TLS">',
    "name lookup": '<link rel="dns-prefetch" href="NEAR_TLS">',
    "picture": '<img src="NEAR_URL">',
}
SCRIPTS = {
    "fetch": "fetch('NEAR_URL', {mode: 'no-cors'})",
    "post": "fetch('NEAR_URL', {mode: 'no-cors', method: 'POST', body: 'x'})",
    "xhr": "const x = new XMLHttpRequest(); x.open('GET', 'NEAR_URL'); x.send()",
    "beacon": "navigator.sendBeacon('NEAR_URL', 'x')",
    "events": "new EventSource('NEAR_URL')",
    "websocket": "new WebSocket('NEAR_URL'.replace('http', 'ws'))",
    "secure websocket": "new WebSocket('NEAR_TLS'.replace('https', 'wss'))",
    "tls": "fetch('NEAR_TLS', {mode: 'no-cors'})",
    "worker": "const w = `fetch('NEAR_URL', {mode: 'no-cors'})`;"
    "new Worker(URL.createObjectURL(new Blob([w])))",
    "service worker": "navigator.serviceWorker.register('NEAR_URL')",
    "name": "fetch('NEAR_URL'.replace('127.0.0.2', 'rebinding.example'), {mode: 'no-cors'})",
    "number": "fetch('NEAR_URL'.replace('127.0.0.2', '2130706434'), {mode: 'no-cors'})",
    "mapped": "fetch('NEAR_URL'.replace('127.0.0.2', '[::ffff:127.0.0.2]'), {mode: 'no-cors'})",
}
# Each of these leaves its page, which therefore tries nothing else.
LEAVING = {
    "refresh": '<meta http-equiv="refresh" content="0;url=NEAR_URL">',
    "location": "<script>location = 'NEAR_URL'</script>",
    "form": '<form action="NEAR_URL"></form><script>document.forms[0].submit()</script>',
}
WAYS = (*BODIES, *SCRIPTS, *LEAVING)
# The browser is so set up that a page does not do these at all.
NEVER = ("preconnect", "name lookup", "picture", "service worker")
FILL = "app.innerHTML = '<p>These words were made by a page that tries to reach what is near.</p>'"


class Tries:
    """What came of all ways, tried in one browser: who was reached, and what was read."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.pages: dict[str, FetchedPage] = {}
        self._near: dict[str, str] = {}

    async def listen(self, name: str) -> asyncio.Server:
        """A server for one way, which notes that somebody came, and sends them off."""

        def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.reached.add(name)
            writer.close()

        server = await asyncio.start_server(note, NEAR, 0)
        self._near[name] = f"{NEAR}:{server.sockets[0].getsockname()[1]}/"
        return server

    def fill(self, name: str, text: str) -> str:
        """A way with the address that it tries to reach."""
        near = self._near[name]
        return text.replace("NEAR_URL", f"http://{near}").replace("NEAR_TLS", f"https://{near}")

    def write_pages(self) -> dict[str, str]:
        """A page that tries many ways, and one for each that leaves its page."""
        bodies = "".join(self.fill(name, body) for name, body in BODIES.items())
        scripts = (
            f"try {{ {self.fill(name, each)} }} catch {{}}" for name, each in SCRIPTS.items()
        )
        pages = {"staying": script_page(f"{FILL};{';'.join(scripts)}", bodies)}
        for name, body in LEAVING.items():
            pages[name] = script_page(FILL) + self.fill(name, body)
        return pages

    async def visit(self, site: Api, reach: Reach) -> None:
        """Open every page in a browser that may go where `reach` says."""
        reader = PageReader(timeout=120, browser=True, client=Client(120, reach))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(reader.close)
            for name in WAYS:
                stack.callback((await self.listen(name)).close)
            site.answer("/moved", 302, Location=self.fill("redirect", "NEAR_URL"))
            urls = {name: put(site, f"/{name}", page) for name, page in self.write_pages().items()}
            found = await asyncio.gather(*(reader.fetch(url, 5_000) for url in urls.values()))
            self.pages = dict(zip(urls, found, strict=True))


async def resolve(host: str, port: int) -> Sequence[str]:
    """The names of somebody who has a domain stand for our own machine."""
    return [NEAR]


@pytest.fixture(scope="module")
def guarded() -> Tries:
    reach = Reach(resolve)
    reach.allow("127.0.0.1")
    tries = Tries()
    with serving() as site:
        asyncio.run(tries.visit(site, reach))
    return tries


@pytest.fixture(scope="module")
def unguarded() -> Tries:
    tries = Tries()
    with serving() as site:
        asyncio.run(tries.visit(site, Reach(resolve, anywhere=True)))
    return tries


@pytest.mark.parametrize("name", WAYS)
def test_no_way_leads_a_page_to_a_near_address(name: str, guarded: Tries, unguarded: Tries) -> None:
    assert (name in unguarded.reached) is (name not in NEVER)
    assert name not in guarded.reached


@pytest.mark.parametrize("name", LEAVING)
def test_a_page_that_leads_to_a_near_address_says_so(name: str, guarded: Tries) -> None:
    assert "on this machine or its network" in guarded.pages[name].error


def test_the_rest_of_a_page_is_read_all_the_same(guarded: Tries) -> None:
    page = guarded.pages["staying"].page

    assert page is not None
    assert "words were made" in page.text


LOCAL = {
    "inside": "fetch('LOCAL').then(r => r.text()).then(t => { app.append(t) });"
    "const f = document.createElement('iframe'); f.src = 'LOCAL'; app.append(f);"
    "setTimeout(() => app.append(f.contentDocument.body.innerText), 300); window.open('LOCAL')",
    "location": "location = 'LOCAL'",
    "source": "location = 'view-source:LOCAL'",
    "redirect": "location = '/moved'",
}


async def test_no_file_of_this_machine_is_read(site: Api, browser_box: Toolbox) -> None:
    site.answer("/moved", 302, Location="file:///etc/passwd")
    urls = [
        put(
            site, f"/{name}", script_page(f"{FILL};{script}".replace("LOCAL", "file:///etc/passwd"))
        )
        for name, script in LOCAL.items()
    ]
    outcome = await browser_box.call("web_fetch", {"url_list": urls, "max_concurrent": 5})

    assert "words were made" in outcome.text
    assert "root:" not in outcome.text


async def test_no_datagram_leaves_the_browser(site: Api, browser_box: Toolbox) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as near:
        near.bind((NEAR, 0))
        near.setblocking(False)
        server = f"stun:{NEAR}:{near.getsockname()[1]}"
        script = (
            f"const c = new RTCPeerConnection({{iceServers: [{{urls: '{server}'}}]}});"
            "c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o));"
            "c.onicecandidate = e => app.append(e.candidate ? e.candidate.candidate : 'the end');"
            "setTimeout(() => { app.append('Everything that can be gathered was') }, 1000)"
        )
        outcome = await browser_box.call(
            "web_fetch", {"url_list": [put(site, "/", script_page(script))]}
        )

        assert "can be gathered was" in outcome.text
        with pytest.raises(BlockingIOError):
            near.recv(100)


async def test_nobody_else_finds_the_proxy_of_the_browser(site: Api, browser_box: Toolbox) -> None:
    """The browser may go anywhere here, and still its proxy serves nobody without a pass."""
    before = await browser_box.call("web_fetch", {"url_list": [put(site, "/", script_page(FILL))]})
    assert before.ok
    ports = {
        int(word.rpartition(":")[2])
        for words in browsers().values()
        for word in words
        if word.startswith("--proxy-server=")
    }
    for port in ports:
        script = (
            f"fetch('http://127.0.0.1:{port}/{site.url}/secret', {{mode: 'no-cors'}})"
            ".then(r => r.text()).then(t => app.append(t))"
        )
        url = put(site, "/", script_page(f"{FILL};{script}"))
        await browser_box.call("web_fetch", {"url_list": [url]})
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()

    assert ports
    assert not any(each["path"] == "/secret" for each in site.asked)
