"""Show a page in the browser and take its HTML as the page's scripts have made it."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wieldy.core.errors import ServiceError
from wieldy.core.network.addresses import Reach
from wieldy.core.short_text import cut_text, first_line
from wieldy.core.sync import LoopThread
from wieldy.core.task import time_limit

from .browser_process import Browser, BrowserProcess
from .filtering_proxy import FilteringProxy, ProxyPass

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

_CLOSE_SECONDS = 5.0
_CLOSE_ALL_SECONDS = 20.0
# A page is read when its text has not changed for a while, or its time is up.
_LOOK_SECONDS = 0.2
_STILL_LOOKS = 8
# The number of looks that are enough for a page that has text and loads nothing meanwhile.
_QUIET_LOOKS = 3
_MAX_PATIENCE = 10.0
_MAX_HTML = 1_000_000
# Text in shadow trees belongs to a page too, and is not part of its HTML. The page's own
# scripts can't change what these lines do: they run in a world of their own.
_TAKE = """(most => {
  const open = (root) => {
    for (const each of root.querySelectorAll("*")) {
      if (!each.shadowRoot) continue;
      open(each.shadowRoot);
      const inside = document.createElement("div");
      inside.append(...each.shadowRoot.childNodes);
      each.prepend(inside);
    }
  };
  open(document);
  const whole = document.documentElement ? document.documentElement.outerHTML : "";
  return {html: whole.slice(0, most), complete: whole.length <= most};
})(%d)"""
_MEASURE = """[document.readyState == "complete",
  document.body ? document.body.innerText.length : 0, document.getElementsByTagName("*").length]"""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """What a page has become: its address, its HTML, and whether that is all of it."""

    url: str
    html: str
    complete: bool


class PageRenderer:
    """Shows pages in a browser that is started when it is needed, on a loop of its own."""

    def __init__(self, settings: Browser, reach: Reach) -> None:
        self._settings = settings
        self._reach = reach
        self._lock = threading.Lock()
        self._home: _Home | None = None

    @property
    def held(self) -> bool:
        """Whether there may be a browser."""
        return self._home is not None

    async def render(self, url: str, seconds: float, most_bytes: int) -> RenderedPage:
        """The page at an address.

        Args:
            url: Where it is.
            seconds: How long its scripts may take.
            most_bytes: How much it may load, with all that belongs to it.

        Raises:
            ServiceError: It can't be shown, or is not allowed to be.
        """
        with self._lock:
            if self._home is None or self._home.pid != os.getpid():
                # A forked child has its parent's memory, but not its threads.
                self._home = _Home(self._settings, self._reach)
            home = self._home
        return await home.loop.perform(home.render(url, seconds, most_bytes))

    async def close(self) -> None:
        """End the browser; it is started again when it is needed."""
        with self._lock:
            home, self._home = self._home, None
        if home is not None and home.pid == os.getpid():
            await asyncio.wait_for(home.loop.perform(home.end()), _CLOSE_ALL_SECONDS)
            await asyncio.to_thread(home.loop.stop)


class _Home:
    """A loop on a thread of its own, and the browser that was started on it."""

    def __init__(self, settings: Browser, reach: Reach) -> None:
        self.pid = os.getpid()
        self.loop = LoopThread("wieldy-browser")
        self._settings = settings
        self._reach = reach
        self._turns = asyncio.Semaphore(settings.pages)
        self._starting = asyncio.Lock()
        self._process: BrowserProcess | None = None
        self._under_way: set[asyncio.Task[Any]] = set()

    async def render(self, url: str, seconds: float, most_bytes: int) -> RenderedPage:
        """Show a page when it is its turn."""
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            async with self._turns:
                try:
                    return await self._show(url, seconds, most_bytes)
                except _BrowserGone:
                    # It died while it was idle, which is noticed only when it is used.
                    return await self._show(url, seconds, most_bytes)
        finally:
            self._under_way.discard(task)

    async def _show(self, url: str, seconds: float, most_bytes: int) -> RenderedPage:
        process = await self._find_process()
        async with process.watched():
            return await _show_page(process, url, seconds, most_bytes)

    async def end(self) -> None:
        """End all pages that are under way, and the browser.

        Playwright has tasks of its own on this loop, which it needs to end the browser.
        """
        under_way = list(self._under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._process is not None:
            await self._process.close()

    async def _find_process(self) -> BrowserProcess:
        """The browser; a new one where there is none or it has died."""
        async with self._starting:
            if self._process is not None and not self._process.alive:
                await self._process.close()
                self._process = None
            if self._process is None:
                process = BrowserProcess(self._settings, FilteringProxy(self._reach))
                await process.start()
                self._process = process
            return self._process


class _BrowserGone(ServiceError):
    """The browser has ended before a page was shown in it."""


async def _show_page(
    process: BrowserProcess, url: str, seconds: float, most_bytes: int
) -> RenderedPage:
    # An extra, and heavy.
    from playwright.async_api import Error  # noqa: PLC0415

    given = process.proxy.issue(most_bytes)
    try:
        async with time_limit(seconds), _open_page(process, given) as page:
            return await _visit(page, url, given, min(seconds / 2, _MAX_PATIENCE))
    except TimeoutError:
        raise _find_reason(given, "its scripts did not come to an end") from None
    except Error as error:
        raise _find_reason(given, _short_reason(error)) from None
    finally:
        process.proxy.revoke(given)


@asynccontextmanager
async def _open_page(process: BrowserProcess, given: ProxyPass) -> "AsyncIterator[Page]":
    """An empty page that knows nothing of any other."""
    # An extra, and heavy.
    from playwright.async_api import Error  # noqa: PLC0415

    try:
        context = await process.browser.new_context(
            proxy={
                "server": f"http://127.0.0.1:{process.port}",
                "username": given.name,
                "password": given.secret,
            },
            accept_downloads=False,
            service_workers="block",
        )
    except Error as error:
        process.kill()
        raise _BrowserGone(f"the browser has ended: {_short_reason(error)}") from None
    try:
        yield await context.new_page()
    finally:
        # The page is cut off first, so that it has nothing to wait for.
        process.proxy.revoke(given)
        await _leave(process, context)


async def _visit(page: "Page", url: str, given: ProxyPass, patience: float) -> RenderedPage:
    # A page opens no windows; one that it opens all the same is closed.
    page.context.on("page", lambda other: asyncio.ensure_future(_close_quietly(other)))
    crashed = asyncio.Event()
    page.on("crash", lambda _: crashed.set())
    crash = asyncio.ensure_future(crashed.wait())
    work = asyncio.ensure_future(_read_page(page, url, given, patience))
    try:
        await asyncio.wait((work, crash), return_when=asyncio.FIRST_COMPLETED)
        if crash.done():
            raise ServiceError("it took too much memory to be shown")
        return work.result()
    finally:
        work.cancel()
        crash.cancel()
        await asyncio.gather(work, crash, return_exceptions=True)


async def _read_page(page: "Page", url: str, given: ProxyPass, patience: float) -> RenderedPage:
    await page.goto(url, wait_until="commit", timeout=patience * 1000)
    world = _World(await page.context.new_cdp_session(page))
    try:
        async with time_limit(patience):
            await _wait_until_still(world, given)
    except TimeoutError:
        # A page that never finishes is read as it is by now.
        pass
    taken = await world.evaluate(_TAKE % _MAX_HTML)
    _check_place(page.url, given)
    if not isinstance(taken, dict):
        raise ServiceError("it left before it could be read")
    return RenderedPage(page.url, str(taken["html"]), bool(taken["complete"]))


class _World:
    """A place beside a page's scripts, which sees the page and not what they have changed."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def evaluate(self, expression: str) -> Any:
        tree = await self._session.send("Page.getFrameTree")
        made = await self._session.send(
            "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]}
        )
        answer = await self._session.send(
            "Runtime.evaluate",
            {
                "expression": expression,
                "contextId": made["executionContextId"],
                "returnByValue": True,
            },
        )
        return answer["result"].get("value")


async def _wait_until_still(world: _World, given: ProxyPass) -> None:
    """Return when the page has loaded, its text stays as it is and nothing is on its way."""
    # An extra, and heavy.
    from playwright.async_api import Error  # noqa: PLC0415

    before: Any = None
    still = moved = 0
    while still < _STILL_LOOKS and given.left >= 0:
        try:
            now = await world.evaluate(_MEASURE)
        except Error:
            # The page is on its way to another one.
            now = None
        loaded = isinstance(now, list) and now[0]
        quiet = loaded and now == before
        still = still + 1 if quiet else 0
        if quiet and now[1] and given.left == moved and still >= _QUIET_LOOKS:
            return
        before, moved = now, given.left
        await asyncio.sleep(_LOOK_SECONDS)


def _check_place(url: str, given: ProxyPass) -> None:
    """Refuse what is no page of the web: where scripts and redirects have led must be allowed."""
    parts = urlsplit(url)
    if given.left < 0:
        raise _find_reason(given, "")
    if parts.scheme not in ("http", "https") or (parts.hostname or "") in given.refused:
        raise _find_reason(given, f"it led to {url:.100}, which is no page of the web")


def _find_reason(given: ProxyPass, otherwise: str) -> ServiceError:
    """Why a page was not shown: what the proxy refused says more than the browser does."""
    if given.left < 0:
        return ServiceError("it loads more bytes than are allowed")
    if given.refused:
        return next(iter(given.refused.values()))
    return ServiceError(f"it could not be shown: {otherwise}")


async def _leave(process: BrowserProcess, context: "BrowserContext") -> None:
    """Close a page with its cookies and all; a browser that can't is ended."""
    closing = asyncio.ensure_future(context.close())
    # The wait goes on if our caller is cancelled meanwhile: the page must not stay.
    done, _ = await asyncio.wait({closing}, timeout=_CLOSE_SECONDS)
    if not done:
        closing.cancel()
        process.kill()
    elif not closing.cancelled():
        closing.exception()


async def _close_quietly(page: "Page") -> None:
    # Its context may be closed before it is.
    with suppress(Exception):
        await page.close()


def _short_reason(error: Exception) -> str:
    return cut_text(first_line(error), 200)
