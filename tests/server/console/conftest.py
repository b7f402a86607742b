"""One Chromium and one served console for all tests of the console."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Response,
    async_playwright,
    expect,
)

from tests.server.console.served_console import Gateway, make_tools, seed_calls, serve_console
from wieldy.tools.web.browser_process import find_browser

# A user that systemd gives to services for as long as they run.
_USER = 65_000
_PATIENCE = 120_000
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
    for each in (folder, *folder.parents):
        with suppress(OSError):
            each.chmod(each.stat().st_mode | 0o011)
    wrapper = folder / "chromium"
    user = f"setpriv --reuid={_USER} --regid={_USER} --clear-groups"
    words = f'exec {user} env HOME="{home}" TMPDIR="{home}" "{browser}" "$@"'
    wrapper.write_text(f'#!/bin/sh\n{words} --user-data-dir="{home}/profile"\n')
    wrapper.chmod(0o755)
    return str(wrapper)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A Chromium with its sandbox on."""
    folder = tmp_path_factory.mktemp("browser")
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
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Gateway]:
    """A served console of one test, where nothing has happened yet."""
    with serve_console(make_tools(tmp_path)) as made:
        yield made


class OpenPage:
    """Opens pages of a console as one of the people.

    `wrong` has the errors of scripts, refused code and failed requests on these pages. A test
    that expects some empties it.
    """

    def __init__(self, browser: Browser) -> None:
        self.wrong: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def __call__(
        self, gateway: Gateway, path: str, who: str | None = "adam", **options: Any
    ) -> Page:
        """A page in a browser of its own, which has loaded."""
        headers = {} if who is None else {"Authorization": f"Bearer {who}-secret"}
        options = {"locale": "en-US", "viewport": {"width": 1280, "height": 800}, **options}
        context = await self._browser.new_context(extra_http_headers=headers, **options)
        self._contexts.append(context)
        context.set_default_timeout(_PATIENCE)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", self._listen)
        page.on("response", self._look)
        await page.goto(gateway.url + path)
        await page.wait_for_selector("main:not([aria-busy]) h1")
        return page

    def _listen(self, said: ConsoleMessage) -> None:
        # Chromium also notes each request that was refused, and pages tell people of these.
        if said.type == "error" and not said.text.startswith("Failed to load resource"):
            self.wrong.append(said.text)

    def _look(self, response: Response) -> None:
        if response.status >= 500 or (response.status >= 400 and "/console/" in response.url):
            self.wrong.append(f"{response.status}: {response.url}")

    async def close(self) -> None:
        """Close what was opened."""
        for context in self._contexts:
            await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser: Browser) -> AsyncIterator[OpenPage]:
    """Opens pages, and fails the test if something went wrong there."""
    opener = OpenPage(browser)
    yield opener
    await opener.close()
    assert opener.wrong == []
