"""One Chromium and one served console for all tests of the console."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    async_playwright,
    expect,
)

from tests.machine import require
from tests.server.console.served_console import Gateway, make_tools, seed_calls, serve_console
from wieldy.tools.web.browser_process import find_browser

# A user that systemd gives to services for as long as they run.
_USER = 65_000
_PATIENCE = 120_000
WINDOW: Any = {"width": 1280, "height": 800}
expect.set_options(timeout=_PATIENCE)


def _write_wrapper(folder: Path) -> str:
    """The program to start: Chromium, whose sandbox refuses root, as another user."""
    browser = find_browser(None)
    if os.geteuid() != 0:
        return browser
    home = folder / "home"
    home.mkdir()
    os.chown(home, _USER, _USER)
    # Another user has to find the way there.
    folder.chmod(0o755)
    wrapper = folder / "chromium"
    user = f"setpriv --reuid={_USER} --regid={_USER} --clear-groups"
    words = f'exec {user} env HOME="{home}" TMPDIR="{home}" "{browser}" "$@"'
    wrapper.write_text(f'#!/bin/sh\n{words} --user-data-dir="{home}/profile"\n')
    wrapper.chmod(0o755)
    return str(wrapper)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A Chromium with its sandbox on."""
    require("a browser's sandbox")
    # Another run of the tests would close pytest's own folder to other users.
    folder = Path(tempfile.mkdtemp(prefix="wieldy-browser-"))
    downloads = folder / "downloads"
    downloads.mkdir()
    # The browser may be another user.
    downloads.chmod(0o777)
    async with async_playwright() as driver:
        made = await driver.chromium.launch(
            executable_path=_write_wrapper(folder),
            chromium_sandbox=True,
            downloads_path=downloads,
            args=["--disable-gpu", "--disable-crash-reporter"],
        )
        yield made
        await made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A served console with calls of many kinds, for tests that change nothing there."""
    with serve_console(make_tools(tmp_path_factory.mktemp("console"))) as made:
        seed_calls(made)
        made.lasting = True
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Gateway]:
    """A served console of one test, where nothing has happened yet."""
    with serve_console(make_tools(tmp_path)) as made:
        yield made


async def visit(page: Page, path: str) -> None:
    """Go to another page of the console as its links do, without loading everything anew."""
    script = "path => { history.pushState(null, '', path); dispatchEvent(new Event('popstate')) }"
    await page.evaluate(script, path)
    await page.wait_for_selector("main:not([aria-busy]) h1")


class OpenPage:
    """Opens pages of a console as one of the people.

    `wrong` has the errors of scripts, refused code, failed requests and requests to anybody else
    on these pages. A test that expects some empties it. The page of a console that all tests use
    is used by the next test too, which saves the time to load it.
    """

    def __init__(self, browser: Browser) -> None:
        self.wrong: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._idle: dict[str, Page] = {}
        self._lasting: dict[str, Page] = {}

    async def __call__(
        self, gateway: Gateway, path: str, who: str | None = "adam", **options: Any
    ) -> Page:
        """A page in a browser of its own, which has loaded."""
        options = {"locale": "en-US", "viewport": WINDOW, **options}
        key = repr((gateway.url, who, sorted(options.items())))
        page = self._idle.pop(key, None)
        if page is not None:
            await visit(page, path)
        else:
            page = await self._make_page(gateway.url, who, options)
            await page.goto(gateway.url + path)
            await page.wait_for_selector("main:not([aria-busy]) h1")
        if gateway.lasting and who is not None:
            self._lasting[key] = page
        return page

    async def _make_page(self, url: str, who: str | None, options: dict[str, Any]) -> Page:
        headers = {} if who is None else {"Authorization": f"Bearer {who}-secret"}
        context = await self._browser.new_context(extra_http_headers=headers, **options)
        self._contexts.append(context)
        context.set_default_timeout(_PATIENCE)
        context.on("request", lambda request: self._check_address(request, url))
        page = await context.new_page()
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", self._listen)
        page.on("response", self._look)
        return page

    def _listen(self, said: ConsoleMessage) -> None:
        # Chromium also notes each request that was refused, and pages tell people of these.
        if said.type == "error" and not said.text.startswith("Failed to load resource"):
            self.wrong.append(said.text)

    def _look(self, response: Response) -> None:
        if response.status >= 500 or (response.status >= 400 and "/console/" in response.url):
            self.wrong.append(f"{response.status}: {response.url}")

    def _check_address(self, request: Request, own: str) -> None:
        if not request.url.startswith((own, "data:", "blob:")):
            self.wrong.append(f"asked elsewhere: {request.url}")

    async def close(self) -> None:
        """Close what was opened, apart from what another test can use as it is."""
        kept = {key: page for key, page in self._lasting.items() if await self._is_clean(page)}
        self._lasting = {}
        self._idle |= kept
        idle = {page.context for page in self._idle.values()}
        for context in self._contexts:
            if context not in idle:
                await context.close()
        self._contexts = [*idle]

    async def _is_clean(self, page: Page) -> bool:
        """Whether a page is as it was, once it has left what it showed."""
        if page.is_closed() or page.viewport_size != WINDOW or len(page.context.pages) > 1:
            return False
        if await page.evaluate("localStorage.length || document.querySelector('.bare') !== null"):
            return False
        await visit(page, "/nothing")
        return True


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def page_opener(browser: Browser) -> OpenPage:
    """What opens the pages of all tests."""
    return OpenPage(browser)


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(page_opener: OpenPage) -> AsyncIterator[OpenPage]:
    """Opens pages, and fails the test if something went wrong there."""
    page_opener.wrong = []
    yield page_opener
    wrong = page_opener.wrong
    await page_opener.close()
    assert wrong == []
