"""Foreign documents that would keep their reader busy, in processes that are killed for it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from tests.execution.tree import tree_of
from tests.mcp.waiting import until
from tests.openapi.api import Api
from tests.tools.web.hostile_pdf import hostile_pdf, plain_pdf
from wieldy import Outcome, Status, Toolbox
from wieldy.tools.web import add_web_tools

ARTICLE = "<!doctype html><html><body><p>The blue whale eats krill.</p></body></html>"


@pytest.fixture
async def web() -> AsyncIterator[Toolbox]:
    """A toolbox that reads pages, and leaves no process behind."""
    before = tree_of(os.getpid())
    async with Toolbox() as box:
        add_web_tools(box, allow_private=True, timeout=12, browser=False)
        yield box
    await until(lambda: tree_of(os.getpid()) <= before)


async def read(box: Toolbox, *urls: str) -> Outcome:
    return await box.call("web_fetch", {"url_list": list(urls), "max_concurrent": 5})


async def test_small_pages_are_read_while_two_hundred_documents_keep_their_readers_busy(
    web: Toolbox, site: Api
) -> None:
    site.answer("/hostile", 200, hostile_pdf(), Content_Type="application/pdf")
    site.answer("/page", 200, ARTICLE, Content_Type="text/html")
    hostile = [asyncio.create_task(read(web, *[f"{site.url}/hostile"] * 10)) for _ in range(20)]
    await until(lambda: len(site.asked) >= 2)

    for _ in range(10):
        page = await read(web, f"{site.url}/page")
        assert "krill" in page.text
        # No thread of the program waits for a document.
        assert await asyncio.wait_for(asyncio.to_thread(int), 120) == 0
    assert not any(task.done() for task in hostile)

    ended = await asyncio.gather(*hostile)
    assert {each.status for each in ended} == {Status.ERROR}
    assert "takes too long" in "".join(each.text for each in ended)


async def test_the_pages_before_a_hostile_one_are_given(web: Toolbox, site: Api) -> None:
    site.answer("/doc", 200, hostile_pdf("One", "Two"), Content_Type="application/pdf")

    outcome = await read(web, f"{site.url}/doc")

    [page] = outcome.unwrap()
    assert page["content"].startswith("[page 1]\nOne\n\n[page 2]\nTwo\n\n[truncated")
    assert page["truncated"]


@pytest.mark.parametrize(
    "kind",
    ["application/octet-stream", "application/x-pdf", "Application/X-PDF", "application/download"],
)
async def test_a_document_that_begins_as_a_pdf_is_read_as_one(
    web: Toolbox, site: Api, kind: str
) -> None:
    site.answer("/doc", 200, plain_pdf("One whale"), Content_Type=kind)

    assert "One whale" in (await read(web, f"{site.url}/doc")).text


async def test_what_only_says_that_it_is_some_file_is_not_read(web: Toolbox, site: Api) -> None:
    site.answer("/doc", 200, b"One whale", Content_Type="application/octet-stream")

    assert "which has no text" in (await read(web, f"{site.url}/doc")).text


async def test_a_reader_that_is_killed_while_it_waits_is_replaced(web: Toolbox, site: Api) -> None:
    site.answer("/page", 200, ARTICLE, Content_Type="text/html")
    before = tree_of(os.getpid())
    await read(web, f"{site.url}/page")
    (reader,) = tree_of(os.getpid()) - before

    os.kill(reader, signal.SIGKILL)
    await until(lambda: reader not in tree_of(os.getpid()))
    for _ in range(2):
        # At first it may be found dead only when it is asked.
        outcome = await read(web, f"{site.url}/page")

    assert "krill" in outcome.text


def test_readers_serve_callers_on_any_loop(site: Api) -> None:
    site.answer("/page", 200, ARTICLE, Content_Type="text/html")
    box = Toolbox()
    add_web_tools(box, allow_private=True, browser=False)
    before = tree_of(os.getpid())

    texts = [asyncio.run(read(box, f"{site.url}/page")).text for _ in range(2)]
    texts.append(box.call_sync("web_fetch", {"url_list": [f"{site.url}/page"]}).text)

    assert all("krill" in text for text in texts)
    assert len(tree_of(os.getpid()) - before) == 1
    asyncio.run(box.close())
