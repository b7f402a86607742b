"""Whatever a page tries in the browser, it reaches no near address that was not allowed."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.openapi.api import Api
from tests.tools.web.browser_pages import browsers, put, script_page
from tests.tools.web.near_ways import FILL, LEAVING, NEVER, WAYS, Tries, resolve, try_all
from wieldy import Toolbox
from wieldy.core.network.addresses import Reach

pytestmark = pytest.mark.needs("a browser's sandbox")


@pytest.fixture(scope="module")
def guarded() -> Tries:
    return try_all(Reach(resolve))


@pytest.fixture(scope="module")
def unguarded() -> Tries:
    """What the ways of one page reach where nothing holds them back: they do try."""
    return try_all(Reach(resolve, anywhere=True), ["staying"])


@pytest.mark.parametrize("name", WAYS)
def test_no_way_leads_a_page_to_a_near_address(name: str, guarded: Tries, unguarded: Tries) -> None:
    assert (name in unguarded.reached) is (name not in (*NEVER, *LEAVING))
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


def test_no_datagram_leaves_the_browser(guarded: Tries) -> None:
    assert "datagram" not in guarded.reached
    assert guarded.alone


def test_a_browser_without_a_network_of_its_own_is_guarded_by_its_proxy() -> None:
    """Root that may not make namespaces starts the browser as a system does that has none."""
    prefix = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    answer = subprocess.run(
        [*(prefix if os.geteuid() == 0 else ()), sys.executable, "-m", "tests.tools.web.near_ways"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = json.loads(answer.stdout)

    assert found["reached"] == []
    assert any("words were made" in text for text in found["texts"])
    assert found["alone"] is (os.geteuid() != 0)


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
