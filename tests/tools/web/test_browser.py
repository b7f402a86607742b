"""Pages that need JavaScript, read in a real Chromium."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.child_process import ChildProcess
from tests.openapi.api import Api
from tests.tools.web.browser_pages import (
    browsers,
    command_line,
    environment,
    put,
    script_page,
    status_line,
)
from tests.tools.web.test_web_tools import ARTICLE, fetch, web_box
from wieldy import Status, Toolbox
from wieldy.core.errors import ServiceError
from wieldy.core.network.addresses import Reach
from wieldy.execution.process_tree import find_descendants
from wieldy.tools.web.browser_process import Browser
from wieldy.tools.web.page_renderer import PageRenderer
from wieldy.tools.web.web_tools import add_web_tools

pytestmark = pytest.mark.needs("a browser's sandbox")

WHALES = "app.innerHTML = '<h1>Whales</h1><p>The blue whale eats krill all day long.</p>'"


async def read(box: Toolbox, *urls: str) -> list[dict[str, Any]]:
    """The pages of some addresses; the box stays open."""
    outcome = await box.call("web_fetch", {"url_list": list(urls), "max_concurrent": 4})
    pages: list[dict[str, Any]] = outcome.unwrap()
    return pages


@pytest.mark.parametrize(
    "script",
    [
        f"setTimeout(() => {{ {WHALES} }}, 300)",
        "fetch('/data').then(r => r.json()).then(d => { app.innerHTML = `<p>${d.text}</p>` })",
        "customElements.define('x-y', class extends HTMLElement { connectedCallback() {"
        "this.attachShadow({mode: 'open'}).innerHTML = '<p>The blue whale eats krill.</p>' } });"
        "app.innerHTML = '<x-y></x-y>'",
        "location = '/whales'",
    ],
    ids=["later", "from data", "shadow tree", "another page"],
)
async def test_text_that_is_made_by_scripts_is_read(
    site: Api, browser_box: Toolbox, script: str
) -> None:
    site.answer("/data", 200, '{"text": "The blue whale eats krill."}')
    put(site, "/whales", script_page(WHALES))

    [page] = await read(browser_box, put(site, "/", script_page(script)))

    assert "blue whale eats krill" in page["content"]


async def test_a_page_that_needs_no_scripts_starts_no_browser(site: Api) -> None:
    before = set(browsers())
    async with web_box(browser=True) as box:
        site.answer("/text", 200, "short", Content_Type="text/plain")
        put(site, "/plain", "<html><body><p>short</p></body></html>")
        pages = await read(
            box, put(site, "/whales", ARTICLE), f"{site.url}/text", f"{site.url}/plain"
        )

        assert all("content" in page for page in pages)
        assert set(browsers()) == before


async def test_pages_keep_their_order_and_their_errors(site: Api, browser_box: Toolbox) -> None:
    made = put(site, "/made", script_page(WHALES))
    plain = put(site, "/plain", ARTICLE)

    pages = await read(browser_box, made, f"{site.url}/none?", plain, "ftp://x/", made)

    assert [page["url"] for page in pages] == [made, f"{site.url}/none?", plain, "ftp://x/", made]
    assert ["krill" in page.get("content", "") for page in pages] == [
        True, False, True, False, True,
    ]  # fmt: skip


async def test_a_long_page_of_a_script_is_cut_and_says_so(site: Api, browser_box: Toolbox) -> None:
    url = put(site, "/", script_page("app.innerHTML = '<p>whales </p>'.repeat(3_000)"))

    [page] = await read(browser_box, url)

    assert page["truncated"] is True
    assert len(page["content"]) < 11_000


async def test_nothing_is_kept_from_one_page_to_the_next(site: Api, browser_box: Toolbox) -> None:
    url = put(
        site,
        "/",
        script_page(
            "app.textContent = `I know: ${document.cookie}${localStorage.me || ''} of you`;"
            "document.cookie = 'me=known'; localStorage.me = 'known'"
        ),
    )

    for _ in range(2):
        [page] = await read(browser_box, url)
        assert "I know: of you" in " ".join(page["content"].split())
    assert not any("cookie" in each["headers"] for each in site.asked if each["path"] == "/")


async def test_a_page_opens_no_windows_and_saves_no_files(site: Api, browser_box: Toolbox) -> None:
    put(site, "/window", "<p>window</p>")
    site.answer("/file", 200, "data", Content_Disposition="attachment; filename=x.bin")
    storm = "for (let n = 0; n < 50; n++) window.open('/window');"
    url = put(site, "/", script_page(f"{WHALES};{storm}location = '/file'"))

    [page] = await read(browser_box, url)

    assert "krill" in page["content"]
    assert not any(each["path"] == "/window" for each in site.asked)


async def test_rights_are_not_given_to_a_page(site: Api, browser_box: Toolbox) -> None:
    ask = (
        "Promise.all(['geolocation', 'notifications', 'camera', 'microphone', 'clipboard-read']"
        ".map(name => navigator.permissions.query({name}))).then(all => {"
        "app.textContent = 'I may: ' + all.map(each => each.state).join() + ' and that is all' })"
    )

    [page] = await read(browser_box, put(site, "/", script_page(ask)))

    assert "granted" not in page["content"]
    assert "I may" in page["content"]


HOSTILE = {
    "endless script": ("for (;;) {}", 1, "did not come to an end"),
    "endless dialogs": ("for (;;) alert(1)", 1, "did not come to an end"),
    "memory": (
        "const a = []; setInterval(() => a.push(new Uint8Array(1e8).fill(1)))",
        120,
        "memory",
    ),
    "many bytes": ("for (let n = 0; n < 40; n++) fetch('/large?' + n)", 120, "more bytes than"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_page_that_takes_too_much_is_refused_and_the_next_is_shown(
    site: Api, name: str, hostile_renderer: PageRenderer
) -> None:
    script, seconds, said = HOSTILE[name]
    site.answer("/large", 200, b"x" * 100_000, Content_Type="text/plain")

    with pytest.raises(ServiceError, match=said):
        await hostile_renderer.render(put(site, "/", script_page(script)), seconds, 1_000_000)

    page = await hostile_renderer.render(put(site, "/", script_page(WHALES)), 120, 1_000_000)
    assert "krill" in page.html


async def test_a_page_that_never_finishes_is_read_as_it_is(
    site: Api, hostile_renderer: PageRenderer
) -> None:
    forever = "setInterval(() => { app.title = Math.random() });" + WHALES
    url = put(site, "/", script_page(f"{forever};new EventSource('/hang')"))

    page = await hostile_renderer.render(url, 4, 1_000_000)

    assert "krill" in page.html


async def test_what_a_page_says_to_its_console_stays_there(
    site: Api, hostile_renderer: PageRenderer
) -> None:
    loud = "const x = 'x'.repeat(1e7); console.log(x); setTimeout(() => { throw new Error(x) });"

    page = await hostile_renderer.render(put(site, "/", script_page(loud + WHALES)), 120, 1_000_000)

    assert "krill" in page.html
    assert len(page.html) < 10_000


@pytest.fixture(scope="module")
def hostile_renderer(renderers: Any) -> PageRenderer:
    """A browser that is allowed little."""
    renderer: PageRenderer = renderers(Browser(memory=600_000_000), Reach(anywhere=True))
    return renderer


async def test_the_browser_has_its_sandbox_and_no_rights_of_root(
    site: Api, browser_box: Toolbox
) -> None:
    await read(browser_box, put(site, "/", script_page(WHALES)))

    for browser in browsers():
        every = [browser, *find_descendants([browser])]
        words = [word for pid in every for word in command_line(pid)]
        users = {int(user) for pid in every for user in status_line(pid, "Uid").split()}
        assert not [word for word in words if word in ("--no-sandbox", "--single-process")]
        assert 0 not in users
        assert "--disable-quic" in words
        assert "--proxy-bypass-list=<-loopback>" in words
        # It has a network of its own, in which there is only the proxy.
        assert os.readlink(f"/proc/{browser}/ns/net") != os.readlink("/proc/self/ns/net")
        pages = [pid for pid in every if "--type=renderer" in command_line(pid)]
        assert {status_line(pid, "Seccomp") for pid in pages} <= {"2"}
        # The keys of the program are in its environment, and not in the browser's.
        assert not any("PYTEST_CURRENT_TEST" in environment(pid) for pid in every)


async def test_a_browser_or_a_driver_that_was_killed_is_started_again(site: Api) -> None:
    before = set(browsers())
    url = put(site, "/", script_page(WHALES))
    async with web_box(browser=True) as box:
        await read(box, url)
        [first] = set(browsers()) - before
        os.kill(first, signal.SIGKILL)

        [page] = await read(box, url)
        assert "krill" in page["content"]

        [second] = set(browsers()) - before - {first}
        os.kill(int(status_line(second, "PPid")), signal.SIGKILL)
        # The browser ends with its driver.
        wait_for_end(second)

        [page] = await read(box, url)
        assert "krill" in page["content"]


async def test_closing_ends_the_browser_its_driver_and_a_page_under_way(site: Api) -> None:
    before = set(find_descendants([os.getpid()]))
    box = web_box(browser=True)
    await read(box, put(site, "/", script_page(WHALES)))
    slow = put(site, "/slow", script_page("fetch('/begun').then(() => { for (;;) {} })"))
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def begin() -> tuple[int, dict[str, str], bytes]:
        loop.call_soon_threadsafe(begun.set)
        return 200, {}, b""

    site.answers["/begun"] = begin
    call = asyncio.ensure_future(box.call("web_fetch", {"url_list": [slow]}))
    await asyncio.wait_for(begun.wait(), 120)

    await box.close()

    await asyncio.gather(call, return_exceptions=True)
    for pid in set(find_descendants([os.getpid()])) - before:
        wait_for_end(pid)


PROGRAM = """
import asyncio, sys
from wieldy import Toolbox
from wieldy.tools.web import add_web_tools

async def main():
    box = Toolbox()
    add_web_tools(box, allow_private=True, browser=True)
    await box.call("web_fetch", {"url_list": [sys.argv[1]]})
    print("ready", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_nothing_stays_of_a_browser_whose_program_is_killed(site: Api, tmp_path: Path) -> None:
    url = put(site, "/", script_page(WHALES))
    with ChildProcess(
        [sys.executable, "-c", PROGRAM, url],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        every = [os.pidfd_open(pid) for pid in find_descendants([program.pid])]
        assert browsers(program.pid)

        program.kill()

        for each in every:
            assert select.select([each], [], [], 120)[0]
            os.close(each)
    assert list(tmp_path.iterdir()) == []


def test_root_that_can_not_become_another_user_starts_no_browser(site: Api) -> None:
    url = put(site, "/", script_page(WHALES))
    program = PROGRAM.replace("    await box.call", "    outcome = await box.call").partition(
        '    print("ready"'
    )[0]
    program += "    print(outcome.text)\n    await box.close()\n\nasyncio.run(main())\n"
    prefix = ["setpriv", "--bounding-set=-setuid", "--inh-caps=-setuid"]
    answer = subprocess.run(
        [*(prefix if os.geteuid() == 0 else ()), sys.executable, "-c", program, url],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    if os.geteuid() == 0:
        assert "run as a user that is not root" in answer.stdout
        assert len(site.asked) == 1
    else:
        assert "krill" in answer.stdout


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 120)[0]
    finally:
        os.close(handle)


async def test_a_page_without_a_browser_says_what_to_do(site: Api) -> None:
    url = put(site, "/", script_page(WHALES))
    async with web_box(browser=False) as box:
        outcome = await box.call("web_fetch", {"url_list": [url]})

    assert outcome.status is Status.ERROR
    assert "made by JavaScript" in outcome.text


async def test_a_page_with_little_text_of_its_own_is_given_with_a_note(site: Api) -> None:
    url = put(site, "/", script_page(WHALES, "<p>Please enable JavaScript to go on.</p>"))

    [page] = await fetch(url, box=web_box(browser=False))

    assert "enable JavaScript" in page["content"]
    assert "browser=False" in page["note"]


def test_a_browser_that_is_not_there_is_refused_with_what_to_install() -> None:
    with pytest.raises(ServiceError, match="apt-get install chromium"):
        add_web_tools(Toolbox(), browser=Browser("no-such-browser"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'No usable sandbox! Update your kernel' >&2; exit 1", "sandbox can't start here"),
        ('exec chromium --no-sandbox "$@"', "started with --no-sandbox"),
        ("echo 'libfoo.so is missing' >&2; exit 127", "libfoo.so is missing"),
    ],
    ids=["no sandbox", "turned off", "broken"],
)
async def test_a_browser_without_its_sandbox_is_not_used(
    site: Api, tmp_path: Path, script: str, said: str
) -> None:
    before = set(browsers())
    wrong = Path("/tmp") / f"wieldy-test-{os.getpid()}-chromium"
    wrong.write_text(f"#!/bin/sh\n{script}\n")
    wrong.chmod(0o755)
    try:
        async with web_box(browser=Browser(str(wrong))) as box:
            outcome = await box.call(
                "web_fetch", {"url_list": [put(site, "/", script_page(WHALES))]}
            )
    finally:
        wrong.unlink()

    assert said in outcome.text
    assert set(browsers()) <= before
    assert len(site.asked) == 1


async def test_robots_hold_for_where_a_script_leads(site: Api, browser_box: Toolbox) -> None:
    site.answer("/robots.txt", 200, "User-agent: *\nDisallow: /private\n")
    put(site, "/private", script_page(WHALES))
    url = put(site, "/", script_page("location = '/private'"))

    outcome = await browser_box.call("web_fetch", {"url_list": [url]})

    assert "robots.txt" in outcome.text


@pytest.mark.parametrize(("pages", "memory"), [(0, 1), (1, 0), (-1, 1)])
def test_limits_that_allow_nothing_are_refused(pages: int, memory: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Browser(pages=pages, memory=memory)
