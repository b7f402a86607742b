"""The ways in which a page tries to reach what is near, and a program that tries them all."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack, suppress

from tests.openapi.api import Api, serving
from tests.tools.web.browser_pages import browsers, put, script_page
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
    "icon": '<link rel="icon" href="NEAR_URL">',
    "prefetch": '<link rel="prefetch" href="NEAR_URL">',
    "module": '<link rel="modulepreload" href="NEAR_URL">',
    "prerendering": '<script type="speculationrules">'
    '{"prerender": [{"source": "list", "urls": ["NEAR_URL"]}]}</script>',
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
    "shared worker": "const s = `fetch('NEAR_URL', {mode: 'no-cors'})`;"
    "new SharedWorker(URL.createObjectURL(new Blob([s])))",
    "ping": "const a = document.createElement('a'); a.href = '#there'; a.ping = 'NEAR_URL';"
    "app.append(a); a.click()",
    "web transport": "new WebTransport('NEAR_TLS')",
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
# A page that asks a STUN server, over UDP, for its own address.
STUN = (
    "const c = new RTCPeerConnection({iceServers: [{urls: 'stun:%s'}]});"
    "c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o));"
    "c.onicecandidate = e => app.append(e.candidate ? e.candidate.candidate : 'the end');"
    "setTimeout(() => { app.append('Everything that can be gathered was.') }, 1000)"
)
WAYS = (*BODIES, *SCRIPTS, *LEAVING)
# The browser is so set up that a page does not do these at all.
NEVER = (
    "preconnect",
    "name lookup",
    "picture",
    "icon",
    "prerendering",
    "service worker",
    "web transport",
)
FILL = "app.innerHTML = '<p>These words were made by a page that tries to reach what is near.</p>'"


class Tries:
    """What came of all ways, tried in one browser: who was reached, and what was read."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.pages: dict[str, FetchedPage] = {}
        # Whether the browser had a network of its own.
        self.alone = False
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
        pages["datagram"] = script_page(STUN % self._near["datagram"])
        for name, body in LEAVING.items():
            pages[name] = script_page(FILL) + self.fill(name, body)
        return pages

    async def visit(self, site: Api, reach: Reach, names: Collection[str] | None) -> None:
        """Open some pages, or all, in a browser that may go where `reach` says."""
        reader = PageReader(timeout=120, browser=True, client=Client(120, reach))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(reader.close)
            datagrams = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            datagrams.bind((NEAR, 0))
            datagrams.setblocking(False)
            self._near["datagram"] = f"{NEAR}:{datagrams.getsockname()[1]}"
            for name in WAYS:
                stack.callback((await self.listen(name)).close)
            site.answer("/moved", 302, Location=self.fill("redirect", "NEAR_URL"))
            pages = self.write_pages()
            urls = {name: put(site, f"/{name}", pages[name]) for name in names or pages}
            found = await asyncio.gather(*(reader.fetch(url, 5_000) for url in urls.values()))
            self.pages = dict(zip(urls, found, strict=True))
            with suppress(BlockingIOError):
                datagrams.recv(100)
                self.reached.add("datagram")
            here = os.readlink("/proc/self/ns/net")
            self.alone = all(os.readlink(f"/proc/{pid}/ns/net") != here for pid in browsers())


async def resolve(host: str, port: int) -> Sequence[str]:
    """The names of somebody who has a domain stand for our own machine."""
    return [NEAR]


def try_all(reach: Reach, names: Collection[str] | None = None) -> Tries:
    """All ways, or those of some pages, tried by a site at 127.0.0.1, which may be reached."""
    reach.allow("127.0.0.1")
    tries = Tries()
    with serving() as site:
        asyncio.run(tries.visit(site, reach, names))
    return tries


if __name__ == "__main__":
    found = try_all(Reach(resolve))
    texts = [page.page.text for page in found.pages.values() if page.page]
    json.dump({"alone": found.alone, "reached": sorted(found.reached), "texts": texts}, sys.stdout)
