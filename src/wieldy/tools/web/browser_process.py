"""One Chromium that shows foreign pages: found, started with its sandbox on, watched, ended."""

import asyncio
import os
import pwd
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wieldy.core.errors import ServiceError
from wieldy.core.short_text import first_line
from wieldy.core.task import time_limit
from wieldy.execution.process_tree import find_descendants, read_process, send_signal

from .filtering_proxy import FilteringProxy

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import Playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LAUNCHER = Path(__file__).with_name("browser_launcher.py")
_START_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_WATCH_SECONDS = 0.25
# All processes of the browser together may take so many times what one of them may.
_TOGETHER = 4
_SIGKILL = 9
# Users that systemd gives to services for as long as they run, and nobody else.
_PASSING_USERS = range(61184, 65520)
_ARGUMENTS = (
    # Nothing but the proxy is a way out: no UDP beside it, and no names looked up here.
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # The same by the name that older versions know.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-bypass-list=<-loopback>",
    "--disable-crash-reporter",
    "--disable-gpu",
    "--autoplay-policy=user-gesture-required",
    # The text of a page is read, and pictures would use up its bytes.
    "--blink-settings=imagesEnabled=false",
)
# With the first of these, Playwright would let pages open windows as they like.
_UNWANTED = ["--disable-popup-blocking", "--enable-unsafe-swiftshader"]
_UNSAFE = ("--no-sandbox", "--disable-seccomp-filter-sandbox", "--single-process")
_NO_SANDBOX = (
    "Chromium's sandbox can't start here, and foreign pages are not shown without it. Allow "
    "user namespaces to unprivileged users (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0), or install the package chromium-sandbox. "
    "In a container, allow them in its security profile."
)


@dataclass(frozen=True, slots=True)
class Browser:
    """How pages are shown whose text is made by JavaScript.

    Attributes:
        executable: Chromium or Chrome; without it the one that is on the PATH.
        pages: How many pages are shown at the same time.
        memory: How many bytes one page may take. All together may take four times as many.

    Example:
        `add_web_tools(box, browser=Browser("/opt/chromium/chrome"))`
    """

    executable: str | None = None
    pages: int = 4
    memory: int = 1_000_000_000

    def __post_init__(self) -> None:
        if self.pages < 1 or self.memory < 1:
            raise ValueError("pages and memory are 1 or more.")


def find_browser(executable: str | None) -> str:
    """The path of the browser.

    Raises:
        ServiceError: The extra or the browser is not installed; it says how to install it.
    """
    if find_spec("playwright") is None:
        raise ServiceError(
            "Reading pages that need JavaScript needs the extra `browser`: "
            'pip install "wieldy[browser]"'
        )
    found = (shutil.which(name) for name in ((executable,) if executable else _NAMES))
    path = next((each for each in found if each), None)
    if path is None:
        said = f"{executable!r} can't be run" if executable else "there is no Chromium on the PATH"
        raise ServiceError(
            f"Reading pages that need JavaScript needs Chromium, and {said}. On Debian: "
            "apt-get install chromium chromium-sandbox"
        )
    return os.path.abspath(path)


class BrowserProcess:
    """A running browser with the proxy that is its only way out.

    Everything here runs on the loop that started it.
    """

    def __init__(self, settings: Browser, proxy: FilteringProxy) -> None:
        self.proxy = proxy
        self.pid = 0
        self.port = 0
        self._settings = settings
        self._driver: Playwright | None = None
        self._browser: PlaywrightBrowser | None = None
        self._driver_pid = 0
        self._shown = 0
        self._watch: asyncio.Task[None] | None = None

    @property
    def browser(self) -> "PlaywrightBrowser":
        """The browser, as Playwright knows it."""
        assert self._browser is not None
        return self._browser

    @property
    def alive(self) -> bool:
        """Whether it can show another page."""
        if self._browser is None or not self._browser.is_connected():
            return False
        # The connection learns of a death only when the loop gets to it.
        facts = read_process(self.pid)
        return facts.state not in "ZX" if facts else not os.path.exists("/proc")

    async def start(self) -> None:
        """Start the proxy, Playwright's driver and the browser.

        Raises:
            ServiceError: It does not start; it says what to do.
        """
        path = find_browser(self._settings.executable)
        # An extra, and heavy.
        from playwright.async_api import Error, async_playwright  # noqa: PLC0415

        try:
            async with time_limit(_START_SECONDS):
                self.port = await self.proxy.listen()
                self._driver = await async_playwright().start()
                await self._launch(path)
        except TimeoutError:
            await self.close()
            raise ServiceError(f"{path} did not start within {_START_SECONDS:g} s") from None
        except Error as error:
            await self.close()
            raise _explain_failure(path, str(error)) from None
        except BaseException:
            await self.close()
            raise

    async def _launch(self, path: str) -> None:
        assert self._driver is not None
        folder = tempfile.mkdtemp(prefix="wieldy-browser-")
        try:
            with socket.socket(socket.AF_UNIX) as control:
                control.bind(os.path.join(folder, "control"))
                control.listen(1)
                hello = asyncio.ensure_future(_receive_hello(control))
                try:
                    self._browser = await self._driver.chromium.launch(
                        executable_path=_write_wrapper(folder, path, self.port),
                        chromium_sandbox=True,
                        args=list(_ARGUMENTS),
                        ignore_default_args=_UNWANTED,
                        proxy={"server": f"http://127.0.0.1:{self.port}"},
                        # Keys of the program are nothing for a browser.
                        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                    )
                    await hello
                finally:
                    await self._greet(hello)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        _check_arguments(self.pid)

    async def _greet(self, hello: "asyncio.Task[tuple[int, socket.socket | None]]") -> None:
        """Take what the launcher sent, also where the browser has ended since."""
        if not hello.done():
            hello.cancel()
            return
        self.pid, listener = hello.result()
        own = read_process(self.pid)
        self._driver_pid = own.parent if own else 0
        if listener is not None:
            await self.proxy.listen(listener)

    async def close(self) -> None:
        """End the browser, the driver and the proxy."""
        with suppress(Exception):
            async with time_limit(_CLOSE_SECONDS):
                if self._browser is not None:
                    await self._browser.close()
        self.kill()
        with suppress(Exception):
            async with time_limit(_CLOSE_SECONDS):
                if self._driver is not None:
                    await self._driver.stop()
        if self._driver_pid in find_descendants([os.getpid()]):
            send_signal(self._driver_pid, _SIGKILL)
        await self.proxy.close()

    def kill(self) -> None:
        """End the browser at once. Its children end with it."""
        if self.pid:
            send_signal(self.pid, _SIGKILL)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch the memory of the browser while pages are shown."""
        self._shown += 1
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._watch_memory())
        try:
            yield
        finally:
            self._shown -= 1
            if not self._shown and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def _watch_memory(self) -> None:
        """End a page that takes too much; end the browser if all of them or the driver do."""
        most = self._settings.memory
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            driver = read_process(self._driver_pid)
            below = find_descendants([self.pid])
            for pid, facts in below.items():
                if facts.resident > most:
                    send_signal(pid, _SIGKILL)
            together = sum(facts.resident for facts in below.values())
            if together > most * _TOGETHER or (driver and driver.resident > most):
                self.kill()


def _write_wrapper(folder: str, browser: str, port: int) -> str:
    """The program that Playwright starts in place of the browser."""
    words = [sys.executable, "-I", "-S", str(_LAUNCHER), os.path.join(folder, "control")]
    words += [str(_choose_user()), str(port), browser]
    path = os.path.join(folder, "launch")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    os.chmod(path, 0o700)
    return path


def _choose_user() -> int:
    """The user that the browser runs as; -1 for our own, unless we are root.

    Root gives it a user that nobody else is, so that nothing else can be signalled or read.
    """
    if os.geteuid() != 0:
        return -1
    taken = {each.pw_uid for each in pwd.getpwall()} | set(_users_of_processes())
    free = [uid for uid in _PASSING_USERS if uid not in taken]
    return free[os.getpid() % len(free)]


def _users_of_processes() -> list[int]:
    users = []
    for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError):
            if entry.name.isdigit():
                users.append(entry.stat().st_uid)
    return users


async def _receive_hello(control: socket.socket) -> tuple[int, socket.socket | None]:
    """The pid of the browser, and the socket in its own network where it has one."""
    control.setblocking(False)
    loop = asyncio.get_running_loop()
    link, _ = await loop.sock_accept(control)
    with link:
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(link, ready.set_result, None)
        try:
            await ready
        finally:
            loop.remove_reader(link)
        said, sent, _, _ = socket.recv_fds(link, 100, 1)
    listener = socket.socket(fileno=sent[0]) if sent else None
    return int(said.split()[0]), listener


def _check_arguments(pid: int) -> None:
    """Refuse a browser that something between us and it has started without its sandbox."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return
    unsafe = [word for word in words if word.startswith(_UNSAFE)]
    if unsafe:
        raise ServiceError(
            f"The browser was started with {unsafe[0]}, by its own script or its settings, and "
            "foreign pages are not shown without its sandbox. Remove it there."
        )


def _explain_failure(path: str, said: str) -> ServiceError:
    if "sandbox" in said.partition("<launched>")[2]:
        return ServiceError(_NO_SANDBOX)
    told = [line.partition("[err]")[2].strip() for line in said.splitlines() if "[err]" in line]
    reason = told[-1] if told else first_line(said)
    return ServiceError(f"{path} did not start: {reason:.300}")
